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

/** Jobs moved, or watches ended, in one turn: about a millisecond of work. */
export const TURN_JOBS_MAX = 1000;

export class LongMoves {
  readonly #engine: Engine;
  readonly #replies: Replies;
  readonly #jobsMax: number;
  /** Sessions with a move under way; the first has the next turn. */
  readonly #line: ShardSession[] = [];

  constructor(engine: Engine, replies: Replies, jobsMax: number) {
    this.#engine = engine;
    this.#replies = replies;
    this.#jobsMax = jobsMax;
  }

  /** Kicks up to `bound` jobs and answers, now or in a later turn. */
  kick(session: ShardSession, bound: number, nowMs: number): void {
    this.#engine.runDue(nowMs);
    const client = session.engineSession;
    const buried = this.#engine.kicksBuried(client);
    const there = client.used!.jobsIn(buried ? JobState.Buried : JobState.Delayed);
    // No more than there are now: workers that bury what was kicked would otherwise keep it going.
    const left = bound <= this.#jobsMax ? bound : Math.min(bound, there);
    session.longKick = { buried, left, kicked: 0, recordsBefore: this.#replies.recordsBefore };
    if (!this.#kickSome(session, session.longKick, nowMs)) this.#line.push(session);
  }

  /** Whether a connection that ends has more jobs and watches than go in one turn; if so, later turns give them back. */
  givesBack(session: ShardSession): boolean {
    const client = session.engineSession;
    if (client.held.size + client.watches.size <= this.#jobsMax) return false;
    // Its turn may be a while off, and no job may go to somebody who is not there.
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
