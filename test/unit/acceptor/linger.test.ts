import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Linger } from "../../../src/acceptor/linger.ts";

/** Looks every 0.01 ms until the linger ends; returns how many times it looked again. */
function looks(linger: Linger, fromMs: number): number {
  let count = 0;
  while (linger.again(fromMs + count * 0.01)) count++;
  return count;
}

describe("Linger", () => {
  it("looks until its time is over", () => {
    assert.equal(looks(new Linger(0.1), 1000), 10);
  });

  it("leaves out more and more after lingering in vain, and begins anew when it has paid", () => {
    const linger = new Linger(0.1);
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

  it("leaves out no more than sixteen", () => {
    const linger = new Linger(0.1);
    let most = 0;
    for (let round = 0; round < 10; round++) {
      looks(linger, round);
      let count = 0;
      while (!linger.again(round)) count++;
      most = Math.max(most, count);
    }
    assert.equal(most, 16);
  });

  it("ends when the thread lost its core, and that counts as in vain", () => {
    const linger = new Linger(10);
    assert.ok(linger.again(1000));
    assert.ok(linger.again(1000.1));
    assert.ok(!linger.again(1000.5));
    assert.ok(!linger.again(1000.6));
  });

  it("looks longer while there is reason to", () => {
    const linger = new Linger(0.1);
    assert.ok(linger.again(1000, 0.4));
    assert.ok(linger.again(1000.15, 0.4));
    assert.ok(linger.again(1000.3, 0.4));
    assert.ok(linger.again(1000.45, 0.4));
    assert.ok(!linger.again(1000.6, 0.4));
  });

  it("does not begin with a longest time of 0", () => {
    assert.equal(looks(new Linger(0), 1000), 0);
  });
});
