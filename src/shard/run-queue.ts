// Run queue of a shard: connections with expensive commands take turns, so that no pipeline delays
// others.
//
// Cheap commands are executed in the order of the rings. A connection whose command cost more than
// CHEAP_WORK_MAX is set aside. Its next messages wait in `session.deferred`, as they do behind a
// waiting reserve, while the rings continue with other connections. The queue then gives it turns
// between those of the rings.
//
// The queue uses start-time fair queueing. Each connection has a tag: its work so far, counted from
// when it joined. The smallest tag is next, and a command adds its cost. So ten connections with
// commands of 0.1 ms and one with commands of 10 ms each get an eleventh of the time, and no
// connection waits while the shard is idle. The order within a connection is that of its deferred
// messages. The limit on its commands in flight bounds their memory (acceptor/state/in-flight.ts).

import { assert } from "../base/assert.ts";
import { Timer, TimerHeap } from "../engine/queues/timer-heap.ts";
import type { ShardSession } from "./sessions/shard-session.ts";

/** Work is counted in lookups of the engine, of about 50 ns each. */
export const WORK_PER_MS = 20_000;
/**
 * A command that costs more than this sets its connection aside: 10 us, so that 256 cheap ones take
 * 2.5 ms.
 */
export const CHEAP_WORK_MAX = 200;

export class RunQueue {
  /** Connections in the queue. */
  size = 0;
  readonly #line = new TimerHeap<ShardSession>();
  /** The tag of the connection that had the last turn. */
  #servedTo = 0;

  /** Sets aside a connection whose command cost `work`. */
  setAside(session: ShardSession, work: number): void {
    assert(work > 0, "a turn costs work");
    assert(!session.ended, "a client that is gone takes no turn");
    const turn = (session.turn ??= new Timer<ShardSession>(session));
    if (!session.isAside) this.size++;
    session.isAside = true;
    session.workTag = Math.max(session.workTag, this.#servedTo) + Math.max(1, work);
    this.#line.set(turn, session.workTag);
    assert(turn.position >= 0, "a session aside has a place in line");
  }

  /** Removes and returns the connection whose turn it is. It keeps its tag. */
  next(): ShardSession | undefined {
    const session = this.#line.first;
    if (session === undefined) return undefined;
    assert(session.isAside, "a session in line is aside");
    assert(session.workTag >= this.#servedTo, "turns go to ever greater tags");
    this.#servedTo = session.workTag;
    this.leave(session);
    return session;
  }

  /** Removes a connection that has ended or moves to another acceptor. */
  leave(session: ShardSession): void {
    if (!session.isAside) return;
    assert(session.turn !== undefined, "a session aside has a turn");
    session.isAside = false;
    this.size--;
    assert(this.size >= 0, "sessions in line are counted");
    this.#line.set(session.turn, Number.POSITIVE_INFINITY);
  }
}
