// Looks: before a client hears that there is no job, the other acceptors look whether the holder of one has
// just gone.
//
// A client closes its connection at one acceptor, and another client asks for a job at a second one. The
// kernel has the end before the command, but each thread reads its own sockets in its own time, so the
// command may reach the shard first: the job is still reserved, and a reserve that does not wait would be
// told TIMED_OUT, where beanstalkd, which reads one socket after the other, gives the job. So where somebody
// holds a job of a watched tube, the shard asks all other acceptors to read what their sockets have. Their
// Looked comes behind the Closes of that reading, in the same ring. Acceptors wait for nobody in this, so
// nobody can wait in a circle. Only a reserve that finds nothing and may not wait pays for it.

import { assert } from "../base/assert.ts";
import type { Engine } from "../engine/engine.ts";
import { ResponseKind } from "../message/response.ts";
import type { ReplyPort } from "./replies/reply-port.ts";
import type { ShardSession } from "./sessions/shard-session.ts";

/** With more watched tubes than this it is enough that any job of the shard is reserved. */
const TUBES_MAX = 64;

export class ReadBarrier {
  readonly #engine: Engine;
  readonly #ports: readonly ReplyPort[];
  readonly #acceptors: number;
  /** Sessions that wait for looks, by the number of theirs, and how many acceptors have still to look. */
  readonly #waiting = new Map<number, { readonly session: ShardSession; remaining: number }>();
  #lastNumber = 0;

  /** The first `acceptors` ports are those of acceptors: the http thread has no sockets whose end somebody waits for. */
  constructor(engine: Engine, ports: readonly ReplyPort[], acceptors: number) {
    this.#engine = engine;
    this.#ports = ports;
    this.#acceptors = acceptors;
  }

  /**
   * Asks the other acceptors to look, if that may bring the session a job. Returns whether it has to wait for
   * them.
   */
  begin(session: ShardSession): boolean {
    const others = this.#acceptors - (session.acceptor < this.#acceptors ? 1 : 0);
    if (others === 0 || !this.#mayBringJob(session)) return false;
    const number = ++this.#lastNumber;
    this.#waiting.set(number, { session, remaining: others });
    session.look = number;
    for (let acceptor = 0; acceptor < this.#acceptors; acceptor++)
      if (acceptor !== session.acceptor)
        this.#ports[acceptor]!.beginSignal(ResponseKind.Look, 0, 0, 0, number);
    return true;
  }

  /** An acceptor has looked. Returns the session whose last look it was, unless its connection is gone. */
  looked(number: number): ShardSession | undefined {
    const waiting = this.#waiting.get(number);
    assert(waiting !== undefined, "acceptors look when they were asked to");
    if (--waiting.remaining > 0) return undefined;
    this.#waiting.delete(number);
    const { session } = waiting;
    if (session.ended || session.look !== number) return undefined;
    session.look = 0;
    return session;
  }

  #mayBringJob({ engineSession }: ShardSession): boolean {
    if (this.#engine.jobsReserved === engineSession.held.size) return false;
    if (engineSession.watches.size > TUBES_MAX) return true;
    for (const tube of engineSession.watches.keys()) if (this.#engine.hasReserved(tube)) return true;
    return false;
  }
}
