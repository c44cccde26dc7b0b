// A list of jobs of a tube, put together in as many turns as it takes.

import type { Engine } from "../../engine/engine.ts";
import { NO_SLOT } from "../../engine/job-table.ts";
import { type JobWalk, turnBudget } from "../../engine/job-walk.ts";
import { jobRow } from "./job-row.ts";
import type { LongMove } from "./long-move.ts";
import type { Replies } from "./replies.ts";
import type { ShardSession } from "./shard-session.ts";

/** Ids that one list looks at, bytes of bodies that it searches, and bytes of its text: then it says how to go on. */
const LIST_LOOKS_MAX = 100_000;
export const LIST_SEARCH_BYTES_MAX: number = 256 << 20;
const LIST_TEXT_BYTES_MAX = 48 * 1024;

/** So many bytes of bodies take as long to show as a job to change. */
const SHOWN_BYTES_PER_JOB = 48;

export interface ListedJobs {
  readonly tube: string;
  readonly walk: JobWalk;
  /** Jobs at most. */
  readonly limit: number;
  /** Bytes of each body that are shown. */
  readonly showBytes: number;
}

export class JobListing implements LongMove {
  readonly #engine: Engine;
  readonly #replies: Replies;
  readonly #session: ShardSession;
  readonly #listed: ListedJobs;
  readonly #rows: string[] = [];
  #textBytes = 0;
  #looksLeft = LIST_LOOKS_MAX;
  #searchBytesLeft: number;
  /** All ids up to this one have been listed or left out; up to which they had been when it began. */
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
  }

  get jobs(): number {
    const { tube: name, walk, limit, showBytes } = this.#listed;
    const tube = this.#engine.findTube(name);
    if (tube === undefined) return 0;
    const shown = Math.min(LIST_TEXT_BYTES_MAX, limit * showBytes, tube.bytes);
    return walk.work(tube) + Math.ceil(shown / SHOWN_BYTES_PER_JOB);
  }

  step(jobsMax: number, nowMs: number): boolean {
    const { walk, limit, showBytes } = this.#listed;
    // Nobody reads it any more.
    if (this.#session.ended) return true;
    this.#engine.runDue(nowMs);
    const tube = this.#engine.findTube(this.#listed.tube);
    if (tube === undefined) {
      this.#doneId = walk.lastId;
      return true;
    }
    const budget = turnBudget(jobsMax);
    const { looksLeft, searchBytesLeft } = budget;
    let isFull = false;
    for (let left = jobsMax; left > 0 && !isFull && this.#rows.length < limit; left--) {
      const slot = walk.next(tube, budget);
      if (slot !== NO_SLOT) isFull = !this.#add(jobRow(this.#engine, slot, nowMs, showBytes));
      if (!isFull) this.#doneId = walk.doneId;
      if (slot === NO_SLOT) break;
    }
    this.#looksLeft -= looksLeft - budget.looksLeft;
    this.#searchBytesLeft -= searchBytesLeft - budget.searchBytesLeft;
    return (
      isFull ||
      this.#rows.length >= limit ||
      this.#doneId >= walk.lastId ||
      this.#looksLeft <= 0 ||
      // The next list can't go on in the middle of a body: each gets behind one at least, however large that is.
      (this.#searchBytesLeft <= 0 && this.#doneId > this.#beganId)
    );
  }

  /** False if there is no room for the row; the first always has some. */
  #add(row: string): boolean {
    const bytes = row.length + LINE_BYTES;
    if (this.#rows.length > 0 && this.#textBytes + bytes > LIST_TEXT_BYTES_MAX) return false;
    this.#textBytes += bytes;
    this.#rows.push(row);
    return true;
  }

  finish(): void {
    const next = this.#doneId >= this.#listed.walk.lastId ? 0 : this.#doneId;
    const rows = this.#rows.map((row) => `- ${row}\n`).join("");
    this.#replies.text(this.#session, `---\nnext: ${next}\njobs:${rows === "" ? " []\n" : `\n${rows}`}`);
  }
}

/** What a line has besides its row. */
const LINE_BYTES = "- \n".length;
