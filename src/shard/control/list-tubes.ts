// Lists the tubes of a shard with their counts, or one of them, as rows of fixed layout
// (message/control.ts), some in each turn.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import { type Answers, type SettingInEffect, TUBE_ROWS_AT, type TubeDetails } from "../../message/control.ts";
import { JobCounter } from "../../schema/job.ts";
import { eachOf } from "../../schema/names.ts";
import { COUNTERS, POLICY_COUNT_NAMES, TUBE_COUNTERS, TUBE_FIELDS, TubeField } from "../../schema/tube.ts";
import { settingNamed, settingsText } from "../sessions/tube-setter.ts";
import type { ControlAnswerer, ControlShard, ControlWork } from "./control-work.ts";

/** Rows of one slice: about 0.1 ms. */
const ROWS_MAX = 200;
const NAME_BYTES_MAX = 200;
const PART_BYTES_MAX = TUBE_ROWS_AT + ROWS_MAX * (TUBE_FIELDS * 8 + 1 + NAME_BYTES_MAX);

/** Shared by all lists: a part is copied when it is sent. */
const buffer = new ArrayBuffer(PART_BYTES_MAX + 8);
const bytes = new Uint8Array(buffer);
const counts = new Uint32Array(buffer, 0, 2);
const rows = new Float64Array(buffer, TUBE_ROWS_AT, ROWS_MAX * TUBE_FIELDS);

export class ListTubes implements ControlWork {
  readonly #shard: ControlShard;
  readonly #tubes: Iterator<Tube>;
  /** The number of tubes at the start, so that new tubes cannot prolong the list for ever. */
  #remaining: number;

  /** Lists all tubes, or the one with this name. */
  constructor(shard: ControlShard, name: string | undefined) {
    this.#shard = shard;
    const { engine } = shard;
    if (name === undefined) {
      this.#tubes = engine.tubes.values();
      this.#remaining = engine.tubes.size;
    } else {
      const tube = engine.findTube(name);
      this.#tubes = (tube === undefined ? [] : [tube]).values();
      this.#remaining = 1;
    }
  }

  step(answerer: ControlAnswerer): boolean {
    const { engine } = this.#shard;
    const tubes: Tube[] = [];
    while (tubes.length < ROWS_MAX && this.#remaining > 0) {
      const next = this.#tubes.next();
      this.#remaining = next.done === true ? 0 : this.#remaining - 1;
      if (next.done !== true) tubes.push(next.value);
    }
    for (const [index, tube] of tubes.entries()) writeRow(engine, tube, index * TUBE_FIELDS);
    counts[0] = tubes.length;
    counts[1] = 0;
    let at = TUBE_ROWS_AT + tubes.length * TUBE_FIELDS * 8;
    for (const { name } of tubes) {
      assert(name.length <= NAME_BYTES_MAX, "the name of a tube fits into its row");
      bytes[at++] = name.length;
      for (let i = 0; i < name.length; i++) bytes[at++] = name.charCodeAt(i);
    }
    assert(at <= PART_BYTES_MAX, "the rows of a part fit into the buffer");
    answerer.bytes(bytes, at, this.#remaining === 0);
    return this.#remaining === 0;
  }
}

/** Each reads a counter of a tube. */
const COUNTS: readonly ((tube: Tube) => number)[] = TUBE_COUNTERS.map((name) => {
  const row = COUNTERS[name];
  if ("policy" in row) return ({ countsIfAny }) => countsIfAny?.[row.policy] ?? 0;
  return (tube) => tube[row.tube];
});

function writeRow(engine: Engine, tube: Tube, at: number): void {
  assert(at + TUBE_FIELDS <= rows.length, "a row of a tube lies in its part");
  assert(tube.urgentJobs <= tube.jobsIn(JobState.Ready), "urgent jobs are among the ready ones of a tube");
  rows[at + TubeField.sequence] = tube.sequence;
  rows[at + TubeField.ready] = tube.jobsIn(JobState.Ready);
  rows[at + TubeField.urgent] = tube.urgentJobs;
  rows[at + TubeField.reserved] = tube.reservedJobs;
  rows[at + TubeField.delayed] = tube.jobsIn(JobState.Delayed);
  rows[at + TubeField.buried] = tube.buriedJobs;
  rows[at + TubeField.oldestReadyAtMs] = tube.oldestReadyAtMs;
  rows[at + TubeField.oldestBuriedAtMs] = tube.oldestBuriedAtMs;
  rows[at + TubeField.bodyBytes] = tube.bytes;
  rows[at + TubeField.users] = tube.using;
  rows[at + TubeField.watchers] = tube.watching;
  rows[at + TubeField.waiters] = engine.waitingOn(tube);
  const { paused, pauseSeconds } = tube;
  const isHalted = tube.policy?.paused === "yes";
  rows[at + TubeField.pauseSeconds] = isHalted ? Number.POSITIVE_INFINITY : pauseSeconds;
  rows[at + TubeField.pauseUntilMs] = isHalted ? Number.POSITIVE_INFINITY : paused ? tube.pauseTimer.atMs : 0;
  // Only the shards of the tubes whose jobs die know the settings that name this tube.
  const holdsDead = tube.jobsIn(JobState.Ready) > 0 && engine.changes.originOf(tube.ready.best) !== "";
  rows[at + TubeField.holdsDead] = holdsDead ? 1 : 0;
  const lost = engine.policies.failures.lostJobOf(tube);
  const page = lost === NO_SLOT ? undefined : engine.jobs.pageOf(lost);
  rows[at + TubeField.lostJob] = page?.id[rowOf(lost)] ?? 0;
  rows[at + TubeField.lostJobReserves] = page?.count(rowOf(lost), JobCounter.reserves) ?? 0;
  rows[at + TubeField.lostJobDisconnects] = page?.count(rowOf(lost), JobCounter.disconnects) ?? 0;
  for (let k = 0; k < COUNTS.length; k++) rows[at + TubeField.puts + k] = COUNTS[k]!(tube);
}

// Settings of tubes for the HTTP thread: a page of patterns in order, or what is in effect for one
// tube.

/** Patterns examined in a slice: about 0.1 ms. */
const SLICE_PATTERNS = 300;
/** Settings in a part. One takes up to 1 KiB with its pattern. */
const PART_SETTINGS = 20;

/** Lists the first patterns after another one. The stored patterns are not sorted. */
export class ListSettings implements ControlWork {
  readonly #shard: ControlShard;
  readonly #patterns: Iterator<readonly [string, object]>;
  readonly #after: string;
  readonly #limit: number;
  /** The first patterns so far, in order. */
  readonly #first: string[] = [];
  /** The number of patterns at the start, so that new ones can't prolong the search for ever. */
  #left: number;

