import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BlockingLoop } from "../../../src/loop/blocking-loop.ts";
import { Point, type Role } from "../../../src/loop/role.ts";
import { IdleSpin } from "../../../src/loop/waiting-policy.ts";
import { TurnCounters } from "../../../src/message/turn-counters.ts";
import { DOORBELL_WORDS, DoorbellOwner } from "../../../src/ring/doorbell.ts";

/** A role whose turns and looks are given, and which notes what is asked of it. */
class FakeRole implements Role {
  readonly acts: string[] = [];
  readonly #words: Int32Array;
  begunAtMs = 0;
  taken = 0;
  hasMore = false;
  nextDueAtMs = Number.POSITIVE_INFINITY;
  /** Whether there is work, at each look. */
  looks: boolean[] = [];
  ends = false;

  constructor(words: Int32Array) {
    this.#words = words;
  }

  get hasWork(): boolean {
    this.#note("look");
    return this.looks.shift() ?? false;
  }

  wantRoom(): void {
    this.#note("want room");
  }

  next(): Point {
    this.#note("turn");
    return this.ends ? Point.Ended : Point.Turned;
  }

  #note(what: string): void {
    this.acts.push(this.#words[0] === 0 ? what : `${what}, announced`);
  }
}

function scene(spinMs = 0) {
  const words = new Int32Array(new SharedArrayBuffer(DOORBELL_WORDS * 4));
  const role = new FakeRole(words);
  const counters = new TurnCounters(new Float64Array(64), []);
  let nowMs = 1000;
  const surroundings = { nowMs: () => nowMs++, isHeldUp: () => false };
  const doorbell = new DoorbellOwner(words, 0);
  const spin = new IdleSpin(spinMs, surroundings.nowMs);
  const loop = new BlockingLoop({ role, doorbell, counters, spin, surroundings });
  return { words, role, loop, next: () => loop.next() };
}

describe("BlockingLoop", () => {
  it("turns without a look while there is more", () => {
    const { role, next } = scene();
    role.hasMore = true;
    assert.equal(next(), Point.Turned);
    assert.equal(next(), Point.Turned);
    assert.deepEqual(role.acts, ["turn", "turn"]);
  });

  it("announces its sleep, asks for room, looks once more, then sleeps", () => {
    const { role, loop, words, next } = scene();
    assert.equal(next(), Point.Asleep);
    assert.deepEqual(role.acts, ["turn", "want room, announced", "look, announced"]);
    assert.equal(words[0], 1);
    assert.equal(loop.wakeAtMs, Number.POSITIVE_INFINITY);
    assert.equal(loop.sleepMs, 3_600_000);
  });

  it("withdraws the announcement if there is work after all, or something is due", () => {
    const { role, words, next } = scene();
    role.looks = [true];
    assert.equal(next(), Point.Turned);
    assert.equal(words[0], 0);
    role.nextDueAtMs = 1000;
    assert.equal(next(), Point.Turned);
    assert.equal(words[0], 0);
  });

  it("sleeps until something is due", () => {
    const { role, loop, next } = scene();
    role.nextDueAtMs = 1050;
    assert.equal(next(), Point.Asleep);
    assert.equal(loop.wakeAtMs, 1050);
    assert.equal(loop.sleepMs, 50);
  });

  it("spins first, and turns when a look finds work", () => {
    const { role, words, next } = scene(1);
    role.looks = [false, false, true];
    assert.equal(next(), Point.Turned);
    assert.deepEqual(role.acts, ["turn", "look", "look", "look"]);
    assert.equal(words[0], 0);
  });

  it("reports the end of its role as often as it is asked", () => {
    const { role, next } = scene();
    role.ends = true;
    assert.equal(next(), Point.Ended);
    assert.equal(next(), Point.Ended);
  });
});
