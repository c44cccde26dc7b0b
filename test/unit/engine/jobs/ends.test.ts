// The table of ends in docs/commands.md is the one that the engine uses.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import type { Engine } from "../../../../src/engine/engine.ts";
import { ENDS, type End } from "../../../../src/engine/jobs/ends.ts";
import { CAUSE_WORDS } from "../../../../src/protocol/job-failure.ts";
import { TracedEngine } from "../traced-engine.ts";

const HEAD = "| what ends | attempt | backoff | failure | unique key | member |\n|---|---|---|---|---|---|\n";

function rowOf({ what, isAttempt, backsOff, failure, key, member }: End): string {
  const words = [isAttempt, backsOff].map((is) => (is ? "yes" : "no"));
  const cause = failure === undefined ? "none" : CAUSE_WORDS[failure];
  return `| ${[what, ...words, cause, key, member].join(" | ")} |\n`;
}

it("docs/commands.md has the rows of ENDS", () => {
  const page = readFileSync(new URL("../../../../docs/commands.md", import.meta.url), "utf8");
  const table = page.slice(page.indexOf(HEAD), page.indexOf("\n\n", page.indexOf(HEAD)) + 1);
  assert.equal(table, HEAD + Object.values(ENDS).map(rowOf).join(""));
});

// Tests of what each command on jobs tells its client, the log and the meters, and what it counts.

function held(traced: TracedEngine): void {
  traced.put(1);
  traced.wait(5);
  traced.hold(1);
  traced.wait(20);
}

/** What came before a command; session 0 holds job 1 if anyone does. */
const BEFORE: Readonly<Record<string, (traced: TracedEngine) => void>> = {
  ready: (traced) => void traced.put(1),
  held,
  buried: (traced) => {
    held(traced);
    traced.engine.bury(traced.session(0), 1, 3, traced.nowMs);
    traced.wait(100);
  },
  delayed: (traced) => void traced.put(1, { delaySeconds: 9, delayMillis: 500 }),
  awaited: (traced) => {
    held(traced);
    traced.engine.reserve(traced.session(1, "t"), 1e6, traced.nowMs);
  },
  cancelled: (traced) => {
    held(traced);
    traced.engine.cancel(1, new Uint8Array([97]), traced.nowMs);
  },
  stopping: (traced) => {
    held(traced);
    traced.session(0).endsWithServer = true;
  },
};

const REASON = new Uint8Array([120]);

type Command = (engine: Engine, nowMs: number) => unknown;

