import assert from "node:assert/strict";
import { test } from "node:test";
import { failOverPhases } from "./fail-over-phases.ts";

const line = (ms: number, msg: string): string =>
  `${JSON.stringify({ level: 30, time: new Date(ms).toISOString(), msg })}\n`;

test("each phase of a fail-over ends with a log line of the new primary; the last try counts", () => {
  const output = [
    line(1100, "tries to take the lead: epoch 2"),
    line(1300, "tries to take the lead: epoch 2"),
    "a line of somebody else\n",
    line(1304, "has the lead, epoch 2"),
    line(1500, "100000 jobs are back from /x after 0.2 s"),
    line(1520, "runnerbean 2.0.0 serves on 127.0.0.1:1"),
  ].join("");
  assert.deepEqual(failOverPhases(output, 1000, 1530), [300, 4, 196, 20, 10]);
  assert.equal(failOverPhases(line(1100, "has the lead, epoch 2"), 1000, 1530), undefined);
});
