// Tests of `npm run nightly`: with campaigns of a package of its own, and a small real one.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { temporaryFolder } from "../../support/machine/temporary-folder.ts";
import { type Proof, playNight, seedOfNow } from "./nightly.ts";
import { rowOf, withRow } from "./page.ts";
import { type Campaign, PLAN } from "./plan.ts";

const ROOT = new URL("../../../", import.meta.url);
/** Says how many operations it has done, or fails, by its second argument. */
const SCRIPT = `
const [seed, how] = process.argv.slice(2);
console.log("seed " + seed);
if (how === "fails") { console.error("job 7 is lost"); process.exit(1); }
if (how === "lacks") { console.error("there is no FUSE"); process.exit(2); }
console.log("12 operations, 3 operations");
`;

const campaign = (name: string, how: string, script = "play"): Campaign => ({
  ...{ name, unit: "operations", script, weight: 1, seeds: 5 },
  arguments: (seed) => [`${seed}`, how],
  counts: /(\d+) operations/g,
});

describe("nightly", () => {
  const root = temporaryFolder({ after }, "nightly");
  const git = (...words: string[]): string => execFileSync("git", words, { cwd: root, encoding: "utf8" });
  writeFileSync(join(root, "play.cjs"), SCRIPT);
  writeFileSync(
    join(root, "package.json"),
    JSON.stringify({ scripts: { play: `${process.execPath} play.cjs` } }),
  );
  git("init", "-q");
  git("add", "-A");
  git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "all");

  const play = async (...plan: Campaign[]): Promise<Proof> =>
    await playNight({ root, plan, minutes: 0, firstSeed: 100, say: () => {} });

  it("plays each campaign from seeds of its own, and counts", async () => {
    const proof = await play(campaign("first", "well"), campaign("second", "well"));
    assert.deepEqual(
      proof.campaigns.map(({ firstSeed, seeds, operations, failures }) => [
        firstSeed,
        seeds,
        operations,
        failures,
      ]),
      [
        [100, 5, 15, []],
        [105, 5, 15, []],
      ],
    );
    assert.equal(proof.nextSeed, 110);
    assert.equal(proof.failures, 0);
    assert.equal(proof.commit, git("rev-parse", "HEAD").trim());
    assert.equal(proof.isChanged, false);
  });

  it("goes on after a failure, and keeps its command and output", async () => {
    const proof = await play(campaign("bad", "fails"), campaign("good", "well"));
    assert.equal(proof.failures, 1);
    assert.deepEqual(proof.campaigns[0]!.failures, [
      { command: "npm run play -- 100 fails", output: "seed 100\njob 7 is lost" },
    ]);
    assert.equal(proof.campaigns[1]!.operations, 15);
  });

  it("says what could not be played, and takes it for no success", async () => {
    const { campaigns } = await play(campaign("lacking", "lacks"), campaign("gone", "well", "other"));
    assert.match(campaigns[0]!.skipped!, /there is no FUSE/);
    assert.match(campaigns[1]!.skipped!, /no script other/);
    assert.deepEqual(
      campaigns.map(({ seeds }) => seeds),
      [0, 0],
    );
  });

  it("has a row for each night, the newest first", async () => {
    const night = await play(
      campaign("good", "well"),
      campaign("bad", "fails"),
      campaign("gone", "well", "other"),
    );
    const first = withRow(undefined, { ...night, startedAt: "2026-01-01T02:03:04.000Z" });
    const second = withRow(first, { ...night, startedAt: "2026-01-02T02:03:04.000Z" });
    const rows = second.split("\n").filter((line) => line.startsWith("| 2026"));
    assert.deepEqual(
      rows.map((row) => row.slice(2, 12)),
      ["2026-01-02", "2026-01-01"],
    );
    assert.match(rowOf(night), /\| 10 \| good 15 operations; bad 0 operations; not played: gone \| bad \|$/m);
    assert.equal(second.match(/^# Nights/gm)?.length, 1);
  });

  it("takes later seeds at a later start", () => {
    const nowMs = Date.parse("2026-11-23T00:00:00Z");
    assert.ok(seedOfNow(nowMs) > 0);
    assert.ok(seedOfNow(nowMs + 86_400_000) - seedOfNow(nowMs) > 1_000_000);
    assert.ok(
      seedOfNow(Date.parse("2036-01-01T00:00:00Z")) < 9_999_999_999,
      "the simulators take no larger seed",
    );
  });

  it("plays real campaigns, whose output it can read", async () => {
    const plan = PLAN.filter(({ name }) => name === "log" || name === "group").map((each) => ({
      ...each,
      seeds: 1,
    }));
    const root = new URL(".", ROOT).pathname;
    const { campaigns, failures } = await playNight({ root, plan, minutes: 0, firstSeed: 1, say: () => {} });
    assert.equal(failures, 0, JSON.stringify(campaigns));
    for (const { name, operations } of campaigns) assert.ok(operations > 0, name);
  });

  it("names scripts that exist", () => {
    const { scripts } = JSON.parse(readFileSync(new URL("package.json", ROOT), "utf8")) as {
      scripts: object;
    };
    const gone = PLAN.filter(({ script }) => !(script in scripts)).map(({ script }) => script);
    assert.deepEqual(gone, []);
  });
});
