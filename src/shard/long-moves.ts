// Commands that move any number of jobs: kicks, and ends of connections that hold jobs or watch tubes. They move some in
// each turn of the shard, so that a million jobs of one client are not the wait of all others.
//
// What others may see of it: a part of the jobs has moved and the rest has not, as if a client had sent many small kicks.
// Each move of a job is whole, waiting clients are served job by job in either case, and the client that kicks is
// answered, and its next command run, when all is done.

import type { Engine } from "../engine/engine.ts";
import { JobState } from "../engine/job-table.ts";
import { ReplyWord } from "../protocol/reply.ts";
import type { Replies } from "./replies.ts";
import type { LongKick, ShardSession } from "./shard-session.ts";

/** Jobs moved, or watches ended, for one client in one turn: about a millisecond of work. */
export const TURN_JOBS_MAX = 1000;
/** How many times as many the commands of all clients that arrive in one turn may move at once; what is beyond stands in line. */
const ALL_CLIENTS = 4;

export class LongMoves {
  readonly #engine: Engine;
  readonly #replies: Replies;
  readonly #jobsMax: number;
  /** Sessions with a move under way; the first has the next turn. */
  readonly #line: ShardSession[] = [];
  /** Jobs and watches that commands may still move at once in this turn. */
  #turnLeft = 0;

  constructor(engine: Engine, replies: Replies, jobsMax: number) {
    this.#engine = engine;
    this.#replies = replies;
    this.#jobsMax = jobsMax;
  }

  /** Allows new commands as many moves as a turn may take. */
  beginTurn(): void {
    this.#turnLeft = this.#jobsMax * ALL_CLIENTS;
  }

  /** Kicks up to `bound` jobs and answers, now or in a later turn. */
  kick(session: ShardSession, bound: number, nowMs: number): void {
    this.#engine.runDue(nowMs);
    const { recordsBefore } = this.#replies;
    const kick: LongKick = { buried: undefined, left: bound, kicked: 0, recordsBefore };
    session.longKick = kick;
    const now = Math.min(bound, this.#kickable(session), this.#jobsMax);
    if (!this.#takesTurn(now) || !this.#kickSome(session, kick, nowMs)) this.#line.push(session);
  }

  /** Jobs that a kick could take now. */
  #kickable(session: ShardSession): number {
    const client = session.engineSession;
    return client.tubeInUse.jobsIn(this.#engine.kicksBuried(client) ? JobState.Buried : JobState.Delayed);
  }

  /** Whether so many moves still fit into this turn; if so, they are taken off. */
  #takesTurn(moves: number): boolean {
    if (moves > this.#turnLeft) return false;
    this.#turnLeft -= moves;
    return true;
  }

  /** Whether a connection that ends has more jobs and watches than go in this turn; if so, later turns give them back. */
  givesBack(session: ShardSession): boolean {
    const client = session.engineSession;
    const steps = client.held.size + client.watches.size;
    if (steps <= this.#jobsMax && this.#takesTurn(steps)) return false;
    // Its turn may be a while off, and no job may go to a client that is gone.
    this.#engine.abandonWait(client);
    this.#line.push(session);
    return true;
  }

  /** Whether a move could go on now; `mayAnswer` tells whether there is room for a reply to a session. */
  hasWork(mayAnswer: (session: ShardSession) => boolean): boolean {
    return this.#line.some(mayAnswer);
  }

  /** Goes on with one move. Returns its session if it is done. */
  step(mayAnswer: (session: ShardSession) => boolean, nowMs: number): ShardSession | undefined {
    const at = this.#line.findIndex(mayAnswer);
    if (at < 0) return undefined;
    const [session] = this.#line.splice(at, 1) as [ShardSession];
    const kick = session.longKick;
    const done =
      kick === undefined
        ? this.#engine.giveBack(session.engineSession, this.#jobsMax, nowMs)
        : this.#kickSome(session, kick, nowMs);
    if (done) return session;
    this.#line.push(session);
    return undefined;
  }

  #kickSome(session: ShardSession, kick: LongKick, nowMs: number): boolean {
    if (kick.buried === undefined) {
      kick.buried = this.#engine.kicksBuried(session.engineSession);
      // No more than there are now: workers that bury what was kicked would otherwise keep it going.
      if (kick.left > this.#jobsMax) kick.left = Math.min(kick.left, this.#kickable(session));
    }
    const bound = Math.min(kick.left, this.#jobsMax);
    // The reply waits for the records of all turns.
    this.#replies.recordsBefore = kick.recordsBefore;
    const kicked = this.#engine.kick(session.engineSession, bound, nowMs, kick.buried);
    kick.kicked += kicked;
    kick.left = kicked < bound ? 0 : kick.left - kicked;
    if (kick.left > 0) return false;
    session.longKick = undefined;
    this.#replies.number(session, ReplyWord.kicked, kick.kicked);
    return true;
  }
}
