// A list of jobs of one tube or of all, gathered over as many turns as it takes.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import { type JobWalk, turnBudget } from "../../engine/walks/job-walk.ts";
import { type ListedJob, packListedJobs } from "../../message/listed-jobs.ts";
import { LIST_TEXT_BYTES_MAX, listText } from "../../protocol/job-options.ts";
import { jobRow } from "../replies/job-row.ts";
import type { Replies } from "../replies/replies.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

/**
 * Maximum number of ids that one list examines, and of body bytes that it searches. Beyond that,
 * the client has to continue with another list.
 */
const LIST_LOOKS_MAX = 100_000;
const LIST_SEARCH_BYTES_MAX: number = 256 << 20;

/** Showing this many bytes of bodies takes as long as changing a job. */
const SHOWN_BYTES_PER_JOB = 48;

interface ListedJobs {
  /** Undefined for all tubes. The rows then name their tubes. */
  readonly tube: string | undefined;
  /**
   * Limit on the text if the list is for the acceptor, which merges the lists of all shards;
   * otherwise undefined.
   */
  readonly partBytesMax: number | undefined;
  readonly walk: JobWalk;
  /** Maximum number of jobs. */
  readonly limit: number;
  /** Bytes shown of each body. */
  readonly showBytes: number;
}

export class JobListing implements SlicedCommand {
  readonly #engine: Engine;
  readonly #replies: Replies;
  readonly #session: ShardSession;
  readonly #listed: ListedJobs;
  readonly #rows: ListedJob[] = [];
  #textBytes = 0;
  #looksLeft = LIST_LOOKS_MAX;
  #searchBytesLeft: number;
  /** All ids up to this one are listed or skipped; and its initial value. */
  #doneId: number;
  readonly #beganId: number;

  constructor(
    engine: Engine,
    replies: Replies,
    session: ShardSession,
    listed: ListedJobs,
    searchBytesMax: number = LIST_SEARCH_BYTES_MAX,
  ) {
    this.#searchBytesLeft = searchBytesMax;
    this.#engine = engine;
    this.#replies = replies;
    this.#session = session;
    this.#listed = listed;
    this.#doneId = listed.walk.doneId;
    this.#beganId = listed.walk.doneId;
    assert(listed.limit > 0, "a list has room for a job");
  }

  get jobs(): number {
    const { walk, limit, showBytes } = this.#listed;
    const tube = this.#tube;
    if (tube === null) return 0;
    const shown = Math.min(LIST_TEXT_BYTES_MAX, limit * showBytes, tube?.bytes ?? Infinity);
    return walk.work(tube) + Math.ceil(shown / SHOWN_BYTES_PER_JOB);
  }

  /** The tube to list: undefined for all, null if it is gone. */
  get #tube(): Tube | undefined | null {
    const { tube } = this.#listed;
    return tube === undefined ? undefined : (this.#engine.findTube(tube) ?? null);
  }

  step(jobsMax: number, nowMs: number): boolean {
    const { walk, limit } = this.#listed;
    // The client is gone.
    if (this.#session.ended) return true;
    this.#engine.runDue(nowMs);
    const tube = this.#tube;
    if (tube === null) {
      this.#doneId = walk.lastId;
      return true;
    }
    const budget = turnBudget(jobsMax);
    const { looksLeft, searchBytesLeft } = budget;
    let isFull = false;
    for (let left = jobsMax; left > 0 && !isFull && this.#rows.length < limit; left--) {
      const slot = walk.next(tube, budget);
      if (slot !== NO_SLOT && !this.#hasLeft(slot)) isFull = !this.#add(slot, nowMs);
      if (!isFull) this.#doneId = walk.doneId;
      if (slot === NO_SLOT) break;
    }
    assert(this.#rows.length <= limit, "a list has no more rows than its limit");
    assert(looksLeft >= budget.looksLeft, "a step spends its budget");
    this.#looksLeft -= looksLeft - budget.looksLeft;
    this.#searchBytesLeft -= searchBytesLeft - budget.searchBytesLeft;
    return (
      isFull ||
      this.#rows.length >= limit ||
      this.#doneId >= walk.lastId ||
      this.#looksLeft <= 0 ||
      // A list cannot resume in the middle of a body, so each gets past at least one, however
      // large.
      (this.#searchBytesLeft <= 0 && this.#doneId > this.#beganId)
    );
  }

  /**
   * Returns whether the job was transferred to another shard and has arrived, so that it is listed
   * there.
   */
  #hasLeft(slot: number): boolean {
    const id = this.#engine.jobs.pageOf(slot).id[rowOf(slot)]!;
    assert(id > 0, "a job that is found has an id");
    return this.#engine.isMoving(id) && this.#replies.isElsewhere(id);
  }

  /** Adds a job. Returns false if there is no room; the first one always fits. */
  #add(slot: number, nowMs: number): boolean {
    const { tube, showBytes, partBytesMax = LIST_TEXT_BYTES_MAX } = this.#listed;
    const line = `- ${jobRow(this.#engine, slot, nowMs, showBytes, tube === undefined)}\n`;
    if (this.#rows.length > 0 && this.#textBytes + line.length > partBytesMax) return false;
    this.#textBytes += line.length;
    const { id } = this.#rows.at(-1) ?? { id: 0 };
    assert(id < this.#engine.jobs.pageOf(slot).id[rowOf(slot)]!, "a list is in ascending order");
    this.#rows.push({ id: this.#engine.jobs.pageOf(slot).id[rowOf(slot)]!, line });
    return true;
  }

  finish(): void {
    const { lastId } = this.#listed.walk;
    assert(this.#doneId >= Math.min(this.#beganId, lastId), "a list continues after the id where it began");
    const next = this.#doneId >= lastId ? 0 : this.#doneId;
    if (this.#listed.partBytesMax !== undefined)
      this.#replies.gatheredBytes(this.#session, packListedJobs(next, this.#rows));
    else {
      const lines = this.#rows.map(({ line }) => line);
      this.#replies.text(this.#session, listText(next, lines));
    }
  }
}
