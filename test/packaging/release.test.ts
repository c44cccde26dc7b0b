// Tests of `npm run release`: what it refuses, the notes, the bill of materials and the tables.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { bundledPackages } from "../../packaging/bundle/bundle.ts";
import { licenceReport } from "../../packaging/licences/bundled-packages.ts";
import { billOfMaterials } from "../../packaging/release/bill-of-materials.ts";
import { faultsOf, notesOf, type State } from "../../packaging/release/checks.ts";
import { sizesTable, withTable } from "../../packaging/release/tables.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

const GOOD: State = {
  version: "1.2.3",
  locked: "1.2.3",
  ofClient: "1.2.3",
  changelog:
    "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-11-23\n\n### Fixed\n\n- A.\n\n## [1.2.2] - 2026-11-01\n\n- B.\n",
  tags: ["v1.2.3"],
  changed: [],
};

describe("a release", () => {
  it("of a commit that is ready has no faults, and the notes of its version", () => {
    assert.deepEqual(faultsOf(GOOD), []);
    assert.equal(notesOf(GOOD), "### Fixed\n\n- A.");
  });

  const bad: [name: string, change: Partial<State>, says: RegExp][] = [
    ["no version", { version: "1.2" }, /"1\.2" is not a version/],
    ["another version in the lock file", { locked: "1.2.2" }, /package-lock\.json is for 1\.2\.2/],
    ["another version of the client", { ofClient: "1.2.2" }, /src\/client\/package\.json is for 1\.2\.2/],
    [
      "a version that the changelog lacks",
      { changelog: GOOD.changelog.replace("[1.2.3]", "[1x2.3]") },
      /has no line "## \[1\.2\.3\] - /,
    ],
    [
      "a version without changes",
      { changelog: GOOD.changelog.replace(/### Fixed\n\n- A\.\n/, "") },
      /has no entry/,
    ],
    [
      "changes that are in no version",
      { changelog: GOOD.changelog.replace("[Unreleased]\n", "[Unreleased]\n\n- C.\n") },
      /changes under \[Unreleased\]/,
    ],
    [
      "no place for the next changes",
      { changelog: GOOD.changelog.replace("[Unreleased]", "[x]") },
      /: add it$/,
    ],
    ["no tag", { tags: ["v1.2.2"] }, /no tag v1\.2\.3: git tag/],
    ["a file that is not committed", { changed: [" M README.md"] }, /^Not committed: {2}M README\.md$/],
  ];
  for (const [name, change, says] of bad) {
    it(`refuses ${name}`, () => {
      const faults = faultsOf({ ...GOOD, ...change });
      assert.ok(
        faults.some((fault) => says.test(fault)),
        faults.join("\n"),
      );
    });
  }

  it("lists each bundled package and Node in its bill of materials and its licences", async () => {
    const packages = await bundledPackages();
    const names = packages.map(({ name }) => name);
    for (const name of ["fastify", "lit-html", "uplot", "pino", "piscina"])
      assert.ok(names.includes(name), name);
    for (const name of ["typescript", "fast-check", "esbuild"]) assert.ok(!names.includes(name), name);
    const bill = billOfMaterials(ROOT, packages);
    assert.equal(bill.bomFormat, "CycloneDX");
    assert.deepEqual(bill.components.map(({ name }) => name).sort(), [...names, "node"].sort());
    const refs = new Set(bill.components.map((component) => component["bom-ref"]));
    for (const { dependsOn } of bill.dependencies) for (const ref of dependsOn) assert.ok(refs.has(ref), ref);
    const report = licenceReport(packages);
    for (const { name, version, license } of packages)
      assert.ok(report.includes(`${name} ${version}: ${license}`));
    assert.ok((report.match(/^Permission is hereby granted/gm) ?? []).length > 10);
  });

  it("writes tables between their comments, and nowhere else", () => {
    const page = "a\n<!-- sizes:begin -->\nold\n<!-- sizes:end -->\nb\n";
    const rows = sizesTable([{ file: "/x/a.tgz", bytes: 1_250_000, seconds: 1 }]);
    assert.equal(
      withTable(page, "sizes", rows),
      "a\n<!-- sizes:begin -->\n| artefact | size |\n| --- | --- |\n| `a.tgz` | 1.3 MB |\n<!-- sizes:end -->\nb\n",
    );
    assert.throws(() => withTable(page, "starts", rows), /no place for starts/);
  });
});
