// Read barrier: before a client is told that there is no job, the other acceptors check whether the
// holder of one has just disconnected.
//
// One client closes its connection at one acceptor; another client asks for a job at a second
// acceptor. The kernel has the end before the command. But each thread reads its own sockets at its
// own pace, so the command may reach the shard first. The job is then still reserved, and a reserve
// that does not wait would get TIMED_OUT. beanstalkd reads one socket after another and would give
// the job.
//
// So if a job of a watched tube is reserved by another client, the shard asks all other acceptors
// to read their sockets, and the client's own one, too, if it reads ends late (libuv). Their
// acknowledgements follow the Closes of that reading, in the same ring. Acceptors wait for nothing
// here, so there can be no circular wait. Only a reserve that finds no job and may not wait pays
// for the barrier.
//
// `stats`, `stats-tube`, `inspect-tube` and `list-tubes` start a barrier, too: they must not count
// a client that has closed. So do `stats-job` and `inspect-job` of a job that another client holds.
// The acceptors hold `current-connections`, and uncount a connection when every shard has answered
// Closed. So `stats` takes two rounds: the question of the second follows the Closed in the ring of
// each acceptor.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { type ReplyPort, ResponseFlag, ResponseKind } from "../../message/response.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import { BarrierRounds } from "./command.ts";

/** With more watched tubes than this, any reserved job of the shard suffices. */
const TUBES_MAX = 64;

interface WaitingSession {
  readonly session: ShardSession;
  /** Acceptors that have not answered in this round. */
  remaining: number;
  /** Rounds left, this one included. */
  rounds: number;
}

export class ReadBarrier {
  readonly #engine: Engine;
  readonly #ports: readonly ReplyPort[];
  readonly #acceptors: number;
  readonly #readsEndsLate: (acceptor: number) => boolean;
  /** Sessions that wait for a barrier, by its number. */
  readonly #waiting = new Map<number, WaitingSession>();
  #lastNumber = 0;

  /**
   * The first `acceptors` ports belong to acceptors. The HTTP thread has no sockets that matter
   * here. `readsEndsLate`: see Counter.ReadsEndsLate.
   */
  constructor(
    engine: Engine,
    ports: readonly ReplyPort[],
    acceptors: number,
    readsEndsLate: (acceptor: number) => boolean,
  ) {
    this.#engine = engine;
    this.#ports = ports;
    this.#acceptors = acceptors;
    this.#readsEndsLate = readsEndsLate;
    assert(acceptors <= ports.length, "each acceptor has a port");
  }

  /**
   * Starts a barrier if it may get the session a job. Returns whether the session has to wait for
   * it.
   */
  beginForJob(session: ShardSession): boolean {
    return this.#mayBringJob(session) && this.begin(session, BarrierRounds.Read);
  }

  /** Starts a barrier. Returns whether the session has to wait: there are acceptors to ask. */
  begin(session: ShardSession, rounds: BarrierRounds): boolean {
    const asked = this.#countAsked(session);
    if (asked === 0) return false;
    assert(session.barrier === 0, "a session waits for one barrier");
    const number = ++this.#lastNumber;
    assert(rounds > 0, "a barrier has a round");
    this.#waiting.set(number, { session, remaining: asked, rounds });
    session.barrier = number;
    this.#ask(session, number, 0);
    return true;
  }

  /**
   * Notes that an acceptor has read its sockets. Returns the session if this completes its barrier,
   * unless its connection is gone.
   */
  acknowledged(number: number): ShardSession | undefined {
    const waiting = this.#waiting.get(number);
    assert(waiting !== undefined, "acceptors acknowledge barriers that were begun");
    assert(waiting.remaining > 0, "each acceptor acknowledges a round once");
    if (--waiting.remaining > 0) return undefined;
    const { session } = waiting;
    const isMoot = session.ended || session.barrier !== number;
    if (!isMoot && --waiting.rounds > 0) {
      waiting.remaining = this.#countAsked(session);
      assert(waiting.remaining > 0, "a round asks an acceptor");
      this.#ask(session, number, ResponseFlag.HaveRead);
      return undefined;
    }
    this.#waiting.delete(number);
    if (isMoot) return undefined;
    session.barrier = 0;
    return session;
  }

  #countAsked(session: ShardSession): number {
    const { acceptor } = session;
    assert(acceptor < this.#ports.length, "a session that waits has a port");
    return this.#acceptors - (acceptor < this.#acceptors && !this.#isAsked(session, acceptor) ? 1 : 0);
  }

  /** A session's own acceptor has read the ends before its command, unless it reads them late. */
  #isAsked(session: ShardSession, acceptor: number): boolean {
    return acceptor !== session.acceptor || this.#readsEndsLate(acceptor);
  }

  #ask(session: ShardSession, number: number, flags: number): void {
    assert(session.barrier === number, "a barrier belongs to its session");
    for (let acceptor = 0; acceptor < this.#acceptors; acceptor++)
      if (this.#isAsked(session, acceptor))
        this.#ports[acceptor]!.beginSignal(ResponseKind.Barrier, flags, 0, 0, number);
  }

  #mayBringJob({ engineSession }: ShardSession): boolean {
    assert(
      this.#engine.jobsReserved >= engineSession.held.size,
      "jobs that a session holds are among the reserved ones",
    );
    if (this.#engine.jobsReserved === engineSession.held.size) return false;
    if (engineSession.watches.size > TUBES_MAX) return true;
    for (const tube of engineSession.watches.keys()) if (this.#engine.hasReserved(tube)) return true;
    return false;
  }
}
