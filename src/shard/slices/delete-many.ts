// A delete-batch: deletes one job after another, each as `delete` does.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import { type Engine, Outcome } from "../../engine/engine.ts";
import { NO_SLOT } from "../../engine/jobs/job-table.ts";
import { Deleted, packDeleted } from "../../message/deleted.ts";
import { Op } from "../../protocol/commands.ts";
import { IdList } from "../../protocol/id-list.ts";
import { deletedBatchReply } from "../../protocol/reply.ts";
import { Request, Span } from "../../protocol/request.ts";
import type { Replies } from "../replies/replies.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class DeleteMany implements SlicedCommand {
  readonly jobs: number;
  readonly mayEndUnheard = true;
  readonly #engine: Engine;
  readonly #replies: Replies;
  readonly #session: ShardSession;
  readonly #span = new Span();
  readonly #ids: IdList;
  /** A Deleted value for each id. */
  readonly #results: Uint8Array;
  readonly #missing: string[] = [];
  readonly #forAcceptor: boolean;
  #done = 0;
  /** Whether the current id is in progress: its job is being transferred to another shard. */
  #isBegun = false;
  #hasRedirects = false;

  /**
   * `ids` contains `count` ids as the client sent them. If `forAcceptor` is set, the answer is a
   * signal, and the acceptor assembles the reply.
   */
  constructor(
    engine: Engine,
    replies: Replies,
    session: ShardSession,
    ids: Span,
    count: number,
    forAcceptor: boolean,
  ) {
    this.#engine = engine;
    this.#replies = replies;
    this.#session = session;
    this.#span.copyOf(ids);
    this.#ids = new IdList(this.#span);
    this.jobs = count;
    this.#results = new Uint8Array(count);
    assert(count > 0, "a delete-batch names at least one job");
    this.#forAcceptor = forAcceptor;
  }

  get awaitedJob(): number | undefined {
    const { id } = this.#ids;
    return this.#isBegun && this.#engine.isMoving(id) && !this.#replies.isElsewhere(id) ? id : undefined;
  }

  step(jobsMax: number, nowMs: number): boolean {
    for (let left = jobsMax; left > 0 && (this.#isBegun || this.#ids.next()); left--) {
      this.#isBegun = true;
      if (this.awaitedJob !== undefined) return false;
      this.#isBegun = false;
      this.#delete(this.#ids.id, nowMs);
      this.#done++;
    }
    assert(this.#done <= this.jobs, "each id has one result");
    return this.#done === this.jobs;
  }

  #delete(id: number, nowMs: number): void {
    assert(this.#done < this.jobs, "no more jobs are deleted than were named");
    // The job has arrived elsewhere, and the confirmation is still in flight.
    const hasLeft = this.#engine.isMoving(id);
    if (!hasLeft && this.#engine.delete(this.#session.engineSession, id, nowMs) === Outcome.Done) {
      this.#results[this.#done] = Deleted.Yes;
      return;
    }
    if (hasLeft || (this.#engine.find(id) === NO_SLOT && this.#replies.mayBeElsewhere(id))) {
      this.#results[this.#done] = Deleted.Elsewhere;
      this.#hasRedirects = true;
    }
    if (!this.#forAcceptor) this.#missing.push(this.#ids.text);
  }

  finish(): void {
    assert(this.#done === this.jobs, "each named job has a result");
    // As with `delete`: other clients may have deleted the missing jobs a moment ago.
    if (this.#results.some((result) => result !== Deleted.Yes)) this.#replies.dependOnAll();
    if (this.#forAcceptor) this.#replies.settled(this.#session, 0, this.#results);
    else if (this.#hasRedirects) this.#handOn();
    else {
      const missing = this.#missing;
      this.#replies.fixed(this.#session, deletedBatchReply(this.jobs - missing.length, missing));
    }
  }

  /** Redirects the rest, so that the acceptor looks for jobs that have left. */
  #handOn(): void {
    assert(!this.#forAcceptor, "an acceptor looks for missing jobs itself");
    const { bytes, start, end } = this.#span;
    const rest = packDeleted(this.#results, latin1(bytes, start, end), this.#replies.lastRecord);
    const request = new Request().begin(Op.DeleteBatch);
    request.body.set(rest, 0, rest.length);
    this.#replies.redirected(this.#session, request);
  }
}
