// Tests of the packages for npm's registry, installed from their files into empty folders, where
// npm may fetch nothing.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { cpSync, globSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { writeBundle } from "../../packaging/bundle/write-bundle.ts";
import { clientFiles } from "../../packaging/client/client-files.ts";
import { HERE, nodePackage } from "../../packaging/node.ts";
import { packClient, packNode, packServer } from "../../packaging/npm/packages.ts";
import { LINK } from "../support/document-links.ts";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { bundleServer } from "../support/server/server-bundle.ts";
import { ServerProcess } from "../support/server/server-process.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** `npm run packaging` also packs Node and fetches other compilers and runtimes. */
const isWhole = process.env["PACKAGING"] === "whole";
const WHY_NOT = "fetches or compresses 100 MB and more: npm run packaging";

/** The kind of modules that a compiler wants for a way to resolve them, if it isn't named alike. */
const MODULES: Readonly<Record<string, string>> = { node10: "commonjs", bundler: "esnext" };

/** Puts and deletes a job. */
const USE = `
  const queue = await connect(process.argv[2]);
  const { id } = await queue.put("mails", "hello");
  await queue.job(id).delete();
  await queue.close();
  console.log(id > 0, new NotFound("", "") instanceof QueueError, text().decode(new Uint8Array([104, 105])));
`;
const NAMES = "{ connect, NotFound, QueueError, text }";
const program = (name: string): Readonly<Record<string, string>> => ({
  "use.mjs": `import ${NAMES} from "${name}";\n${USE}`,
  "use.cjs": `const ${NAMES} = require("${name}");\n(async () => {${USE}})();`,
  // Both at once: a class is the same, whichever way it came.
  "both.mjs": `import { createRequire } from "node:module";\nimport { Closed } from "${name}";
    console.log(createRequire(import.meta.url)("${name}").Closed === Closed);`,
});

/** The same in TypeScript, as both kinds of modules. */
const TYPED = `
interface Mail { to: string }
async function use(): Promise<string> {
  const queue: Queue<Mail> = await connect("h", { codec: json<Mail>(), tls: { ca: "x" } });
  const job: Job<Mail> = await queue.reserve();
  // @ts-expect-error a mail has an address
  await queue.put("t", {});
  return job.body.to;
}
void use;
`;
const IMPORTED = 'import { connect, json, type Job, type Queue } from "@runnerbean/client";';

