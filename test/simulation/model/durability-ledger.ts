// Ledger of a simulated server's durability: every change that the model saw, with its record, and
// the clients that were told of it.
//
// The model says which changes must be kept, the shards' record logs which records were made, and
// both must agree. No reply may leave before the record of its change is written. After a process
// ends, the recovered jobs must be those after some prefix of the log's order that contains all
// that was promised: what was acknowledged under -f 0, what was older than MS under -f MS, what was
// written or acknowledged if only the process died, and everything after an orderly stop.

import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import type { SyncEvery } from "../../../src/binlog/live/log-writer.ts";
import type { RecoveredBatch } from "../../../src/binlog/recovery/recovered-jobs.ts";
import { type RecordFields, RecordState } from "../../../src/message/record.ts";
import { KeyState } from "../../../src/protocol/job-attribute.ts";
import { type BatchFacts, BatchState } from "../../../src/schema/batch.ts";
import type { SettingValues } from "../../../src/schema/setting.ts";
import { settingsText } from "../../../src/shard/sessions/tube-setter.ts";
import { Model as LogModel, type Operation } from "../../binlog/model.ts";
import { jobsOfBatch } from "../../support/recovered-jobs.ts";
import { keyInLog, policyInLog } from "./kept-policy.ts";
import type { Kept, KeptJob, ModelChange } from "./model-types.ts";

/** End of a process: power cut, killed, or stopped in order. */
export type ProcessEnd = "power" | "kill" | "stop";

export interface OwedChange extends Operation {
  /** A client has its answer, which was to wait for the log. */
  acknowledged: boolean;
  /** Its place in the order of all changes. */
  readonly place: number;
  /** Time at which a flush wrote it, or Infinity. */
  flushedAtMs: number;
}

interface MadeRecord {
  readonly id: number;
  readonly n: number;
}

/** Longer bodies are compared by length and checksum. */
const SHOWN_BODY_BYTES = 40;

export class DurabilityLedger {
  /** Changes of the engine's call that the model followed last. */
  lastCall: readonly OwedChange[] = [];
  readonly #log = new LogModel();
  /** Jobs and keys at the start of the present process, after all changes since. */
  readonly #present = new Map<number, string>();
  /** The place of the first change after the last connection was closed. */
  #unseenFrom = 0;
  /** Records made in the present call, by shard. */
  #made: MadeRecord[][] = [];
  /** Changes by shard and number of their last record, in the present process. */
  #owed: Map<number, OwedChange>[] = [];
  /** Records in the order in which the log took them. */
  #taken: { shard: number; n: number }[] = [];
  #flushed = 0;
  /** By shard and record, when those were written whose call had not returned by then. */
  #early: Map<number, number>[] = [];
  #changes = 0;
  #lastFlushMs = Number.NEGATIVE_INFINITY;
  /** Bodies by digest: a job that a put replaces has several, and a restart may bring back each. */
  readonly #bodies = new Map<string, string>();
  readonly #bodyOf = new Map<number, string>();
  readonly #digests = new Map<number, string>();
  /**
   * Places of burials, by id, tube and count of burials: a buried job that changes is buried anew
   * behind the others.
   */
  readonly #burials = new Map<string, number[]>();
  /** For jobs found buried at the last start: the number of that burial. */
  readonly #burialsFound = new Map<number, number>();
  /** Ids that the log is known to know. */
  readonly #knownIds = new Set<number>();
  /** Ids that jobs have had, in all processes. */
  readonly #givenIds = new Set<number>();
  /** The ids of patterns, and what texts of settings mean. */
  readonly #patterns = new Map<string, number>();
  readonly #values = new Map<string, Partial<SettingValues>>();
  #synced: (shard: number) => number = () => 0;
  #syncEvery: SyncEvery = "never";

