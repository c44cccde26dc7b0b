// Tests of the counted results of files: a failure is told, whatever a test has thrown.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Tally } from "./tally.ts";

type Failure = Parameters<Tally["fail"]>[0];

/** Returns what is told of a failed test that has thrown this. */
function toldOf(thrown: unknown): string {
  const tally = new Tally();
  const details = { type: "test", error: new Error("a test has failed", { cause: thrown }) };
  tally.fail({ name: "a test", file: "/tree/a.test.ts", line: 7, details } as unknown as Failure, {
    root: "/tree",
    env: {},
  });
  return tally.failures.join("\n");
}

it("a failure is told, whatever its test has thrown", () => {
  const bare: object = Object.assign(Object.create(null), { code: 5 });
  for (const [thrown, text] of [
    [new RangeError("too far"), /RangeError: too far/],
    ["some words", /^ {4}some words$/m],
    [undefined, /Error: a test has failed/],
    [{ code: 5 }, /code: 5/],
    [bare, /code: 5/],
  ] as const) {
    const told = toldOf(thrown);
    assert.match(told, /^a\.test\.ts:7 a test$/m);
    assert.match(told, text);
  }
});

it("an error is told without frames of Node, and of a long one the beginning", () => {
  const error = new Error("far");
  error.stack = "Error: far\n    at a (file:///tree/a.ts:1:1)\n    at Test.run (node:internal/test:2:2)";
  assert.equal(toldOf(error), "a.test.ts:7 a test\n    Error: far\n        at a (file:///tree/a.ts:1:1)");
  assert.match(toldOf("line\n".repeat(999)), /^(?:.*\n){201} {4}and 800 more lines$/);
});
