// Long moves of all sessions: those that fit into the present turn are done at once, the others stand in
// line.

import { assert } from "../../base/assert.ts";
import type { LongMove } from "./long-move.ts";
import type { Replies } from "./replies.ts";
import type { ShardSession } from "./shard-session.ts";

/** Jobs moved, or watches ended, for one client in one turn: about a millisecond of work. */
export const TURN_JOBS_MAX = 1000;
/**
 * How many times as many the commands of all clients that arrive in one turn may move at once; what is beyond
 * stands in line.
 */
const ALL_CLIENTS = 4;

interface UnderWay {
  readonly session: ShardSession;
  readonly move: LongMove;
  /** The last record before it: its answer waits for the records of all its turns. */
  readonly recordsBefore: number;
}

export class LongMoves {
  readonly #replies: Replies;
  readonly #jobsMax: number;
  /** The first has the next turn. */
  readonly #line: UnderWay[] = [];
  /** Jobs and watches that commands may still move at once in this turn. */
  #turnLeft = 0;

  constructor(replies: Replies, jobsMax: number) {
    this.#replies = replies;
    this.#jobsMax = jobsMax;
  }

  /** Allows new commands as many moves as a turn may take. */
  beginTurn(): void {
    this.#turnLeft = this.#jobsMax * ALL_CLIENTS;
  }

  /** Whether so many moves of one client still fit into this turn; if so, they are taken off. */
  takesTurn(jobs: number): boolean {
    if (jobs > this.#jobsMax || jobs > this.#turnLeft) return false;
    this.#turnLeft -= jobs;
    return true;
  }

  /**
   * Begins a move, which is finished now or in a later turn; until then the session takes no other command.
   */
  start(session: ShardSession, move: LongMove, nowMs: number): void {
    const underWay = this.#begin(session, move);
    const fits = this.takesTurn(Math.min(move.jobs, this.#jobsMax));
    if (!fits || !this.#step(underWay, nowMs)) this.#line.push(underWay);
  }

  /** Lets a move begin in a later turn. */
  join(session: ShardSession, move: LongMove): void {
    this.#line.push(this.#begin(session, move));
  }

  #begin(session: ShardSession, move: LongMove): UnderWay {
    assert(session.longMove === undefined, "a session has one long move at a time");
    session.longMove = move;
    return { session, move, recordsBefore: this.#replies.recordsBefore };
  }

  /** Whether a move could go on now; `mayAnswer` tells whether there is room for a reply to a session. */
  hasWork(mayAnswer: (session: ShardSession) => boolean): boolean {
    return this.#line.some(({ session, move }) => move.isWaiting !== true && mayAnswer(session));
  }

  /** Goes on with one move. Returns its session if it is done. */
  step(mayAnswer: (session: ShardSession) => boolean, nowMs: number): ShardSession | undefined {
    const at = this.#line.findIndex(({ session, move }) => move.isWaiting !== true && mayAnswer(session));
    if (at < 0) return undefined;
    const [underWay] = this.#line.splice(at, 1) as [UnderWay];
    if (this.#step(underWay, nowMs)) return underWay.session;
    this.#line.push(underWay);
    return undefined;
  }

  #step({ session, move, recordsBefore }: UnderWay, nowMs: number): boolean {
    this.#replies.recordsBefore = recordsBefore;
    if (!move.step(this.#jobsMax, nowMs)) return false;
    session.longMove = undefined;
    move.finish();
    return true;
  }
}
