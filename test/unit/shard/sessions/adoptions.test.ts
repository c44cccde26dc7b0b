// Tests of sessions that move between acceptors: Detach and Adopt arrive in different rings, in any
// order.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Adoptions, type ShardSession } from "../../../../src/shard/sessions/shard-session.ts";

const [a, b] = [{ name: "a" }, { name: "b" }] as unknown as ShardSession[];

function adoptions(): { adoptions: Adoptions; placed: unknown[][] } {
  const placed: unknown[][] = [];
  return { adoptions: new Adoptions(3, (...place) => void placed.push(place)), placed };
}

describe("Adoptions", () => {
  it("give a displaced session another place at once", () => {
    const { adoptions: sessions, placed } = adoptions();
    sessions.detached(5, a!);
    assert.deepEqual(placed, []);
    sessions.adopt(5, 1, 40);
    assert.deepEqual(placed, [[a, 1, 40]]);
    assert.equal(sessions.isWaiting(1), false);
  });

  it("hold back only the ring of an Adopt that came first", () => {
    const { adoptions: sessions, placed } = adoptions();
    sessions.adopt(5, 1, 40);
    sessions.adopt(6, 2, 41);
    sessions.detached(7, a!);
    assert.deepEqual(
      [0, 1, 2].map((port) => sessions.isWaiting(port)),
      [false, true, true],
    );
    sessions.detached(6, b!);
    assert.deepEqual(placed, [[b, 2, 41]]);
    assert.deepEqual(
      [0, 1, 2].map((port) => sessions.isWaiting(port)),
      [false, true, false],
    );
    sessions.detached(5, a!);
    assert.deepEqual(placed[1], [a, 1, 40]);
    assert.equal(sessions.isWaiting(1), false);
  });

  it("adopt each session once", () => {
    const { adoptions: sessions, placed } = adoptions();
    sessions.detached(5, a!);
    sessions.adopt(5, 1, 40);
    sessions.adopt(5, 2, 41);
    assert.equal(placed.length, 1);
    assert.equal(sessions.isWaiting(2), true);
  });
});
