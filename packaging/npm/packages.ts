// The packages for npm's registry, as files:
//
// - runnerbean: the bundle, the launcher and the documents; its only dependency is Node;
// - @runnerbean/client: the client alone, without dependencies;
// - @runnerbean/node-linux-ARCH: Node itself. Others have 67 MB of headers for C, too.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import manifest from "../../package.json" with { type: "json" };
import client from "../../src/client/package.json" with { type: "json" };
import { ARCHITECTURES, type Architecture, copyStrippedNode, NODE_VERSION, nodePackage } from "../node.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const { version, repository, bugs } = manifest;

/**
 * Lets npm pack the files that `fill` writes into an empty folder, with the package.json that it
 * returns. Returns the path of the package in `output`.
 */
function packed(output: string, fill: (folder: string) => object): string {
  mkdirSync(output, { recursive: true });
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-package-"));
  try {
    const filled = fill(folder);
    writeFileSync(join(folder, "package.json"), `${JSON.stringify(filled, undefined, 2)}\n`);
    const npm = ["pack", "--silent", "--ignore-scripts", "--pack-destination", output];
    return join(output, execFileSync("npm", npm, { cwd: folder, encoding: "utf8" }).trim());
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const nodeName = (architecture: Architecture): string => `@runnerbean/node-linux-${architecture}`;

/** Packs the server: `built` is the folder that `npm run build` writes. */
export function packServer(built: string, output: string): string {
  return packed(output, (folder) => {
    for (const path of ["README.md", "LICENSE", ...manifest.files]) {
      const [, inDist] = /^dist\/(.*)/.exec(path) ?? [];
      const from = inDist === undefined ? join(ROOT, path) : join(built, inDist);
      cpSync(from, join(folder, path), { recursive: true });
    }
    const { scripts, devDependencies, workspaces, allowScripts, ...kept } = manifest;
    const nodes = ARCHITECTURES.map((each) => [nodeName(each), NODE_VERSION]);
    return { ...kept, optionalDependencies: Object.fromEntries(nodes) };
  });
}

/** Packs the client: `built` is the folder that `npm run build` writes. */
export function packClient(built: string, output: string): string {
  return packed(output, (folder) => {
    cpSync(join(built, "client"), folder, { recursive: true });
    cpSync(join(ROOT, "LICENSE"), join(folder, "LICENSE"));
    cpSync(join(ROOT, "src/client/README.md"), join(folder, "README.md"));
    const { private: _, ...kept } = client;
    return {
      ...kept,
      version,
      repository: { ...repository, directory: "src/client" },
      bugs,
      exports: {
        ".": {
          import: { types: "./client.d.ts", default: "./client.js" },
          require: { types: "./client.d.cts", default: "./client.cjs" },
        },
        "./package.json": "./package.json",
      },
      // For compilers and bundlers that don't read `exports`.
      main: "./client.cjs",
      types: "./client.d.cts",
    };
  });
}

/** Packs Node for an architecture: the program without its symbols, and its licences. */
export function packNode(architecture: Architecture, output: string): string {
  return packed(output, (folder) => {
    mkdirSync(join(folder, "bin"));
    copyStrippedNode(architecture, join(folder, "bin/node"));
    cpSync(join(nodePackage(architecture), "LICENSE"), join(folder, "LICENSE"));
    cpSync(join(ROOT, "packaging/npm/node-readme.md"), join(folder, "README.md"));
    return {
      name: nodeName(architecture),
      version: NODE_VERSION,
      description: `Node ${NODE_VERSION} for runnerbean on Linux, ${architecture}`,
      homepage: "https://nodejs.org",
      repository,
      license: "MIT",
      os: ["linux"],
      cpu: [architecture],
      libc: ["glibc"],
      files: ["bin/node"],
    };
  });
}
