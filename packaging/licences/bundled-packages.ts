// Third-party packages whose code is in the bundle, and their licences.

import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface BundledPackage {
  readonly name: string;
  readonly version: string;
  /** SPDX expression. */
  readonly license: string;
  /** The file with the licence, or undefined if the package has none. */
  readonly text: string | undefined;
}

/** The package to which a file belongs. */
const FOLDER = /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/;

/** Returns the packages of the files, whose paths are below `root`, by name. */
export function packagesOf(root: string, files: Iterable<string>): readonly BundledPackage[] {
  const folders = new Set([...files].flatMap((file) => FOLDER.exec(file)?.[0] ?? []));
  const packages = [...folders].sort().map((folder) => packageIn(join(root, folder)));
  // npm may install several copies of a package.
  const byId = new Map(packages.map((each) => [`${each.name}@${each.version}`, each]));
  return [...byId.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
}

function packageIn(folder: string): BundledPackage {
  const manifest = join(folder, "package.json");
  if (!existsSync(manifest)) throw new Error(`${manifest} is missing: npm ci installs it`);
  const { name, version, license } = JSON.parse(readFileSync(manifest, "utf8"));
  if (typeof license !== "string")
    throw new Error(`${manifest} names no licence: don't bundle ${name}, or ask its authors`);
  const [file] = globSync("{LICEN[CS]E,licen[cs]e,COPYING}*", { cwd: folder }).sort();
  const text = file === undefined ? undefined : readFileSync(join(folder, file), "utf8").trim();
  return { name, version, license, text };
}

/** Returns the report: each package, and each licence text once, with its packages. */
export function licenceReport(packages: readonly BundledPackage[]): string {
  const lines = packages.map(({ name, version, license }) => `${name} ${version}: ${license}`);
  const texts = Map.groupBy(packages, ({ text }) => text);
  const sections = [...texts].flatMap(([text, all]) =>
    text === undefined ? [] : [`${all.map(({ name }) => name).join(", ")}\n\n${text}`],
  );
  const line = "-".repeat(80);
  return `runnerbean contains code of these packages:\n\n${lines.join("\n")}\n\n${sections
    .map((section) => `${line}\n${section}\n`)
    .join("\n")}`;
}