describe("the packages", () => {
  const output = temporaryFolder({ after }, "packages");
  let server: string;
  let client: string;

  before(async () => {
    const built = join(output, "built");
    cpSync(dirname(process.env["SERVER_BUNDLE"] ?? (await bundleServer())), built, { recursive: true });
    writeBundle(await clientFiles(), join(built, "client"));
    server = packServer(built, output);
    client = packClient(built, output);
  });

  /** Installs packages in an empty folder, and returns it. */
  function installed(t: TestContext, ...packages: readonly string[]): string {
    const folder = temporaryFolder(t, "installed");
    writeFileSync(join(folder, "package.json"), "{}");
    const npm = ["install", "--offline", "--omit=optional", "--no-audit", "--no-fund", ...packages];
    execFileSync("npm", npm, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
    return folder;
  }

  /** The server of the package, with this machine's Node in the place of our package of it. */
  function withNode(folder: string): string {
    const nodes = join(folder, "node_modules/@runnerbean");
    mkdirSync(nodes, { recursive: true });
    symlinkSync(nodePackage(HERE), join(nodes, `node-linux-${HERE}`));
    return join(folder, "node_modules/runnerbean/bin/runnerbean");
  }

  async function started(t: TestContext, launcher: string): Promise<string> {
    const child = spawn(launcher, ["-p", "0"], { cwd: "/", env: { PATH: "/usr/bin:/bin" } });
    const process = new ServerProcess("ours", child, 0, undefined);
    t.after(() => process.kill());
    const port = await eventually(
      () => process.stderr,
      () => /serves on [\d.]+:(\d+)/.exec(process.stderr)?.[1],
    );
    return `127.0.0.1:${port}`;
  }

  const run = (command: string, args: readonly string[], cwd: string): string =>
    execFileSync(command, args, { cwd, encoding: "utf8", timeout: 120_000 });

  /** Runs the programs with the client in `folder`. */
  function usesClient(folder: string, name: string, address: string, node = process.execPath): void {
    for (const [file, code] of Object.entries(program(name))) {
      writeFileSync(join(folder, file), code);
      const prints = file.startsWith("both") ? "true\n" : "true true hi\n";
      assert.equal(run(node, [file, address], folder), prints, file);
    }
  }

  it("of the server needs nothing but Node, and has the client", async (t) => {
    const folder = installed(t, server);
    assert.deepEqual(globSync("node_modules/*", { cwd: folder }), ["node_modules/runnerbean"]);
    const launcher = withNode(folder);
    const manifest = JSON.parse(readFileSync(join(folder, "node_modules/runnerbean/package.json"), "utf8"));
    assert.equal(run(launcher, ["--version"], "/"), `runnerbean ${manifest.version}\n`);
    usesClient(folder, "runnerbean/client", await started(t, launcher));
  });

  it("of the client has at most 100 kB, and works in both kinds of modules", async (t) => {
    const folder = installed(t, client, server);
    const home = join(folder, "node_modules/@runnerbean/client");
    const files = globSync("*", { cwd: home });
    const bytes = files.reduce((sum, file) => sum + statSync(join(home, file)).size, 0);
    assert.ok(bytes <= 100_000, `${bytes} bytes`);
    assert.ok(!globSync("**/*", { cwd: home }).includes("node_modules"));
    usesClient(folder, "@runnerbean/client", await started(t, withNode(folder)));
    const readme = readFileSync(join(home, "README.md"), "utf8");
    const links = [...readme.matchAll(LINK)].map(([, target]) => target!);
    assert.ok(links.length > 0);
    for (const link of links) assert.match(link, /^https:/);
  });

  /** Checks the types as a compiler sees them. */
  function typeChecks(t: TestContext, tsc: string, types: string, resolutions: readonly string[]): void {
    const folder = installed(t, client);
    mkdirSync(join(folder, "node_modules/@types"));
    symlinkSync(types, join(folder, "node_modules/@types/node"));
    writeFileSync(join(folder, "use.mts"), IMPORTED + TYPED);
    writeFileSync(join(folder, "use.cts"), IMPORTED + TYPED);
    for (const moduleResolution of resolutions) {
      const compilerOptions = {
        target: "es2022",
        module: MODULES[moduleResolution] ?? moduleResolution,
        moduleResolution,
        strict: true,
        noEmit: true,
        // With "false", the types of the package are checked, too.
        skipLibCheck: false,
        types: ["node"],
      };
      const settings = { compilerOptions, files: ["use.mts", "use.cts"] };
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(settings));
      const { stdout } = runTsc(tsc, folder);
      assert.equal(stdout, "", `${tsc} with ${moduleResolution}`);
    }
  }

  function runTsc(tsc: string, folder: string): { readonly stdout: string } {
    try {
      return { stdout: run(process.execPath, [tsc, "-p", folder], folder) };
    } catch (error) {
      return error as { stdout: string };
    }
  }

  it("have types for this compiler", (t) => {
    const packages = join(ROOT, "node_modules");
    typeChecks(t, join(packages, "typescript/bin/tsc"), join(packages, "@types/node"), [
      "nodenext",
      "bundler",
    ]);
  });

  /** Lets npm fetch packages into a folder of their own. */
  function fetched(t: TestContext, ...packages: readonly string[]): string {
    const folder = temporaryFolder(t, "fetched");
    writeFileSync(join(folder, "package.json"), "{}");
    const npm = ["install", "--ignore-scripts", "--no-bin-links", "--no-audit", "--no-fund", ...packages];
    execFileSync("npm", npm, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
    return join(folder, "node_modules");
  }

  it("have types for other compilers, from TypeScript 5.0 on", (t) => {
    if (!isWhole) return t.skip(WHY_NOT);
    const versions = ["5.0.4", "5.4.5", "5.9.3", "6.0.3"];
    const names = versions.map((version) => `typescript-${version}@npm:typescript@${version}`);
    const packages = fetched(t, "@types/node@20", ...names);
    for (const version of versions) {
      const tsc = join(packages, `typescript-${version}/bin/tsc`);
      const resolutions = ["node16", "bundler", ...(version.startsWith("5") ? ["node10"] : [])];
      typeChecks(t, tsc, join(packages, "@types/node"), resolutions);
    }
  });

  it("of the client work on the oldest Node, Bun and Deno", async (t) => {
    if (!isWhole) return t.skip(WHY_NOT);
    const folder = installed(t, client, server);
    const address = await started(t, withNode(folder));
    const packages = fetched(t, `node-linux-${HERE}@20`, "bun", "deno");
    usesClient(folder, "@runnerbean/client", address, join(packages, `node-linux-${HERE}/bin/node`));
    usesClient(folder, "@runnerbean/client", address, globSync(join(packages, "@oven/*/bin/bun"))[0]);
    const [deno] = globSync(join(packages, "@deno/linux-*/deno"));
    assert.equal(run(deno!, ["run", "-A", "use.mjs", address], folder), "true true hi\n");
  });

  it("of Node start the server", async (t) => {
    if (!isWhole) return t.skip(WHY_NOT);
    const node = packNode(HERE, output);
    const folder = installed(t, server, node);
    const home = join(folder, `node_modules/@runnerbean/node-linux-${HERE}`);
    assert.deepEqual(globSync("**/*", { cwd: home }).sort(), [
      ...["LICENSE", "README.md", "bin", "bin/node", "package.json"],
    ]);
    await started(t, join(folder, "node_modules/runnerbean/bin/runnerbean"));
  });
});
