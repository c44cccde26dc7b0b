// State of the model: its jobs, tubes, sessions and waits, and the effects of the present event.

import assert from "node:assert/strict";
import type { ModelBucket } from "./model-bucket.ts";
import type { ModelHistory } from "./model-finished.ts";
import { type ModelKey, ModelSettings } from "./model-policies.ts";
import type {
  Effect,
  KnownBatch,
  ModelChange,
  ModelJob,
  ModelSession,
  ModelTube,
  Wait,
} from "./model-types.ts";
import { entriesOf, fieldsOf } from "./undo.ts";

const NOTHING = (): void => {};

export class ModelState {
  readonly jobs: Map<number, ModelJob> = new Map();
  readonly tubes: Map<string, ModelTube> = new Map();
  readonly sessions: Map<number, ModelSession> = new Map();
  /**
   * By the numbers that they had: a shard may not have executed yet what came in before the move.
   */
  readonly moved: Map<number, ModelSession> = new Map();
  /** Longest wait first. */
  waits: Wait[] = [];
  /** Jobs given out in the present event, by id: some may be gone by its end. */
  readonly given: Map<number, ModelJob> = new Map();
  /** Counts the model's events. */
  event = 1;
  totalJobs = 0;
  jobTimeouts = 0;
  /** Acknowledged changes, which a log must keep. */
  changes: ModelChange[] = [];
  /** The log's clock minus the model's, ms. */
  readonly logOffsetMs: number;
  /** How far the clock was ahead that put a job from before the start. */
  readonly aheadMs = new Map<number, number>();
  /** By shard. */
  readonly settings: readonly ModelSettings[];
  keys: ModelKey[] = [];
  /** Whether the job whose key the last put named is in another tube. */
  duplicateHasLeft = false;
  /** Whether there is a log. */
  hasLog = false;
  /** Records of keys that jobs leave behind, as the engine made them in the present event. */
  left: { readonly id: number; readonly record: number }[] = [];
  /** Keys whose own record is to be deleted. */
  orphans: ModelKey[] = [];
  /** Remains of moved jobs on their former shard until it knows that they have arrived. */
  copies: ModelJob[] = [];
  /** Buckets of deleted tubes. */
  readonly buckets = new Map<string, ModelBucket>();
  /** By tube, the buckets of its groups, which outlive it. */
  readonly #groupBuckets = new Map<string, Map<string, ModelBucket>>();
  readonly shards: number;
  /** Returns what a shard calls the worker in a session. */
  workerName: (session: number) => string = () => "";
  /** By tube, the ends of jobs that it keeps. */
  readonly finished = new Map<string, ModelHistory>();
  burials = 0;
  reservations = 0;
  /** By shard, the batches that it knows, by number. */
  readonly knownBatches: readonly Map<number, KnownBatch>[];
  /** By number, the members that have gone, over all shards. */
  readonly batches = new Map<number, { done: number; failed: number }>();
  /** Effects of the engine in the present event, and those expected so far. */
  #seen: readonly Effect[] = [];
  #expected: Effect[] = [];

  constructor(shards: number, logOffsetMs: number) {
    this.shards = shards;
    this.settings = Array.from({ length: shards }, () => new ModelSettings());
    this.knownBatches = Array.from({ length: shards }, () => new Map());
    this.logOffsetMs = logOffsetMs;
  }

  /** Runs one event on a shard and checks that its effects are those that were seen. */
  follow<Result>(seen: readonly Effect[], run: () => Result): Result {
    this.event++;
    this.#seen = seen;
    this.#expected = [];
    this.given.clear();
    const result = run();
    assert.deepEqual(seen, this.#expected, "the effects of an engine's call");
    assert.deepEqual(this.left, [], "keys are left behind by jobs that leave");
    return result;
  }

  groupBucketsOf(tube: string): Map<string, ModelBucket> {
    const buckets = this.#groupBuckets.get(tube) ?? new Map<string, ModelBucket>();
    this.#groupBuckets.set(tube, buckets);
    return buckets;
  }

  effect(effect: Effect): void {
    this.#expected.push(effect);
  }

  /** The engine's next effect that nothing has explained yet. */
  get nextSeen(): Effect | undefined {
    return this.#seen[this.#expected.length];
  }

  /** Returns whether what the engine did begins with what it should have done so far. */
  fitsSeen(): boolean {
    return this.#expected.every((effect, at) => JSON.stringify(effect) === JSON.stringify(this.#seen[at]));
  }

  /** Returns a function that restores everything that time may change. */
  saved(): () => void {
    const jobs = [...this.jobs.values()];
    const tubes = [...this.tubes.values()];
    const undo = [
      fieldsOf([...jobs, ...jobs.map(({ policy }) => policy), ...this.copies]),
      fieldsOf([...tubes, ...tubes.map(({ counts }) => counts)]),
      fieldsOf([...this.sessions.values(), ...this.waits, ...this.keys, ...this.batches.values()]),
      ...[...this.sessions.values()].map(({ turns }) => turns?.saved() ?? NOTHING),
      ...tubes.flatMap(({ groups, bucket }) => [groups?.saved() ?? NOTHING, bucket?.saved() ?? NOTHING]),
      entriesOf(this.buckets),
      ...[...this.#groupBuckets.values()].flatMap((buckets) => [
        entriesOf(buckets),
        ...[...buckets.values()].map((bucket) => bucket.saved()),
      ]),
      ...[entriesOf(this.jobs), entriesOf(this.tubes), entriesOf(this.given)],
      entriesOf(this.finished),
    ];
    const [waits, keys, copies, changes] = [
      [...this.waits],
      [...this.keys],
      [...this.copies],
      [...this.changes],
    ];
    const [left, orphans] = [[...this.left], [...this.orphans]];
    const [expected, totalJobs, jobTimeouts] = [[...this.#expected], this.totalJobs, this.jobTimeouts];
    const [burials, reservations] = [this.burials, this.reservations];
    return () => {
      for (const each of undo) each();
      [this.waits, this.keys, this.copies, this.changes] = [waits, keys, copies, changes];
      [this.left, this.orphans] = [left, orphans];
      [this.#expected, this.totalJobs, this.jobTimeouts] = [expected, totalJobs, jobTimeouts];
      [this.burials, this.reservations] = [burials, reservations];
    };
  }
}
