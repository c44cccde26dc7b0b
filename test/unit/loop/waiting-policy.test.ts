import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AcceptorPollPolicy, IdlePoll, IdleSpin, waitingOf } from "../../../src/loop/waiting-policy.ts";

/** Looks every 0.01 ms until the linger ends; returns how many times it looked again. */
function looks(linger: IdlePoll, fromMs: number): number {
  let count = 0;
  while (linger.again(fromMs + count * 0.01)) count++;
  return count;
}

describe("Linger", () => {
  it("looks until its time is over", () => {
    assert.equal(looks(new IdlePoll(0.1), 1000), 10);
  });

  it("skips more and more after fruitless lingering, and starts over when it pays", () => {
    const linger = new IdlePoll(0.1);
    const leftOut = (): number => {
      let count = 0;
      while (!linger.again(2000)) count++;
      return count;
    };
    looks(linger, 1000);
    assert.equal(leftOut(), 1);
    while (linger.again(3000)) {}
    assert.equal(leftOut(), 2);
    linger.worked();
    looks(linger, 4000);
    assert.equal(leftOut(), 1);
  });

  it("skips at most sixteen", () => {
    const linger = new IdlePoll(0.1);
    let most = 0;
    for (let round = 0; round < 10; round++) {
      looks(linger, round);
      let count = 0;
      while (!linger.again(round)) count++;
      most = Math.max(most, count);
    }
    assert.equal(most, 16);
  });

  it("ends when the thread lost its core, which counts as fruitless", () => {
    const linger = new IdlePoll(10);
    assert.ok(linger.again(1000));
    assert.ok(linger.again(1000.1));
    assert.ok(!linger.again(1000.5));
    assert.ok(!linger.again(1000.6));
  });

  it("looks longer while there is reason to", () => {
    const linger = new IdlePoll(0.1);
    assert.ok(linger.again(1000, 0.4));
    assert.ok(linger.again(1000.15, 0.4));
    assert.ok(linger.again(1000.3, 0.4));
    assert.ok(linger.again(1000.45, 0.4));
    assert.ok(!linger.again(1000.6, 0.4));
  });

  it("doesn't start with a maximum of 0", () => {
    assert.equal(looks(new IdlePoll(0), 1000), 0);
  });
});

describe("waitingOf", () => {
  const placed = (cores: number, hasLog: boolean) => waitingOf({ cores, threads: 2, hasLog });

  it("lets a shard spin only if a core is left for the client", () => {
    assert.deepEqual(placed(3, false), { spinMs: 0.1, lingerMs: 0.1, isCrowded: false });
    assert.deepEqual(placed(2, false), { spinMs: 0, lingerMs: 0.1, isCrowded: false });
  });

  it("allows no spinning if threads, the log included, outnumber cores", () => {
    assert.deepEqual(placed(2, true), { spinMs: 0, lingerMs: 0.1, isCrowded: true });
    assert.deepEqual(placed(1, false), { spinMs: 0, lingerMs: 0, isCrowded: true });
  });
});

describe("IdleSpin", () => {
  /**
   * Looks until the spin ends, with a clock that goes on by a sixteenth of a ms at each reading;
   * returns how many times it looked.
   */
  function spins(longestMs: number, dueAtMs = Number.POSITIVE_INFINITY): number {
    let nowMs = 0;
    const spin = new IdleSpin(longestMs, () => (nowMs += 0.0625));
    if (!spin.begins(0, dueAtMs)) return 0;
    let count = 1;
    while (spin.goesOn()) count++;
    return count;
  }

  it("looks until its time is over, or something is due", () => {
    assert.equal(spins(0.625), 9);
    assert.equal(spins(0.625, 0.25), 3);
    assert.equal(spins(0), 0);
  });

  it("is skipped after a fruitless one, and after a turn with many messages", () => {
    let nowMs = 0;
    const spin = new IdleSpin(0.1, () => nowMs);
    assert.ok(spin.begins(0, 1));
    nowMs = 0.5;
    assert.ok(!spin.goesOn(), "the thread lost its core");
    assert.ok(!spin.begins(1, 2));
    assert.ok(spin.begins(1, 2));
    spin.paid();
    spin.worked(5);
    assert.ok(!spin.begins(1, 2));
    spin.worked(4);
    assert.ok(spin.begins(1, 2));
  });
});

describe("AcceptorPollPolicy", () => {
  const asked = (expecting: number, asking: number) => ({
    pendingReplies: { expecting, asking },
    waitsForLog: false,
  });

  /** Turns without work until it sleeps, while the clock stands. */
  function turns(pollPolicy: AcceptorPollPolicy, connections: number): number {
    let count = 0;
    while (count < 1000 && pollPolicy.turnsAgain(asked(connections, connections))) count++;
    return count;
  }

  it("gives up after some empty turns, after few if threads outnumber cores", () => {
    const roomy = new AcceptorPollPolicy({ spinMs: 0, lingerMs: 0, isCrowded: false }, () => 0);
    assert.equal(turns(roomy, 5), 30);
    assert.equal(turns(roomy, 5), 0);
    roomy.worked();
    assert.equal(turns(roomy, 5), 30);
    assert.equal(turns(new AcceptorPollPolicy({ spinMs: 0, lingerMs: 0.1, isCrowded: true }, () => 0), 5), 3);
  });

  it("lingers for one or two clients, also without pending replies", () => {
    let nowMs = 1;
    const pollPolicy = new AcceptorPollPolicy({ spinMs: 0, lingerMs: 0.1, isCrowded: true }, () => nowMs);
    assert.ok(pollPolicy.turnsAgain(asked(0, 2)));
    nowMs = 1.05;
    assert.ok(pollPolicy.turnsAgain(asked(0, 2)));
    nowMs = 1.15;
    assert.ok(!pollPolicy.turnsAgain(asked(0, 2)));
    assert.ok(!pollPolicy.turnsAgain(asked(0, 3)));
  });

  it("spins for the answers to one or two clients", () => {
    const pollPolicy = new AcceptorPollPolicy({ spinMs: 0, lingerMs: 0, isCrowded: false }, () => 0);
    assert.deepEqual(
      [0, 1, 2, 3].map((expecting) => pollPolicy.looks(asked(expecting, 3))),
      [0, 200, 200, 0],
    );
  });
});