  /** A new process; `synced` tells how far its log says to be durable. */
  begin(shards: number, syncEvery: SyncEvery, synced: (shard: number) => number): void {
    this.#made = Array.from({ length: shards }, () => []);
    this.#owed = Array.from({ length: shards }, () => new Map());
    this.#early = Array.from({ length: shards }, () => new Map());
    this.#taken = [];
    this.#flushed = 0;
    this.#lastFlushMs = Number.NEGATIVE_INFINITY;
    this.#syncEvery = syncEvery;
    this.#synced = synced;
  }

  // --- what happens ------------------------------------------------------------------------------

  /** A shard's record log has made the records up to `n` for a job. */
  noteMade(shard: number, id: number, n: number): void {
    this.#made[shard]!.push({ id, n });
  }

  /** The model has followed a call on a shard: the records made must be those that it asks for. */
  follow(shard: number, changes: readonly ModelChange[], nowMs: number): void {
    const made = this.#made[shard]!.splice(0);
    const recorded = changes.map((change) => {
      // Several jobs may change at the very same moment, in any order.
      const at = made.findIndex((record) => record.id === change.id);
      assert.ok(at >= 0, `a change of job ${change.id} makes a record`);
      const [{ n }] = made.splice(at, 1) as [MadeRecord];
      return { ...change, n };
    });
    // Only the records tell the order: jobs come back as buried in that order.
    recorded.sort((a, b) => a.n - b.n);
    this.lastCall = recorded.map(({ id, job, n }) => {
      const place = ++this.#changes;
      const change = {
        shard,
        n,
        id,
        place,
        atMs: nowMs,
        acknowledged: false,
        // In the middle of a call a shard may wait for room in its ring to the log.
        flushedAtMs: this.#early[shard]!.get(n) ?? Number.POSITIVE_INFINITY,
      };
      return { ...change, job: job === undefined ? undefined : this.#text(job, place) };
    });
    assert.deepEqual(made, [], "records without a change");
    for (const change of this.lastCall) {
      const { id, job } = change;
      this.#owed[shard]!.set(change.n, change);
      if (job === undefined) this.#present.delete(id);
      else this.#present.set(id, job);
    }
  }

  /**
   * A job's id was given out, and a consumer may see it from now on: no other job may have had it,
   * whatever has ended since.
   */
  checkNew(id: number): void {
    assert.ok(!this.#givenIds.has(id), `job id ${id} was given to another job before`);
    this.#givenIds.add(id);
  }

  acknowledge(changes: readonly OwedChange[]): void {
    for (const change of changes) {
      assert.ok(
        change.flushedAtMs < Number.POSITIVE_INFINITY,
        `a change of job ${change.id} was acknowledged before it was written`,
      );
      change.acknowledged = true;
    }
  }

  /** The log has taken a record; it is neither durable nor written. */
  noteTaken(shard: number, n: number): void {
    this.#taken.push({ shard, n });
  }

  /** The log has written what it took, and synced what its policy told it to at `nowMs`. */
  noteFlushed(nowMs: number): void {
    for (; this.#flushed < this.#taken.length; this.#flushed++) {
      const taken = this.#taken[this.#flushed]!;
      const change = this.#change(taken);
      if (change !== undefined) change.flushedAtMs = nowMs;
      else this.#early[taken.shard]!.set(taken.n, nowMs);
    }
    this.#lastFlushMs = nowMs;
  }

  #change({ shard, n }: { shard: number; n: number }): OwedChange | undefined {
    return this.#owed[shard]!.get(n);
  }

  /** Checks at rest that all changes too old to be lost are durable, and that the log says so. */
  checkRest(nowMs: number): void {
    const every = this.#syncEvery;
    if (every === "never") return;
    for (const owed of this.#owed) {
      for (const { shard, n, id, flushedAtMs } of owed.values()) {
        const late: boolean = flushedAtMs + every <= nowMs && n > this.#synced(shard);
        assert.ok(
          !late,
          `a change of job ${id} is not synced ${nowMs - flushedAtMs} ms after it was written`,
        );
      }
    }
  }

  /**
   * A shard's record log has made a record of what is set for a pattern. Settings have ids below 0.
   */
  noteSetting(
    shard: number,
    n: number,
    pattern: string,
    values: Partial<SettingValues>,
    nowMs: number,
  ): void {
    if (!this.#patterns.has(pattern)) this.#patterns.set(pattern, -1 - this.#patterns.size);
    const text = settingsText(values);
    this.#values.set(text, { ...values });
    this.#owed[shard]!.set(n, {
      ...{ shard, n, id: this.#patterns.get(pattern)!, place: ++this.#changes, atMs: nowMs },
      ...{ acknowledged: false, flushedAtMs: Number.POSITIVE_INFINITY, job: text === "" ? undefined : text },
    });
  }

  /** A shard's record log has made a record of a batch. Batches have ids below all settings. */
  noteBatch(shard: number, n: number, facts: Readonly<BatchFacts>, nowMs: number): void {
    const [id, text] = keptBatch(facts);
    this.#owed[shard]!.set(n, {
      ...{ shard, n, id, place: ++this.#changes, atMs: nowMs, acknowledged: false },
      flushedAtMs: Number.POSITIVE_INFINITY,
      job: facts.state === BatchState.Forgotten ? undefined : text,
    });
  }

