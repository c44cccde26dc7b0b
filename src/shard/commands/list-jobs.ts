// `list-jobs`: lists jobs of one tube or of all, in order of their ids. For a list over all shards,
// it returns this shard's part.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { ALL_STATES, type JobFilter, type JobWalk, stateBit, turnBudget } from "../../engine/job-walk.ts";
import { type JobPage, JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import { ListPartView, RequestFlag } from "../../message/request.ts";
import { type ListedJob, packListedJobs } from "../../message/response.ts";
import { LIST_LIMIT_USUAL, LIST_TEXT_BYTES_MAX, listText, OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber, optionText } from "../../protocol/options.ts";
import type { Request } from "../../protocol/request.ts";
import { isEveryTube } from "../../protocol/tube-name.ts";
import { FIXED_COUNTERS, JOB_COUNTERS, JobCounter } from "../../schema/job.ts";
import {
  ageSeconds,
  escaped,
  isTimed,
  lastFailure,
  STATE_NAMES,
  saidFields,
  secondsLeft,
} from "../sessions/job-text.ts";
import type { ReplyWriter } from "../sessions/replies.ts";
import type { ShardSession, SlicedCommand } from "../sessions/shard-session.ts";
import type { ShardCommand } from "./command.ts";

// The options that select jobs of a tube.

/** The states in the order of their words: see STATE_WORDS in protocol/commands.ts. */
const STATES: readonly JobState[] = [JobState.Ready, JobState.Delayed, JobState.Buried, JobState.Reserved];

/**
 * Returns the filter of a command's options, with its own copies of bytes. Without `state`, it
 * selects `usualStates`.
 */
export function jobFilterOf({ options }: Request, usualStates: number, nowMs: number): JobFilter {
  const words = optionNumber(options, OptionTag.State);
  const olderMs = optionNumber(options, OptionTag.Older);
  const group = optionText(options, OptionTag.Group);
  return {
    states: words === undefined ? usualStates : statesOf(words),
    createdByMs: olderMs === undefined ? Number.POSITIVE_INFINITY : nowMs - olderMs,
    contains: optionText(options, OptionTag.Contains)?.slice(),
    group: group === undefined ? undefined : latin1(group, 0, group.length),
  };
}

function statesOf(words: number): number {
  let states = 0;
  for (const [word, state] of STATES.entries()) if ((words & (1 << word)) !== 0) states |= stateBit(state);
  assert(states !== 0, "a filter accepts at least one state");
  return states;
}

// A job as a row of a list: JSON, which is also valid YAML.

/**
 * Returns the row of a job. It has up to `showBytes` bytes of the body if that is not 0, and the
 * tube if `namesTube` is set.
 */
export function jobRow(
  engine: Engine,
  slot: number,
  nowMs: number,
  showBytes: number,
  namesTube = false,
): string {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const state = page.state[row]!;
  assert(state !== JobState.Free, "only an existing job is listed");
  const timed = isTimed(engine, slot);
  const shown = showBytes === 0 ? "" : `,"body":"${bodyText(engine, slot, showBytes)}"`;
  return (
    `{"id":${page.id[row]},${namesTube ? `"tube":"${engine.tubeOf(slot).name}",` : ""}"state":"${STATE_NAMES[state]}","pri":${page.pri[row]}` +
    `,"age":${ageSeconds(page.createdAtMs[row]!, nowMs)},"delay":${page.delaySeconds[row]}` +
    `,"ttr":${page.ttrSeconds[row]},"time-left":${timed ? secondsLeft(page.deadlineAtMs[row]!, nowMs) : 0}` +
    `${counterFields(page, row, 0, FIXED_COUNTERS)},"bytes":${page.bodyBytes[row]}` +
    `${counterFields(page, row, FIXED_COUNTERS)}${lastFailure(engine, slot, nowMs)}${saidFields(engine, slot)}${shown}}`
  );
}

/** Returns the counters from one position on. Few jobs have rare ones: these show unless 0. */
function counterFields(page: JobPage, row: number, from: number, to?: number): string {
  let fields = "";
  for (const name of JOB_COUNTERS.slice(from, to)) {
    const count = page.count(row, JobCounter[name]);
    if (count > 0 || from < FIXED_COUNTERS) fields += `,"${name}":${count}`;
  }
  return fields;
}

/**
 * Returns the first bytes of a body, one character per byte. Bytes outside printable ASCII are
 * escaped.
 */
function bodyText(engine: Engine, slot: number, showBytes: number): string {
  assert(showBytes > 0, "the shown part of a body is not empty");
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const bytes = new Uint8Array(Math.min(showBytes, page.bodyBytes[row]!));
  engine.bodies.read(page.body[row]!, 0, bytes, 0, bytes.length);
  return escaped(latin1(bytes, 0, bytes.length));
}

// A list of jobs of one tube or of all, gathered over as many turns as it takes.

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
  readonly #replies: ReplyWriter;
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
    replies: ReplyWriter,
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
    return this.#engine.transfers.isMoving(id) && this.#replies.isElsewhere(id);
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

/** May take several turns. */
export const listJobs: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, request) => {
  const { options } = request;
  const filter = jobFilterOf(request, ALL_STATES, nowMs);
  const afterId = optionNumber(options, OptionTag.After) ?? 0;
  const listed = {
    tube: isEveryTube(request.tube) ? undefined : request.tube.text,
    partBytesMax:
      (request.flags & RequestFlag.AckOnly) === 0 ? undefined : ListPartView.textBytesMax(request),
    walk: engine.walk({ ...filter, states: shownStates(filter.states) }, afterId),
    limit: optionNumber(options, OptionTag.Limit) ?? LIST_LIMIT_USUAL,
    showBytes: optionNumber(options, OptionTag.Show) ?? 0,
  };
  slicedCommands.start(session, new JobListing(engine, replies, session, listed), nowMs);
};

/** Returns the states to search. A job in transit to another shard is shown as reserved. */
const shownStates = (states: number): number =>
  (states & stateBit(JobState.Reserved)) === 0 ? states : states | stateBit(JobState.Moving);
