// Tests of the read barrier: whom a shard asks before an answer, and how often.

import assert from "node:assert/strict";
import { it } from "node:test";
import { ReplyPort, ResponseFlag, ResponseKind } from "../../../../src/message/response.ts";
import { createRing, EMPTY, RingReader } from "../../../../src/ring/ring.ts";
import { BarrierRounds } from "../../../../src/shard/commands/command.ts";
import { ReadBarrier } from "../../../../src/shard/commands/read-barrier.ts";
import { ShardSession } from "../../../../src/shard/sessions/shard-session.ts";
import { EngineBench } from "../../engine/engine-bench.ts";

const ACCEPTORS = 3;

/** A barrier of a session at acceptor 1. */
function scene(rounds: BarrierRounds, readsEndsLate = false) {
  const { engine } = new EngineBench();
  const rings = Array.from({ length: ACCEPTORS }, () => createRing(4096));
  const readers = rings.map((ring) => new RingReader(ring));
  const ports = rings.map((ring) => new ReplyPort(ring));
  const barrier = new ReadBarrier(engine, ports, ACCEPTORS, () => readsEndsLate);
  const session = new ShardSession(engine.session(1), 1, 0);
  assert.ok(barrier.begin(session, rounds));
  /** Takes what each acceptor is asked, and whether the question follows its reading. */
  const asked = (): (boolean | undefined)[] => {
    for (const port of ports) port.publish(0);
    return readers.map((reader) => {
      const offset = reader.next();
      if (offset === EMPTY) return undefined;
      const first = reader.uint32[(offset >> 2) + 1]!;
      assert.equal(first & 0xff, ResponseKind.Barrier);
      assert.equal(reader.next(), EMPTY, "each is asked once");
      return ((first >>> 16) & ResponseFlag.HaveRead) !== 0;
    });
  };
  return { barrier, session, asked };
}

it("a barrier until all others have read their sockets asks each of them once", () => {
  const { barrier, session, asked } = scene(BarrierRounds.Read);
  assert.deepEqual(asked(), [false, undefined, false]);
  assert.equal(barrier.acknowledged(1), undefined);
  assert.equal(barrier.acknowledged(1), session);
  assert.deepEqual(asked(), [undefined, undefined, undefined]);
});

it("a barrier until nobody counts those who have left asks all others once more", () => {
  const { barrier, session, asked } = scene(BarrierRounds.Uncounted);
  assert.deepEqual(asked(), [false, undefined, false]);
  assert.equal(barrier.acknowledged(1), undefined);
  assert.equal(barrier.acknowledged(1), undefined);
  assert.deepEqual(asked(), [true, undefined, true]);
  assert.equal(barrier.acknowledged(1), undefined);
  assert.equal(barrier.acknowledged(1), session);
});

it("a barrier asks the session's own acceptor, too, if that reads ends late", () => {
  const { barrier, session, asked } = scene(BarrierRounds.Uncounted, true);
  for (const haveRead of [false, true]) {
    assert.deepEqual(asked(), [haveRead, haveRead, haveRead]);
    assert.equal(barrier.acknowledged(1), undefined);
    assert.equal(barrier.acknowledged(1), undefined);
    assert.equal(barrier.acknowledged(1), haveRead ? session : undefined);
  }
});

it("a barrier for a job is begun if another client holds one that the session would get", () => {
  const watched = (tubes: number): string[] => Array.from({ length: tubes }, (_, tube) => `tube-${tube}`);
  // With very many tubes, any reserved job suffices: to look at each tube would take too long.
  for (const [tubes, heldIn, begins] of [
    [2, "tube-1", true],
    [2, "elsewhere", false],
    [100, "tube-99", true],
    [100, "none", false],
    // The last number of tubes that are looked at, and the first one that is too many.
    [64, "elsewhere", false],
    [64, "tube-63", true],
    [65, "elsewhere", true],
    [65, "none", false],
    [129, "elsewhere", true],
  ] as const) {
    const bench = new EngineBench();
    const holder = bench.session(2, heldIn, heldIn);
    const ports = Array.from({ length: ACCEPTORS }, () => new ReplyPort(createRing(4096)));
    const barrier = new ReadBarrier(bench.engine, ports, ACCEPTORS, () => false);
    const client = bench.session(1, "tube-0", ...watched(tubes));
    const session = new ShardSession(client, 1, 0);
    if (heldIn !== "none") {
      bench.put(holder);
      assert.equal(bench.reserve(holder, 0), "job 1");
    }
    assert.equal(barrier.beginForJob(session), begins, `${tubes} tubes, a job held in ${heldIn}`);
  }
});

it("a barrier of a session that is gone, or needs it no more, asks nobody again and wakes nobody", () => {
  for (const leave of [
    (session: ShardSession) => void (session.ended = true),
    (session: ShardSession) => void (session.barrier = 0),
    (session: ShardSession) => void (session.barrier = 2),
  ])
    for (const rounds of [BarrierRounds.Read, BarrierRounds.Uncounted])
      for (const before of [0, 1]) {
        const { barrier, session, asked } = scene(rounds);
        assert.deepEqual(asked(), [false, undefined, false]);
        for (let answer = 0; answer < 2; answer++) {
          if (answer === before) leave(session);
          assert.equal(barrier.acknowledged(1), undefined);
        }
        assert.deepEqual(asked(), [undefined, undefined, undefined]);
        assert.throws(() => barrier.acknowledged(1), /acknowledge barriers that were begun/);
      }
});