  constructor(shard: ControlShard, { after, limit }: { after: string; limit: number }) {
    const { settings } = shard.engine;
    this.#shard = shard;
    this.#after = after;
    this.#limit = limit;
    assert(limit > 0, "a page has room for a setting");
    this.#left = settings.size;
    this.#patterns = settings.entries();
  }

  step(answerer: ControlAnswerer): boolean {
    for (let slice = SLICE_PATTERNS; slice > 0 && this.#left > 0; slice--) {
      const { done, value } = this.#patterns.next();
      this.#left = done === true ? 0 : this.#left - 1;
      if (done !== true) this.#note(value[0]);
    }
    if (this.#left > 0) {
      answerer.value([], false);
      return false;
    }
    const part = this.#first.splice(0, PART_SETTINGS).flatMap((pattern) => {
      const text = textOf(this.#shard, pattern);
      return text === null ? [] : [[pattern, text]];
    });
    const isLast = this.#first.length === 0;
    answerer.value(part, isLast);
    return isLast;
  }

  cancel(): void {
    this.#left = 0;
    this.#first.length = 0;
  }

  /** Keeps a pattern if it is among the first so far. */
  #note(pattern: string): void {
    const first = this.#first;
    if (pattern <= this.#after || !this.#shard.ownsTube(pattern)) return;
    if (first.length === this.#limit && pattern > first.at(-1)!) return;
    let [low, high] = [0, first.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (first[middle]! < pattern) low = middle + 1;
      else high = middle;
    }
    first.splice(low, 0, pattern);
    if (first.length > this.#limit) first.pop();
    assert(first.length <= this.#limit, "a page has no more settings than were asked for");
  }
}

/** Returns the settings of a pattern as set-tube writes them, or null if it has none. */
export function textOf({ engine }: ControlShard, pattern: string): string | null {
  const values = engine.settings.get(pattern);
  return values === undefined ? null : settingsText(values);
}

/** Returns the facts of inspect-tube, or the settings for a tube that doesn't exist. */
export function inspectTube({ engine, nowMs }: ControlShard, name: string): Answers["inspect-tube"] {
  const tube = engine.findTube(name);
  const policy = tube === undefined ? engine.settings.policyOf(name) : tube.policy;
  const settings = (policy === undefined ? "" : settingsText(policy, (each) => policy.sources.has(each)))
    .split(" ")
    .filter((option) => option !== "")
    .map((option): SettingInEffect => {
      const [word, value] = option.split("=", 2) as [string, string];
      return [word, value, policy!.sources.get(settingNamed(word)) ?? ""];
    });
  return { settings, details: tube === undefined ? null : detailsOf(tube, nowMs) };
}

function detailsOf(tube: Tube, nowMs: number): TubeDetails {
  assert((tube.groups?.blocked ?? 0) <= (tube.groups?.size ?? 0), "blocked groups are among the groups");
  const tokens = tube.limiter?.tokens(nowMs) ?? Number.POSITIVE_INFINITY;
  return {
    groups: tube.groups?.size ?? 0,
    groupsBlocked: tube.groups?.blocked ?? 0,
    ...eachOf(POLICY_COUNT_NAMES, (name) => tube.countsIfAny?.[name] ?? 0),
    tokens: tokens === Number.POSITIVE_INFINITY ? undefined : Math.max(0, Math.floor(tokens)),
  };
}