/** What a command says; then job 1, and its tube. */
// biome-ignore format: a table
const ROWS: readonly (readonly [before: string, name: string, command: Command, after: string])[] = [
  ["ready", "reserve", (engine, nowMs) => engine.reserve(engine.session(0), 0, nowMs) < 0, "false: waited 0 | t reserved reserves 1 at 60000 | totalJobs 1 reserves 1"],
  ["ready", "reserve-job", (engine, nowMs) => engine.reserveJob(engine.session(0), 1, nowMs), "done: waited 0 | t reserved reserves 1 at 60000 | totalJobs 1 reserves 1"],
  ["buried", "reserve-job", (engine, nowMs) => engine.reserveJob(engine.session(0), 1, nowMs), "done: updated 1 | t reserved pri 3 reserves 2 buries 1 at 60125 | totalJobs 1 reserves 2 buries 1"],
  ["delayed", "reserve-job", (engine, nowMs) => engine.reserveJob(engine.session(0), 1, nowMs), "done: updated 1 | t reserved delay 9 reserves 1 at 60000 | totalJobs 1 reserves 1"],
  ["held", "release", (engine, nowMs) => engine.release(engine.session(0), 1, 4, 0, nowMs), "done: held 20, updated 1 | t ready pri 4 reserves 1 releases 1 at 25 | totalJobs 1 reserves 1 releases 1"],
  ["held", "release with a delay", (engine, nowMs) => engine.release(engine.session(0), 1, 4, 1, nowMs), "done: held 20, updated 1 | t delayed pri 4 delay 1 reserves 1 releases 1 at 1025 | totalJobs 1 reserves 1 releases 1"],
  ["awaited", "release", (engine, nowMs) => engine.release(engine.session(0), 1, 4, 0, nowMs), "done: held 20, updated 1, waited 0, 1: gets 1 | t reserved pri 4 reserves 2 releases 1 at 60025 | totalJobs 1 reserves 2 releases 1"],
  ["held", "bury", (engine, nowMs) => engine.bury(engine.session(0), 1, 4, nowMs), "done: held 20, updated 1 | t buried pri 4 reserves 1 buries 1 at 25 | totalJobs 1 reserves 1 buries 1"],
  ["held", "touch", (engine, nowMs) => engine.touch(engine.session(0), 1, nowMs), "done | t reserved reserves 1 at 60025 | totalJobs 1 reserves 1"],
  ["held", "delete", (engine, nowMs) => engine.delete(engine.session(0), 1, nowMs), "done: held 20, deleted 1 | gone | totalJobs 1 deletes 1 reserves 1"],
  ["held", "delete by another", (engine, nowMs) => engine.delete(engine.session(1), 1, nowMs), "notfound | t reserved reserves 1 at 60005 | totalJobs 1 reserves 1"],
  ["ready", "delete", (engine, nowMs) => engine.delete(engine.session(1), 1, nowMs), "done: deleted 1 | gone | totalJobs 1 deletes 1"],
  ["held", "delete with its tube", (engine, nowMs) => engine.discard(engine.find(1), ENDS.Cleared, nowMs), "undefined: deleted 1 | gone | totalJobs 1 deletes 1 reserves 1"],
  ["buried", "kick-job", (engine, nowMs) => engine.kickJob(1, nowMs), "done: updated 1 | t ready pri 3 reserves 1 buries 1 kicks 1 at 125 | totalJobs 1 reserves 1 buries 1 kicks 1"],
  ["delayed", "kick-job", (engine, nowMs) => engine.kickJob(1, nowMs), "done: updated 1 | t ready delay 9 kicks 1 | totalJobs 1 kicks 1"],
  ["held", "return of what its client never got", (engine, nowMs) => engine.giveBackOne(engine.session(0), 1, nowMs), "done | t ready reserves 1 at 25 excused 1 | totalJobs 1 reserves 1"],
  ["held", "timeout by an operator", (engine, nowMs) => engine.timeOutNow(1, nowMs), "done: updated 1 | t ready reserves 1 timeouts 1 at 25 | totalJobs 1 reserves 1 timeouts 1"],
  ["held", "end of the connection", (engine, nowMs) => engine.giveBack(engine.session(0), 1, nowMs), "false: updated 1 | t ready reserves 1 at 25 | totalJobs 1 reserves 1"],
  ["ready", "cancel-job", (engine, nowMs) => engine.cancel(1, REASON, nowMs), "done: deleted 1 | gone | totalJobs 1 cancelled 1"],
  ["delayed", "cancel-job", (engine, nowMs) => engine.cancel(1, REASON, nowMs), "done: deleted 1 | gone | totalJobs 1 cancelled 1"],
  ["buried", "cancel-job", (engine, nowMs) => engine.cancel(1, REASON, nowMs), "done: deleted 1 | gone | totalJobs 1 reserves 1 buries 1 cancelled 1"],
  ["held", "cancel-job", (engine, nowMs) => engine.cancel(1, REASON, nowMs), "marked: updated 1 | t reserved reserves 1 at 60005 expires 5e-324 | totalJobs 1 reserves 1"],
  ["cancelled", "cancel-job", (engine, nowMs) => engine.cancel(1, REASON, nowMs), "marked | t reserved reserves 1 at 60005 expires 5e-324 | totalJobs 1 reserves 1"],
  ["cancelled", "delete", (engine, nowMs) => engine.delete(engine.session(0), 1, nowMs), "done: held 20, deleted 1 | gone | totalJobs 1 deletes 1 reserves 1"],
  ["cancelled", "release", (engine, nowMs) => engine.release(engine.session(0), 1, 4, 9, nowMs), "done: held 20, deleted 1 | gone | totalJobs 1 reserves 1 releases 1 cancelled 1"],
  ["cancelled", "bury", (engine, nowMs) => engine.bury(engine.session(0), 1, 4, nowMs), "done: held 20, deleted 1 | gone | totalJobs 1 reserves 1 buries 1 cancelled 1"],
  ["cancelled", "touch", (engine, nowMs) => engine.touch(engine.session(0), 1, nowMs), "done | t reserved reserves 1 at 60025 expires 5e-324 | totalJobs 1 reserves 1"],
  ["cancelled", "timeout by an operator", (engine, nowMs) => engine.timeOutNow(1, nowMs), "done: deleted 1 | gone | totalJobs 1 reserves 1 timeouts 1 cancelled 1"],
  ["cancelled", "return of what its client never got", (engine, nowMs) => engine.giveBackOne(engine.session(0), 1, nowMs), "done: deleted 1 | gone | totalJobs 1 reserves 1 cancelled 1"],
  ["cancelled", "end of the connection", (engine, nowMs) => engine.giveBack(engine.session(0), 1, nowMs), "false: deleted 1 | gone | totalJobs 1 reserves 1 cancelled 1"],
  ["cancelled", "update-job with a delay and another time to live", (engine, nowMs) => engine.changes.update(engine.session(0), 1, { pri: undefined, delayMs: 9000, ttrSeconds: undefined, ttlMs: 0 }, nowMs), "done: held 20, updated 1, deleted 1 | gone | totalJobs 1 reserves 1 releases 1 cancelled 1"],
  ["stopping", "end of the connection", (engine, nowMs) => engine.giveBack(engine.session(0), 1, nowMs), "false | t ready reserves 1 at 25 excused 1 | totalJobs 1 reserves 1"],
];

describe("what comes of a command on a job", () => {
  for (const [before, name, command, after] of ROWS)
    it(`${before}: ${name}`, () => {
      const traced = new TracedEngine();
      traced.session(0, "t");
      BEFORE[before]!(traced);
      const said = traced.does(command);
      assert.equal(`${said} | ${traced.job(1)} | ${traced.tube("t")}`, after);
      assert.equal(traced.shard(), traced.tube("t"), "the shard counts the same");
    });
});
