// Run queue of a shard: connections whose commands are costly take turns, so that no pipeline
// delays others.
//
// Commands come to a shard in the order of its rings, and cheap ones are executed in that order. A
// connection whose command cost more than `cheapWork` is set aside: its next messages wait in
// `session.deferred`, as behind a reserve that waits for a job, while the rings go on with other
// connections. The queue then gives it turns between those of the rings.
//
// Among the connections set aside it is start-time fair queueing. Each has a tag, the work that it
// had done, counted from when it joined the others; the smallest tag is next, and a command adds
// its cost. So ten connections with commands of 0.1 ms and one with commands of 10 ms each get an
// eleventh of the time, and nobody waits while a shard has nothing to do. Order within a connection
// is that of its deferred messages. Their memory is bounded by the commands that a connection may
// have under way (acceptor/state/lane.ts).

import { Timer, TimerHeap } from "../engine/queues/timer-heap.ts";
import type { ShardSession } from "./sessions/shard-session.ts";

/** Work is counted in looks of the engine, of some 50 ns each. */
export const WORK_PER_MS = 20_000;
/** A command that costs more than this sets its connection aside: 10 us, so that 256 cheap ones take 2.5 ms. */
export const CHEAP_WORK_MAX = 200;

export class RunQueue {
  readonly #line = new TimerHeap<ShardSession>();
  /** The tag of the connection that had its turn last. */
  #servedTo = 0;

  get isEmpty(): boolean {
    return this.#line.first === undefined;
  }

  /** Sets a connection aside whose command has cost so much. */
  setAside(session: ShardSession, work: number): void {
    const turn = (session.turn ??= new Timer<ShardSession>(session));
    session.isAside = true;
    session.workTag = Math.max(session.workTag, this.#servedTo) + Math.max(1, work);
    this.#line.set(turn, session.workTag);
  }

  /** Takes out the connection whose turn it is; it keeps its tag. */
  next(): ShardSession | undefined {
    const session = this.#line.first;
    if (session === undefined) return undefined;
    this.#servedTo = session.workTag;
    this.leave(session);
    return session;
  }

  /** A connection has ended, or moves elsewhere. */
  leave(session: ShardSession): void {
    if (!session.isAside) return;
    session.isAside = false;
    this.#line.set(session.turn!, Number.POSITIVE_INFINITY);
  }
}
