// npm run release: checks that this commit can be released, and builds all artefacts into
// dist/release. It publishes nothing: .github/workflows/release.yml does.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { type Artefact, buildArtefacts } from "./artefacts.ts";
import { faultsOf, notesOf } from "./checks.ts";
import { measureStarts } from "./measure.ts";
import { sizesTable, startsTable, withTable } from "./tables.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const OUTPUT = join(ROOT, "dist/release");
const PAGE = join(ROOT, "docs/installing.md");

interface Flags {
  readonly dryRun?: true;
  readonly measure?: true;
}

const flags = new Command("npm run release --")
  .usage("[options]")
  .description(
    "Checks that this commit can be released, and builds all artefacts into dist/release. See docs/releasing.md.",
  )
  .option("--dry-run", "reports faults and builds anyway")
  .option("--measure", "also measures starts, and writes the tables of docs/installing.md")
  .parse()
  .opts<Flags>();
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");
const git = (...args: string[]): string[] =>
  execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).split("\n").filter(Boolean);

const { version } = JSON.parse(read("package.json"));
const changelog = read("CHANGELOG.md");
const faults = faultsOf({
  version,
  locked: JSON.parse(read("package-lock.json")).version,
  ofClient: JSON.parse(read("src/client/package.json")).version,
  changelog,
  tags: git("tag", "--points-at", "HEAD"),
  changed: git("status", "--porcelain"),
});
for (const fault of faults) console.error(fault);
if (faults.length > 0 && !flags.dryRun) {
  console.error("Nothing was built. --dry-run builds anyway.");
  process.exit(1);
}
const artefacts = await buildArtefacts({
  root: ROOT,
  version,
  notes: notesOf({ version, changelog }),
  output: OUTPUT,
  onBuilt: ({ file, bytes, seconds }: Artefact) =>
    console.log(`${basename(file)}: ${(bytes / 1e6).toFixed(2)} MB in ${seconds.toFixed(0)} s`),
});
if (flags.measure) {
  const rows = [];
  for (const [name, command] of [
    [
      "sources",
      ["env", "MALLOC_MMAP_THRESHOLD_=262144", join(ROOT, "bin/node"), join(ROOT, "src/server/main.ts")],
    ],
    ["bundle", [join(ROOT, "bin/runnerbean")]],
    ["executable", [artefacts[0]!.file]],
  ] as const) {
    const plain = await measureStarts(command, []);
    rows.push({ name, plain, withHttp: await measureStarts(command, ["--http", "0"]) });
  }
  const page = withTable(readFileSync(PAGE, "utf8"), "sizes", sizesTable(artefacts));
  writeFileSync(PAGE, withTable(page, "starts", startsTable(rows)));
}
console.log(
  `${OUTPUT}: ${faults.length === 0 ? "ready to publish" : `${faults.length} faults to fix first`}`,
);
