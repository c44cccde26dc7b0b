// Tests of the failures of a job as bytes.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes } from "../../../src/base/bytes.ts";
import {
  CAUSE_WORDS,
  type Failure,
  FailureCause,
  failureEnd,
  failuresAreWhole,
  readFailures,
  shiftFailures,
} from "../../../src/protocol/job-failure.ts";

function encoded(failures: readonly Failure[]): Uint8Array {
  const parts = failures.map(({ atMs, attempt, cause, worker, reason }) => {
    const part = Buffer.alloc(16 + worker.length + reason.length);
    part.writeDoubleLE(atMs, 0);
    part.writeUInt32LE(attempt, 8);
    part[12] = CAUSE_WORDS.indexOf(cause);
    part[13] = worker.length;
    part.writeUInt16LE(reason.length, 14);
    part.set(asciiBytes(worker + reason), 16);
    return part;
  });
  return Buffer.concat(parts);
}

const failure = (worker: string, reason: string, attempt = 1): Failure => ({
  ...{ atMs: 1000.5, attempt, cause: "buried", worker, reason },
});
const LONG = "r".repeat(1024);
const THREE = [
  { ...failure("w1", LONG, 4294967295), cause: "released" },
  failure("", ""),
  { ...failure("w".repeat(63), "no disk"), atMs: 2 ** 40 },
];

describe("failures", () => {
  it("are read back as they were written, wherever they lie", () => {
    const bytes = encoded(THREE);
    assert.deepEqual(readFailures(bytes), THREE);
    const inside = new Uint8Array(bytes.length + 9).fill(1);
    inside.set(bytes, 3);
    assert.deepEqual(readFailures(inside.subarray(3, 3 + bytes.length)), THREE);
    assert.deepEqual(readFailures(new Uint8Array(0)), []);
  });

  it("have a word for each cause, and one for causes of later servers", () => {
    const causes = Object.values(FailureCause).map((cause) => {
      const bytes = encoded([failure("", "")]);
      bytes[12] = cause;
      return readFailures(bytes)[0]!.cause;
    });
    assert.deepEqual(causes, ["released", "buried", "timed-out", "disconnected", "expired"]);
    const bytes = encoded([failure("", "")]);
    for (const cause of [0, 6, 255]) {
      bytes[12] = cause;
      assert.equal(readFailures(bytes)[0]!.cause, "unknown");
    }
  });

  it("end where the next begins", () => {
    const bytes = encoded(THREE);
    assert.equal(failureEnd(bytes, 0), 16 + 2 + 1024);
    assert.equal(failureEnd(bytes, 1042), 1058);
    assert.equal(failureEnd(bytes, 1058), bytes.length);
  });

  it("are whole if there are one to five, each to its end", () => {
    assert.ok(failuresAreWhole(encoded(THREE)));
    const one = failure("w", "r");
    assert.ok(failuresAreWhole(encoded([one])));
    assert.ok(failuresAreWhole(encoded([one, one, one, one, one])));
    assert.ok(!failuresAreWhole(encoded([one, one, one, one, one, one])));
    assert.ok(!failuresAreWhole(new Uint8Array(0)));
    const bytes = encoded([one, one]);
    for (let length = 1; length < bytes.length; length++)
      assert.equal(failuresAreWhole(bytes.subarray(0, length)), length === bytes.length / 2, `${length}`);
    assert.ok(!failuresAreWhole(Buffer.concat([bytes, new Uint8Array(1)])));
    assert.ok(!failuresAreWhole(encoded([failure("w".repeat(64), "")])));
    assert.ok(failuresAreWhole(encoded([failure("", LONG)])));
    assert.ok(!failuresAreWhole(encoded([failure("", `${LONG}r`)])));
  });

  it("are moved in time, all by the same", () => {
    const bytes = new Uint8Array(encoded(THREE).length + 5);
    bytes.set(encoded(THREE), 5);
    const there = bytes.subarray(5);
    shiftFailures(there, -999.5);
    assert.deepEqual(
      readFailures(there),
      THREE.map((each) => ({ ...each, atMs: each.atMs - 999.5 })),
    );
  });
});