  // --- after the end -----------------------------------------------------------------------------

  /**
   * The process has ended and the log was read: throws if what it holds is not what was promised.
   * `burials` has the place of each buried job in the order of its tube.
   */
  settle(
    found: ReadonlyMap<number, string>,
    settings: ReadonlyMap<string, string>,
    burials: ReadonlyMap<number, number>,
    nextId: number,
    end: ProcessEnd,
  ): void {
    const patterns = [...settings].map(([pattern, text]) => [this.#patterns.get(pattern)!, text] as const);
    const recovered = new Map([...found, ...patterns]);
    const taken = this.#taken.map((record) => this.#change(record)).filter((each) => each !== undefined);
    checkOrder(taken);
    const must = new Set<Operation>(taken.filter((change) => this.#isPromised(change, end)));
    this.#log.operations = taken;
    const wrong = this.#log.settle(new Map(recovered), (operation) => must.has(operation));
    assert.equal(
      wrong,
      "",
      `after ${end === "power" ? "a power cut" : end === "kill" ? "a kill" : "a stop"}`,
    );
    this.#settleBurials(
      burials,
      taken,
      taken.findLastIndex((change) => must.has(change)),
    );
    for (const { id } of must) this.#knownIds.add(id);
    for (const id of recovered.keys()) this.#knownIds.add(id);
    for (const id of this.#knownIds) assert.ok(id < nextId, `next id is ${nextId}, but ${id} was given`);
  }

  /**
   * The jobs of a tube are buried in the order of their last burials in the log. Of several that
   * are told in the same words it may be any that is not before what is there for certain: all
   * changes up to the one that was promised last.
   */
  #settleBurials(
    order: ReadonlyMap<number, number>,
    taken: readonly OwedChange[],
    lastPromised: number,
  ): void {
    const promised = new Map(taken.slice(0, lastPromised + 1).map(({ id, place }) => [id, place]));
    const places = new Set([...taken.map(({ place }) => place), ...this.#burialsFound.values()]);
    this.#burialsFound.clear();
    const lastOf = new Map<string, number>();
    const buried = this.#kept.filter((each): each is KeptJob => each.state === "buried");
    for (const job of buried.sort((a, b) => order.get(a.id)! - order.get(b.id)!)) {
      const from = Math.max(promised.get(job.id) ?? 0, (lastOf.get(job.tube) ?? 0) + 1);
      const place = this.#burials.get(burialKey(job))?.find((each) => each >= from && places.has(each));
      assert.ok(place !== undefined, `job ${job.id} is buried in ${job.tube} behind those that were before`);
      lastOf.set(job.tube, place);
      this.#burialsFound.set(job.id, place);
      this.#burials.set(burialKey(job), [place]);
    }
  }

  #isPromised({ acknowledged, flushedAtMs }: OwedChange, end: ProcessEnd): boolean {
    if (end === "stop") return true;
    // Written is what outlives the process, and nothing is acknowledged before it is.
    if (end === "kill" && flushedAtMs < Number.POSITIVE_INFINITY) return true;
    if (acknowledged && this.#syncEvery === 0) return true;
    return this.#syncEvery !== "never" && flushedAtMs + this.#syncEvery <= this.#lastFlushMs;
  }

  /**
   * Jobs and keys as they were found by the last `settle`; buried jobs in the order of their
   * burial.
   */
  get found(): Kept[] {
    const burial = ({ id }: Kept): number => this.#burialsFound.get(id) ?? 0;
    return this.#kept
      .map((each) => (each.state === "remembered" ? each : { ...each, body: this.#bodies.get(each.body)! }))
      .sort((a, b) => burial(a) - burial(b));
  }

  /** The same with digests of bodies. */
  get #kept(): Kept[] {
    const texts = [...this.#log.jobs.entries()].filter(([id]) => id > 0);
    return texts.map(([, text]) => JSON.parse(text) as Kept);
  }

  /** Ids of jobs that the log knows for certain, or knew. */
  get knownIds(): ReadonlySet<number> {
    return this.#knownIds;
  }

  /** Settings found in the log. */
  get settings(): [pattern: string, values: Partial<SettingValues>][] {
    const patterns = [...this.#patterns.entries()].filter(([, id]) => this.#log.jobs.has(id));
    return patterns.map(([pattern, id]) => [pattern, this.#values.get(this.#log.jobs.get(id)!)!]);
  }

  /** Notes what a process has at its start, by its own clock. */
  noteStart(kept: readonly Kept[]): void {
    this.#present.clear();
    for (const each of kept) this.#present.set(each.id, JSON.stringify(this.#digested(each)));
  }

  /** All connections are closed, and the server rests: what changes from here on, nobody sees. */
  noteUnseen(): void {
    this.#unseenFrom = this.#changes + 1;
  }

  /**
   * Throws if the state in which a process has ended in order is not what its records say:
   * something has changed without one. The log has taken all of them, but for those of timers that
   * ended after the last connection was closed: the log may close before. `aheadMs` is by job how
   * far the clock was ahead that put it.
   */
  checkStopped(kept: readonly Kept[], logMs: number, aheadMs: ReadonlyMap<number, number>): void {
    const taken = new Set(this.#taken.map((record) => this.#change(record)));
    for (const owed of this.#owed)
      for (const change of owed.values())
        assert.ok(
          taken.has(change) || change.place >= this.#unseenFrom,
          `a change of job ${change.id} before the stop is not in the log`,
        );
    const comparable = (each: Kept): string =>
      JSON.stringify(toBeKept(each, logMs, aheadMs.get(each.id) ?? 0));
    const lasts = (each: Kept): boolean => each.state !== "remembered" || each.untilMs > logMs;
    const told = new Map<number, string>();
    for (const text of this.#present.values()) {
      const each = JSON.parse(text) as Kept;
      if (lasts(each)) told.set(each.id, comparable(each));
    }
    const left = kept.filter(lasts);
    assert.deepEqual(left.map(({ id }) => id).sort(), [...told.keys()].sort(), "jobs and keys at a stop");
    for (const each of left)
      assert.deepEqual(
        JSON.parse(comparable(this.#digested(each))),
        JSON.parse(told.get(each.id)!),
        `job ${each.id} at a stop, and in its records`,
      );
  }

  #digested(kept: Kept): Kept {
    return kept.state === "remembered"
      ? kept
      : { ...kept, body: bodyDigest(Buffer.from(kept.body, "latin1")) };
  }

  #text(kept: Kept, place: number): string {
    if (kept.state === "remembered") return JSON.stringify(kept);
    let digest = this.#digests.get(kept.id);
    if (digest === undefined || this.#bodyOf.get(kept.id) !== kept.body) {
      digest = bodyDigest(Buffer.from(kept.body, "latin1"));
      this.#digests.set(kept.id, digest);
      this.#bodies.set(digest, kept.body);
      this.#bodyOf.set(kept.id, kept.body);
    }
    if (kept.state === "buried") {
      const burials = this.#burials.get(burialKey(kept));
      if (burials === undefined) this.#burials.set(burialKey(kept), [place]);
      else burials.push(place);
    }
    return JSON.stringify({ ...kept, body: digest });
  }
}

/** The log has a job's changes in order, whichever shards made them: the last counts. */
function checkOrder(taken: readonly OwedChange[]): void {
  const places = new Map<number, number>();
  for (const { id, place } of taken) {
    assert.ok((places.get(id) ?? 0) < place, `changes of job ${id} are in the log in their order`);
    places.set(id, place);
  }
}

/**
 * Without what a restart may change. A reservation of a plain job that a stop has ended leaves no
 * record, so the count of reservations comes back as it was before, but not that of attempts; nor
 * does the end of a delay, or of a remembered key, which a start sees by its time.
 */
function toBeKept(kept: Kept, logMs: number, aheadMs: number): Kept {
  if (kept.state === "remembered") return kept;
  const { state, deadlineAtMs } = kept;
  const [reserves, ...others] = kept.counts;
  const attempts = reserves - kept.policy.attemptsBase;
  const isReady = state === "delayed" && deadlineAtMs <= logMs;
  const now = isReady ? ({ state: "ready", deadlineAtMs: 0 } as const) : { state, deadlineAtMs };
  const { keyState, keyUntilMs } = kept.policy;
  const isOver = keyState === KeyState.Remembered && keyUntilMs <= logMs + aheadMs;
  const key = isOver ? { keyState: KeyState.Lost, keyUntilMs: 0 } : { keyState, keyUntilMs };
  return {
    ...kept,
    ...now,
    counts: [attempts, ...others],
    policy: { ...kept.policy, ...key, attemptsBase: 0 },
  };
}

/** A job that moves to another tube is buried there anew, and the log may end before that. */
const burialKey = ({ id, tube, counts }: KeptJob): string => `${id} ${tube} ${counts[3]}`;

function bodyDigest(body: Buffer): string {
  return body.length <= SHOWN_BODY_BYTES ? body.toString("latin1") : `${body.length} bytes, ${crc32(body)}`;
}

/** Batches stand beside jobs, whose ids are above 0. */
const batchKey = (number: number): number => -1e6 - number;

/** A batch as it compares with the ledger's, without times. */
export function keptBatch(facts: Readonly<BatchFacts>): [id: number, text: string] {
  const { number, name, state, outcome, keepMs, allDone, allFailed } = facts;
  return [batchKey(number), JSON.stringify({ name, state, outcome, keepMs, allDone, allFailed })];
}

const KEPT_STATES = {
  [RecordState.ready]: "ready",
  [RecordState.delayed]: "delayed",
  [RecordState.buried]: "buried",
} as const;

/**
 * The jobs of a recovered batch as texts that compare with the ledger's, with what buried ones are
 * sorted by, and when each was put.
 */
export function* keptTexts(
  batch: RecoveredBatch,
): Generator<[id: number, text: string, Pick<RecordFields, "burySequence" | "createdAtMs">]> {
  for (const { fields, tube, body, attributes } of jobsOfBatch(batch)) {
    const list = Buffer.from(attributes, "hex");
    if (fields.state === RecordState.remembered) {
      yield [fields.id, JSON.stringify(keyInLog(fields.id, tube, list)), { ...fields, burySequence: 0 }];
      continue;
    }
    if (fields.state === RecordState.schedule) continue;
    const { id, pri, delaySeconds, ttrSeconds, deadlineAtMs } = fields;
    const [reserves = 0, timeouts = 0, releases = 0, buries = 0, kicks = 0] = fields.counters;
    const policy = policyInLog(list);
    const job: KeptJob = {
      id,
      tube,
      body: bodyDigest(body),
      state: KEPT_STATES[fields.state],
      pri,
      delaySeconds,
      ttrSeconds,
      deadlineAtMs: policy.after === 0 ? deadlineAtMs : 0,
      counts: [reserves, timeouts, releases, buries, kicks],
      policy,
    };
    yield [id, JSON.stringify(job), fields];
  }
}
