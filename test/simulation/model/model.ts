// Model of the server, as simple as possible: one list of jobs, one list of waits, no heaps, no
// rings.
//
// The model follows the engines call by call: each call says which command took effect where and
// when, and the model says what must follow. Where the contract leaves the order open (timers due
// at the same moment on different tubes or sessions), the model tries one order after another until
// one yields the engine's effects.

import assert from "node:assert/strict";
import { shardOfTube } from "../../../src/base/tube-hash.ts";
import type { JobChange } from "../../../src/engine/jobs/new-job.ts";
import { backoffMs } from "../../../src/engine/policies/attempts.ts";
import type { SettingValues } from "../../../src/engine/tubes/tube-settings.ts";
import { KeyState } from "../../../src/protocol/job-attribute.ts";
import { FAILURES_MAX } from "../../../src/protocol/job-failure.ts";
import { DEADLINE_MARGIN_MS } from "../../../src/protocol/limits.ts";
import { fits, type JobChoice } from "./job-choice.ts";
import type { State } from "./job-state.ts";
import { type KeptKey, type KeptPolicy, keptPolicy, shifted } from "./kept-policy.ts";
import { ModelBucket } from "./model-bucket.ts";
import { ModelGroups } from "./model-groups.ts";
import {
  type JobPolicy,
  type ModelKey,
  ModelSettings,
  NO_POLICY,
  type Resolved,
  type TubeCounts,
} from "./model-policies.ts";
import { entriesOf, fieldsOf } from "./undo.ts";

const NEVER = Number.POSITIVE_INFINITY;
const AFTER_DEADLINE_MS = 0.001;
const NOTHING = (): void => {};

export type { State };

export interface ModelJob {
  readonly id: number;
  tube: ModelTube;
  readonly body: string;
  /** What it has by its options, and by what is set for its tube. */
  readonly policy: JobPolicy;
  /**
   * For a job on its way to another shard: its state before, its holder then, its transfer, and the
   * reason.
   */
  stateBefore: Exclude<State, "moving">;
  holderBefore: ModelSession | undefined;
  transfer: number;
  errand: Errand | undefined;
  ttrSeconds: number;
  pri: number;
  delaySeconds: number;
  state: State;
  deadlineAtMs: number;
  holder: ModelSession | undefined;
  reserves: number;
  timeouts: number;
  releases: number;
  buries: number;
  kicks: number;
  /** Order of burials, and of reservations. */
  buriedAt: number;
  /** The model's event in which it was buried last. */
  buriedSince: number;
  reservedAt: number;
  /** The model's event in which the job became ready last, and in which a ttr of it began last. */
  readySince: number;
  touchedAt: number;
}

/** Why a job goes to another shard, and what becomes of it there. */
export interface Errand {
  readonly travel: "move" | "death" | "update" | "handed";
  /** It becomes ready, whatever it was. */
  readonly asReady: boolean;
  /** It becomes ready or delayed for so long. */
  readonly delayMs: number | undefined;
  /** What it is there, instead of what it was. */
  readonly facts: Pick<ModelJob, "pri" | "ttrSeconds" | "releases"> | undefined;
  readonly expiresAtMs?: number;
  readonly attemptsBase?: number;
}

export interface ModelTube {
  readonly name: string;
  readonly shard: number;
  pausedUntilMs: number | undefined;
  pauseSeconds: number;
  /** The model's event in which a pause ended last. */
  unpausedSince: number;
  totalJobs: number;
  movedIn: number;
  movedOut: number;
  deletes: number;
  pauses: number;
  /** What is set for it, as it was told last. */
  resolved: Resolved;
  readonly counts: TubeCounts;
  /** From its first job with a group on. */
  groups: ModelGroups<ModelJob> | undefined;
  /** Where a rate is set for it. */
  bucket: ModelBucket | undefined;
  /** Some of its ready jobs may have been kept back: those of a group, or by a limit. */
  wasLimited: boolean;
  readonly users: Set<ModelSession>;
  readonly watchers: Set<ModelSession>;
}

/** One connection, over all shards. */
export interface ModelSession {
  /** It changes when the connection moves. */
  index: number;
  /** Number of its open wait over several shards, or 0, and of the last one. */
  openWait: number;
  lastWait: number;
  /** Shards on which it can't wait any more. */
  readonly halfClosedOn: Set<number>;
  /** Event in which a reservation of it ran out last, or was taken away. */
  expiredAt: number;
  /** By shard, up to which of its reservations a touch of all that goes in slices has come. */
  readonly touchedUpTo: Map<number, number>;
}

export interface Wait {
  readonly session: ModelSession;
  readonly shard: number;
  /** Number of a wait over several shards; undefined for a wait on this shard alone. */
  readonly number: number | undefined;
  timeoutAtMs: number;
  /** Its acceptor was told that it is due. */
  told: boolean;
}

export type Effect =
  | { kind: "reserved"; session: number; job: number }
  | { kind: "timedOut" | "deadlineSoon" | "waitDue"; session: number }
  | { kind: "claim"; session: number; won: boolean };

/** What becomes of a put. */
export type PutVerdict = { kind: "stored" | "full" } | { kind: "duplicate"; of: number };

export type ByIdResult = "done" | "not found";

/**
 * A change that a log must keep: of what a restart brings back of a job, or undefined for its end.
 */
export interface ModelChange {
  readonly id: number;
  readonly job: Kept | undefined;
}

/** What the log has of an id. */
export type Kept = KeptJob | KeptKey;

/** What outlives the process: a reservation does not. */
export interface KeptJob {
  readonly id: number;
  readonly tube: string;
  readonly body: string;
  readonly state: Exclude<State, "reserved" | "moving">;
  readonly pri: number;
  readonly delaySeconds: number;
  readonly ttrSeconds: number;
  /** Deadline of a delayed job, wall clock; 0 for others. */
  readonly deadlineAtMs: number;
  /** Reserves, timeouts, releases, buries, kicks. */
  readonly counts: readonly [number, number, number, number, number];
  readonly policy: KeptPolicy;
}

export class Model {
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
  /** Wall clock minus the model's clock, ms. */
  readonly wallOffsetMs: number;
  /** By shard. */
  readonly settings: readonly ModelSettings[];
  keys: ModelKey[] = [];
  /** What is left of jobs where they came from, until it is known there that they have arrived. */
  copies: ModelJob[] = [];
  /** Buckets of deleted tubes. */
  readonly #buckets = new Map<string, ModelBucket>();
  readonly #shards: number;
  #burials = 0;
  #reservations = 0;
  /** What the engine did in the present event, and what it should have done so far. */
  #seen: readonly Effect[] = [];
  #expected: Effect[] = [];

  /** What a shard calls the worker in a session. */
  workerName: (session: number) => string = () => "";

  constructor(shards: number, wallOffsetMs = 0) {
    this.#shards = shards;
    this.settings = Array.from({ length: shards }, () => new ModelSettings());
    this.wallOffsetMs = wallOffsetMs;
    this.tube("default");
  }

  // --- what a log must keep ----------------------------------------------------------------------

  #keep(job: ModelJob): void {
    this.changes.push({ id: job.id, job: this.#kept(job) });
  }

  #kept(job: ModelJob): KeptJob {
    const { id, body, pri, delaySeconds, ttrSeconds, deadlineAtMs } = job;
    return {
      id,
      tube: job.tube.name,
      body,
      state: keptState(job.state === "moving" ? job.stateBefore : job.state),
      pri,
      delaySeconds,
      ttrSeconds,
      deadlineAtMs: job.state === "delayed" ? deadlineAtMs + this.wallOffsetMs : 0,
      counts: [job.reserves, job.timeouts, job.releases, job.buries, job.kicks],
      policy: keptPolicy(job.policy, this.keyOf(job), this.wallOffsetMs),
    };
  }

  /** What a job has of the key that it was put with. */
  keyOf({ id, tube }: ModelJob): ModelKey | undefined {
    return this.keys.find((key) => key.id === id && key.tube === tube.name);
  }

  /** Everything that a restart at this moment must bring back, except unrecorded reservations. */
  get kept(): Kept[] {
    const jobs = [...this.jobs.values()];
    const isGone = ({ id }: ModelKey): boolean => !this.jobs.has(id);
    return [
      ...jobs.map((job) => this.#kept(job)),
      ...this.keys.filter(isGone).map((key) => this.#keptKey(key)),
    ];
  }

  #keptKey({ id, tube, key, untilMs }: ModelKey): KeptKey {
    return { id, tube, state: "remembered", key, untilMs: untilMs + this.wallOffsetMs };
  }

  /**
   * Whether the log is told of each end of a reservation: something is set for the tube, or the job
   * has options.
   */
  #hasPolicy({ policy, tube }: ModelJob): boolean {
    const { key, group, weight, expiresAtMs, attemptsBase, reason, leaves } = policy;
    const isPlain = key === "" && group === "" && weight === 1 && expiresAtMs === 0 && attemptsBase === 0;
    return !isPlain || reason !== "none" || leaves || Object.keys(tube.resolved.sources).length > 0;
  }

  /** What was set for a pattern before the restart. */
  restoreSetting(pattern: string, values: Readonly<Partial<SettingValues>>): void {
    for (const [shard, settings] of this.settings.entries())
      if (pattern.endsWith("*") || this.tubeShard(pattern) === shard) settings.set(pattern, values);
  }

  /** All settings are back, before any job is. */
  endSettings(): void {
    const tube = this.tube("default");
    tube.resolved = this.settings[tube.shard]!.resolve(tube.name);
    tube.bucket = this.#bucketOf(tube.name, tube.resolved);
    tube.wasLimited = isLimited(tube.resolved);
  }

  /** A key whose job is gone is back. */
  restoreKey({ id, tube, key, untilMs }: KeptKey): void {
    this.keys.push({ tube, key, id, isHeld: false, untilMs: this.#sinceStart(untilMs) });
  }

  /**
   * All jobs are back: groups begin anew, and weigh what the youngest job says that was put into
   * them.
   */
  endRestore(): void {
    // The time of a key that a job was given out with may be over, without a record, and another
    // job have it or have had it since.
    const isPassed = (key: ModelKey): boolean =>
      this.keys.some(
        ({ tube, key: name, isHeld, untilMs }) =>
          tube === key.tube && name === key.key && (isHeld || untilMs > key.untilMs),
      );
    this.keys = this.keys.filter((key) => key.isHeld || !isPassed(key));
    for (const job of [...this.jobs.values()].sort((a, b) => a.id - b.id))
      this.#joinGroup(job, !job.policy.hasMoved);
    for (const job of this.jobs.values()) if (job.state === "ready") job.tube.groups?.becameReady(job);
  }

  /** A time of the wall clock, 0 for never; one before the process began is over. */
  #sinceStart(atMs: number): number {
    return atMs === 0 ? 0 : Math.max(Number.MIN_VALUE, atMs - this.wallOffsetMs);
  }

  #restoreOwnKey(id: number, { tube, policy: kept }: KeptJob): void {
    const { key, keyState, keyUntilMs } = kept;
    if (key === "" || keyState === KeyState.Lost) return;
    const isHeld = keyState !== KeyState.Remembered;
    this.keys.push({ tube, key, id, isHeld, untilMs: this.#sinceStart(keyUntilMs) });
  }

  /** Brings a job back after a restart at `nowMs`; buried ones in the order of their burial. */
  restore(kept: KeptJob, nowMs: number): void {
    const deadlineAtMs = kept.state === "delayed" ? kept.deadlineAtMs - this.wallOffsetMs : 0;
    const [reserves, timeouts, releases, buries, kicks] = kept.counts;
    const { id, pri, delaySeconds, ttrSeconds, body } = kept;
    this.#restoreOwnKey(id, kept);
    this.jobs.set(id, {
      ...{ id, pri, delaySeconds, ttrSeconds, body, reserves, timeouts, releases, buries, kicks },
      tube: this.tube(kept.tube),
      policy: this.#restoredPolicy(kept.policy),
      ...AT_HOME,
      state: kept.state === "delayed" && deadlineAtMs <= nowMs ? "ready" : kept.state,
      deadlineAtMs,
      holder: undefined,
      buriedAt: kept.state === "buried" ? ++this.#burials : 0,
      buriedSince: 0,
      reservedAt: 0,
      readySince: this.event,
      touchedAt: 0,
    });
  }

  #restoredPolicy({ keyState: _, keyUntilMs, expiresAtMs, ...kept }: KeptPolicy): JobPolicy {
    return {
      ...NO_POLICY,
      ...kept,
      keyUntilWallMs: keyUntilMs,
      expiresAtMs: this.#sinceStart(expiresAtMs),
      failures: kept.failures.map((failure) => shifted(failure, -this.wallOffsetMs)),
    };
  }

  /** Runs one event on a shard and checks that its effects are those that were seen. */
  follow<Result>(seen: readonly Effect[], run: () => Result): Result {
    this.event++;
    this.#seen = seen;
    this.#expected = [];
    this.given.clear();
    const result = run();
    assert.deepEqual(seen, this.#expected, "the effects of an engine's call");
    return result;
  }

  #effect(effect: Effect): void {
    this.#expected.push(effect);
  }

  /** Whether what the engine did begins with what it should have done so far. */
  #fitsSeen(): boolean {
    return this.#expected.every((effect, at) => JSON.stringify(effect) === JSON.stringify(this.#seen[at]));
  }

  /** What brings all back that time may change. */
  #saved(): () => void {
    const jobs = [...this.jobs.values()];
    const tubes = [...this.tubes.values()];
    const undo = [
      fieldsOf([...jobs, ...jobs.map(({ policy }) => policy), ...this.copies]),
      fieldsOf([...tubes, ...tubes.map(({ counts }) => counts)]),
      fieldsOf([...this.sessions.values(), ...this.waits, ...this.keys]),
      ...tubes.flatMap(({ groups, bucket }) => [groups?.saved() ?? NOTHING, bucket?.saved() ?? NOTHING]),
      entriesOf(this.#buckets),
      ...[entriesOf(this.jobs), entriesOf(this.tubes), entriesOf(this.given)],
    ];
    const [waits, keys, copies, changes] = [
      [...this.waits],
      [...this.keys],
      [...this.copies],
      [...this.changes],
    ];
    const [expected, totalJobs, jobTimeouts] = [[...this.#expected], this.totalJobs, this.jobTimeouts];
    const [burials, reservations] = [this.#burials, this.#reservations];
    return () => {
      for (const each of undo) each();
      [this.waits, this.keys, this.copies, this.changes] = [waits, keys, copies, changes];
      [this.#expected, this.totalJobs, this.jobTimeouts] = [expected, totalJobs, jobTimeouts];
      [this.#burials, this.#reservations] = [burials, reservations];
    };
  }

  // --- tubes and sessions ------------------------------------------------------------------------

  tube(name: string): ModelTube {
    const known = this.tubes.get(name);
    if (known !== undefined) return known;
    const bytes = Buffer.from(name, "latin1");
    const shard = shardOfTube(bytes, 0, bytes.length, this.#shards);
    const resolved = this.settings[shard]!.resolve(name);
    const tube: ModelTube = {
      name,
      shard,
      resolved,
      counts: { duplicates: 0, rejected: 0, expired: 0, dead: 0 },
      groups: undefined,
      bucket: this.#bucketOf(name, resolved),
      wasLimited: isLimited(resolved),
      pausedUntilMs: undefined,
      pauseSeconds: 0,
      unpausedSince: 0,
      totalJobs: 0,
      movedIn: 0,
      movedOut: 0,
      deletes: 0,
      pauses: 0,
      users: new Set(),
      watchers: new Set(),
    };
    this.tubes.set(name, tube);
    return tube;
  }

  #dropIfUnused(tube: ModelTube): void {
    if (tube.name === "default" || tube.users.size > 0 || tube.watchers.size > 0) return;
    if (this.jobsOf(tube).length > 0 || !this.tubes.delete(tube.name)) return;
    if (tube.bucket !== undefined) this.#buckets.set(tube.name, tube.bucket);
  }

  /** The bucket of a tube that begins to be there: the one that it had, if it is to be the same. */
  #bucketOf(name: string, { values }: Resolved): ModelBucket | undefined {
    const before = this.#buckets.get(name);
    this.#buckets.delete(name);
    if (before?.isSetTo(values) === true) return before;
    return values.rate === "" ? undefined : new ModelBucket(values);
  }

  session(index: number): ModelSession {
    const known = this.sessions.get(index) ?? this.moved.get(index);
    if (known !== undefined) return known;
    const session: ModelSession = {
      ...{ index, openWait: 0, lastWait: 0, halfClosedOn: new Set(), expiredAt: 0 },
      touchedUpTo: new Map(),
    };
    this.sessions.set(index, session);
    return session;
  }

  /** The session is known by another number from now on. */
  rename(index: number, now: number): void {
    const session = this.session(index);
    this.sessions.delete(index);
    session.index = now;
    this.sessions.set(now, session);
  }

  /** It moves: what came by this number belongs to it until all shards have executed that. */
  keepMoved(index: number): void {
    this.moved.set(index, this.session(index));
  }

  /** They have; the number may be in use again. */
  forgetMoved(index: number): void {
    this.moved.delete(index);
  }

  usedTube(session: ModelSession, shard: number): ModelTube {
    const used = [...this.tubes.values()].filter((tube) => tube.shard === shard && tube.users.has(session));
    assert.equal(used.length, 1, "a session uses one tube of the shard that a put or kick goes to");
    return used[0]!;
  }

  use(session: ModelSession, name: string): void {
    const tube = this.tube(name);
    for (const other of [...this.tubes.values()]) {
      if (other.shard === tube.shard && other !== tube && other.users.delete(session))
        this.#dropIfUnused(other);
    }
    tube.users.add(session);
  }

  unuse(session: ModelSession, shard: number): void {
    for (const tube of [...this.tubes.values()]) {
      if (tube.shard === shard && tube.users.delete(session)) this.#dropIfUnused(tube);
    }
  }

  watch(session: ModelSession, name: string): void {
    this.tube(name).watchers.add(session);
  }

  ignore(session: ModelSession, name: string): void {
    const tube = this.tubes.get(name);
    if (tube?.watchers.delete(session)) this.#dropIfUnused(tube);
  }

  pause(name: string, shard: number, seconds: number, nowMs: number): boolean {
    this.runDue(shard, nowMs);
    const tube = this.tubes.get(name);
    if (tube === undefined) return false;
    tube.pauses++;
    tube.pauseSeconds = seconds;
    tube.pausedUntilMs = seconds > 0 ? nowMs + seconds * 1000 : undefined;
    if (seconds === 0) {
      tube.unpausedSince = this.event;
      this.#serve(tube, nowMs);
    }
    return true;
  }

  close(session: ModelSession, shard: number, nowMs: number): void {
    this.runDue(shard, nowMs);
    this.#endWait(session, shard);
    const held = this.held(session, shard).sort((a, b) => a.reservedAt - b.reservedAt);
    for (const job of held) {
      this.#fail(job, "disconnected", nowMs);
      this.#endReservation(job, 0, true, nowMs);
      this.#serve(job.tube, nowMs);
    }
    this.unuse(session, shard);
    for (const tube of [...this.tubes.values()]) {
      if (tube.shard === shard && tube.watchers.delete(session)) this.#dropIfUnused(tube);
    }
    session.halfClosedOn.delete(shard);
  }

  /**
   * What of a connection is left that others can see, in words; nothing once its end is visible.
   */
  traces(session: ModelSession): string[] {
    const tubes = [...this.tubes.values()];
    return [
      ...this.held(session).map((job) => `job ${job.id} is reserved`),
      ...this.waits
        .filter((wait) => wait.session === session)
        .map((wait) => `it waits on shard ${wait.shard}`),
      ...tubes.filter((tube) => tube.users.has(session)).map((tube) => `it uses ${tube.name}`),
      ...tubes.filter((tube) => tube.watchers.has(session)).map((tube) => `it watches ${tube.name}`),
    ];
  }

  halfClose(session: ModelSession, shard: number, nowMs: number): void {
    this.runDue(shard, nowMs);
    session.halfClosedOn.add(shard);
    const wait = this.waitOf(session, shard);
    if (wait === undefined || wait.number !== undefined) return;
    this.#endWait(session, shard);
    this.#effect({ kind: "timedOut", session: session.index });
  }

  // --- time --------------------------------------------------------------------------------------

  /** Jobs that the session holds on a shard, soonest deadline first. */
  held(session: ModelSession, shard?: number): ModelJob[] {
    return [...this.jobs.values()]
      .filter((job) => job.holder === session && (shard === undefined || job.tube.shard === shard))
      .sort((a, b) => a.deadlineAtMs - b.deadlineAtMs || a.id - b.id);
  }

  runDue(shard: number, nowMs: number): void {
    this.#forgetKeys(shard, nowMs);
    this.#inSomeOrder(() => this.#dueToExpire(shard, nowMs));
    this.#inSomeOrder(() => this.#dueDelayed(shard, nowMs));
    this.#endPauses(shard, nowMs);
    this.#inSomeOrder(() => this.#dueTokens(shard, nowMs));
    this.#inSomeOrder(() => this.#dueSessions(shard, nowMs));
  }

  /**
   * Does what is due until nothing is; `due` are those that may come next, as they are due at the
   * same moment.
   */
  #inSomeOrder(due: () => readonly (() => void)[]): void {
    if (this.#tryOrders(due)) return;
    // No order fits, and any tells so.
    for (let [first] = due(); first !== undefined; [first] = due()) first();
  }

  /** True if some order comes to what was seen; then all is done. */
  #tryOrders(due: () => readonly (() => void)[]): boolean {
    const next = due();
    if (next.length === 0) return this.#fitsSeen();
    return next.some((each) => {
      const undo = this.#saved();
      each();
      if (this.#fitsSeen() && this.#tryOrders(due)) return true;
      undo();
      return false;
    });
  }

  #dueDelayed(shard: number, nowMs: number): (() => void)[] {
    const due = soonest(this.jobs.values(), nowMs, ({ state, tube, deadlineAtMs }) =>
      state === "delayed" && tube.shard === shard ? deadlineAtMs : NEVER,
    );
    // Within a tube the smaller id comes first; between tubes no order is promised.
    const firsts = due.filter((job) => !due.some((other) => other.tube === job.tube && other.id < job.id));
    return firsts.map((job) => () => {
      this.#becomeReady(job);
      this.#serve(job.tube, nowMs);
    });
  }

  #endPauses(shard: number, nowMs: number): void {
    const resumed = new Set<ModelTube>();
    for (const tube of this.tubes.values()) {
      if (tube.shard !== shard || tube.pausedUntilMs === undefined || tube.pausedUntilMs > nowMs) continue;
      tube.pausedUntilMs = undefined;
      tube.pauseSeconds = 0;
      tube.unpausedSince = this.event;
      resumed.add(tube);
    }
    while (resumed.size > 0) {
      const best = this.bestReady(resumed, nowMs);
      if (best === undefined) return;
      if (!this.#serveOne(best.tube, nowMs)) resumed.delete(best.tube);
    }
  }

  /** When the session has to be looked at on a shard. */
  dueAtMs(session: ModelSession, shard: number): number {
    const soonestMs = this.held(session, shard)[0]?.deadlineAtMs ?? NEVER;
    const wait = this.waitOf(session, shard);
    if (wait === undefined || wait.told) return soonestMs + AFTER_DEADLINE_MS;
    return Math.min(wait.timeoutAtMs, soonestMs - DEADLINE_MARGIN_MS, soonestMs + AFTER_DEADLINE_MS);
  }

  /** Tubes that have a token again, and both a job and a client that waits for it. */
  #dueTokens(shard: number, nowMs: number): (() => void)[] {
    const due = soonest(this.tubes.values(), nowMs, (tube) =>
      tube.shard === shard && this.#firstWait(tube) !== undefined && this.nextOf(tube, nowMs) !== undefined
        ? (tube.bucket?.tokenAtMs ?? NEVER)
        : NEVER,
    );
    return due.map((tube) => () => this.#serve(tube, nowMs));
  }

  #dueSessions(shard: number, nowMs: number): (() => void)[] {
    const due = soonest(this.sessions.values(), nowMs, (session) => this.dueAtMs(session, shard));
    return due.map((session) => () => this.#sessionDue(session, shard, nowMs));
  }

  inMargin(session: ModelSession, nowMs: number, shard?: number): boolean {
    const first = this.held(session, shard)[0];
    return first !== undefined && nowMs >= first.deadlineAtMs - DEADLINE_MARGIN_MS;
  }

  #sessionDue(session: ModelSession, shard: number, nowMs: number): void {
    const inMargin = this.inMargin(session, nowMs, shard);
    for (;;) {
      const job = this.held(session, shard)[0];
      if (job === undefined || job.deadlineAtMs + AFTER_DEADLINE_MS > nowMs) break;
      job.timeouts++;
      this.jobTimeouts++;
      session.expiredAt = this.event;
      this.#fail(job, "timed-out", nowMs);
      this.#endReservation(job, 0, true, nowMs);
      this.#serve(job.tube, nowMs);
    }
    const wait = this.waitOf(session, shard);
    if (wait === undefined) return;
    if (inMargin || wait.timeoutAtMs <= nowMs) {
      if (wait.number === undefined) {
        this.#endWait(session, shard);
        this.#effect({ kind: inMargin ? "deadlineSoon" : "timedOut", session: session.index });
      } else {
        wait.timeoutAtMs = NEVER;
        wait.told = true;
        this.#effect({ kind: "waitDue", session: session.index });
      }
    } else {
      wait.told = false;
    }
  }

  // --- waits -------------------------------------------------------------------------------------

  waitOf(session: ModelSession, shard: number): Wait | undefined {
    return this.waits.find((wait) => wait.session === session && wait.shard === shard);
  }

  #startWait(session: ModelSession, shard: number, number: number | undefined, timeoutAtMs: number): void {
    assert.equal(this.waitOf(session, shard), undefined, "a session waits once on a shard");
    this.waits.push({ session, shard, number, timeoutAtMs, told: false });
  }

  #endWait(session: ModelSession, shard: number): void {
    this.waits = this.waits.filter((wait) => wait.session !== session || wait.shard !== shard);
  }

  #firstWait(tube: ModelTube): Wait | undefined {
    return this.waits.find((wait) => wait.shard === tube.shard && tube.watchers.has(wait.session));
  }

  #serve(tube: ModelTube, nowMs: number): void {
    while (this.#serveOne(tube, nowMs)) {
      // as long as there is a job and a waiter
    }
  }

  #serveOne(tube: ModelTube, nowMs: number): boolean {
    const job = this.bestReady([tube], nowMs);
    if (job === undefined || isOver(job, nowMs)) return false;
    for (;;) {
      const wait = this.#firstWait(tube);
      if (wait === undefined) return false;
      this.#endWait(wait.session, wait.shard);
      if (wait.number !== undefined && !this.#claim(wait.session, wait.number)) continue;
      this.#hold(job, wait.session, nowMs);
      this.#effect({ kind: "reserved", session: wait.session.index, job: job.id });
      return true;
    }
  }

  /** A shard wants to end the wait: it may if the wait is open. */
  #claim(session: ModelSession, number: number): boolean {
    const won = session.openWait === number;
    if (won) session.openWait = 0;
    this.#effect({ kind: "claim", session: session.index, won });
    return won;
  }

  openWait(session: ModelSession, number: number): void {
    session.openWait = number;
    session.lastWait = number;
  }

  /** The acceptor wants to end the wait. */
  acceptorClaims(session: ModelSession, number: number): boolean {
    const won = session.openWait === number;
    if (won) session.openWait = 0;
    return won;
  }

  // --- jobs --------------------------------------------------------------------------------------

  bestReady(tubes: Iterable<ModelTube>, nowMs: number): ModelJob | undefined {
    const open = new Set([...tubes].filter((tube) => this.#isOpen(tube, nowMs)));
    // One look at all jobs for all tubes that are nothing but lists.
    const plain = [...this.jobs.values()].filter(
      ({ state, tube }) => state === "ready" && tube.groups === undefined && open.has(tube),
    );
    const grouped = [...open].flatMap(({ groups }) => groups?.next(false) ?? []);
    return bestOf([...plain, ...grouped]);
  }

  /** With those that are on their way, until it is known here that they have arrived. */
  jobsOf(tube: ModelTube): ModelJob[] {
    return [...this.jobs.values(), ...this.copies].filter((job) => job.tube === tube);
  }

  /** How many more jobs of a tube may be given now. */
  #roomOf(tube: ModelTube, nowMs: number): number {
    const tokens = Math.max(0, Math.floor(tube.bucket?.tokens(nowMs) ?? NEVER));
    if (tube.resolved.values.maxReserved === NEVER) return tokens;
    const held = this.jobsOf(tube).filter(isInWork).length;
    return Math.min(tokens, Math.max(0, tube.resolved.values.maxReserved - held));
  }

  /** The job of a tube that is given next, if one may be. */
  nextOf(tube: ModelTube, nowMs: number): ModelJob | undefined {
    return this.bestReady([tube], nowMs);
  }

  #isOpen(tube: ModelTube, nowMs: number): boolean {
    return tube.pausedUntilMs === undefined && this.#roomOf(tube, nowMs) > 0;
  }

  #watchedOn(session: ModelSession, shard: number): ModelTube[] {
    return [...this.tubes.values()].filter((tube) => tube.shard === shard && tube.watchers.has(session));
  }

  put(
    job: Pick<ModelJob, "id" | "pri" | "delaySeconds" | "ttrSeconds" | "body" | "policy">,
    tube: ModelTube,
    nowMs: number,
    delayMillis: number,
  ): PutVerdict {
    this.runDue(tube.shard, nowMs);
    assert.ok(!this.jobs.has(job.id), `job id ${job.id} is given once`);
    const verdict = this.#judge(job.policy, job.body.length, tube);
    if (verdict.kind !== "stored") {
      this.#dropIfUnused(tube);
      return verdict;
    }
    const { policy } = job;
    const { ttlMs } = tube.resolved.values;
    if (policy.expiresAtMs === 0 && ttlMs > 0) policy.expiresAtMs = nowMs + ttlMs;
    policy.keyUntilWallMs = policy.keyUntilMs + this.wallOffsetMs;
    if (policy.key !== "")
      this.keys.push({
        tube: tube.name,
        key: policy.key,
        id: job.id,
        isHeld: true,
        untilMs: policy.keyUntilMs,
      });
    const stored: ModelJob = {
      ...job,
      tube,
      ...AT_HOME,
      state: "ready",
      deadlineAtMs: 0,
      holder: undefined,
      reserves: 0,
      timeouts: 0,
      releases: 0,
      buries: 0,
      kicks: 0,
      buriedAt: 0,
      buriedSince: 0,
      reservedAt: 0,
      readySince: this.event,
      touchedAt: 0,
    };
    this.jobs.set(job.id, stored);
    tube.totalJobs++;
    this.totalJobs++;
    this.#joinGroup(stored);
    const delayMs = job.delaySeconds * 1000 + delayMillis;
    if (delayMs > 0) this.#becomeDelayed(stored, nowMs, delayMs);
    else tube.groups?.becameReady(stored);
    this.#keep(stored);
    if (delayMs === 0) this.#serve(tube, nowMs);
    return verdict;
  }

  // --- policies ----------------------------------------------------------------------------------

  #judge({ key }: JobPolicy, bodyBytes: number, tube: ModelTube): PutVerdict {
    const known =
      key === "" ? undefined : this.keys.find((each) => each.tube === tube.name && each.key === key);
    if (known !== undefined) {
      tube.counts.duplicates++;
      return { kind: "duplicate", of: known.id };
    }
    if (!this.#isFull(tube, bodyBytes)) return { kind: "stored" };
    tube.counts.rejected++;
    return { kind: "full" };
  }

  #isFull(tube: ModelTube, bodyBytes: number): boolean {
    const { maxJobs, maxBytes } = tube.resolved.values;
    const jobs = this.jobsOf(tube);
    const bytes = jobs.reduce((sum, { body }) => sum + body.length, 0);
    return jobs.length >= maxJobs || bytes + bodyBytes > maxBytes;
  }

  /** Only a put says what a group weighs. */
  #joinGroup(job: ModelJob, isPut = true): void {
    const { tube } = job;
    if (job.policy.group !== "" && tube.groups === undefined) {
      tube.groups = new ModelGroups(
        () => this.jobsOf(tube),
        () => tube.resolved.values.groupMaxReserved,
      );
      tube.wasLimited = true;
    }
    tube.groups?.joined(job, isPut);
  }

  /** What is set for a pattern from now on, on one shard: tubes to come have it. */
  set(shard: number, pattern: string, values: Readonly<Partial<SettingValues>>): void {
    this.settings[shard]!.set(pattern, values);
  }

  /** A tube is told what is set for it. */
  applySettings(name: string, nowMs: number): void {
    const tube = this.tubes.get(name);
    assert.ok(tube !== undefined, `tube ${name} is there`);
    tube.resolved = this.settings[tube.shard]!.resolve(name);
    const { values } = tube.resolved;
    if (values.rate === "") tube.bucket = undefined;
    else if (tube.bucket === undefined) tube.bucket = new ModelBucket(values);
    else tube.bucket.set(values, nowMs);
    tube.wasLimited ||= isLimited(tube.resolved);
    this.#serve(tube, nowMs);
  }

  /** Forgets remembered keys whose time is over. */
  #forgetKeys(shard: number, nowMs: number): void {
    const isOver = ({ tube, untilMs, isHeld }: ModelKey): boolean =>
      !isHeld && untilMs <= nowMs && this.tubeShard(tube) === shard;
    const gone = this.keys.filter((key) => isOver(key) && this.#on(shard, key.id) === undefined);
    for (const { id } of gone) this.changes.push({ id, job: undefined });
    this.keys = this.keys.filter((key) => !isOver(key));
  }

  /**
   * Jobs whose time is over, the first first. Their tube may have a token since, and gives what is
   * behind them.
   */
  #dueToExpire(shard: number, nowMs: number): (() => void)[] {
    const due = soonest(this.jobs.values(), nowMs, ({ tube, state, policy: { expiresAtMs } }) =>
      tube.shard === shard && (state === "ready" || state === "delayed") && expiresAtMs > 0
        ? expiresAtMs
        : NEVER,
    );
    return due.map((job) => () => {
      const { tube } = job;
      this.#expire(job, nowMs);
      this.#serve(tube, nowMs);
    });
  }

  /** The shard of a tube, whether it is there or not. */
  tubeShard(name: string): number {
    const bytes = Buffer.from(name, "latin1");
    return shardOfTube(bytes, 0, bytes.length, this.#shards);
  }

  #expire(job: ModelJob, nowMs: number): void {
    const { tube } = job;
    tube.counts.expired++;
    if (tube.resolved.values.expireBuries) {
      this.#fail(job, "expired", nowMs);
      this.#markDead(job, "expired");
      this.#bury(job);
      this.#keep(job);
    } else {
      this.#endKey(job, nowMs);
      this.#keepEnd(job);
      this.#forget(job);
    }
  }

  /** An attempt of the job failed in the hands of its holder; if it has expired, in nobody's. */
  #fail({ policy, holder, reserves }: ModelJob, cause: string, nowMs: number, reason = ""): void {
    const isExpired = cause === "expired";
    const attempt = isExpired ? 0 : reserves - policy.attemptsBase;
    const worker = isExpired ? "" : this.workerName(holder!.index);
    const failure = { atMs: nowMs, attempt, cause, worker, reason };
    policy.failures = [failure, ...policy.failures].slice(0, FAILURES_MAX);
  }

  /** It has no attempts left: it goes where dead ones go, unless it has died before. */
  #die(job: ModelJob, nowMs: number): void {
    const { tube, policy } = job;
    const target = policy.origin === "" ? tube.resolved.values.deadLetter : "";
    this.#markDead(job, "attempts");
    if (target !== "" && this.tubeShard(target) === tube.shard) {
      this.#enterDeadLetter(job, target);
      this.#serve(job.tube, nowMs);
      this.#serve(tube, nowMs);
      this.#dropIfUnused(tube);
      return;
    }
    policy.leaves = target !== "";
    this.#bury(job);
    this.#keep(job);
  }

  /** It is without its key and its time to live from now on, and knows where it died. */
  #markDead(job: ModelJob, reason: JobPolicy["reason"]): void {
    const { tube, policy } = job;
    this.#dropKey(job);
    policy.expiresAtMs = 0;
    policy.reason = reason;
    if (policy.origin === "") policy.origin = tube.name;
    tube.counts.dead++;
  }

  #bury(job: ModelJob): void {
    job.state = "buried";
    job.holder = undefined;
    this.#buryLast(job);
  }

  /** A dead job goes to a dead-letter tube of the same shard, where it is ready. */
  #enterDeadLetter(job: ModelJob, target: string): void {
    const before = job.tube;
    before.movedOut++;
    this.#enter(job, this.tube(target), "ready", true, () => before.groups?.left());
    this.#keep(job);
  }

  /** A dead job that has to leave is asked for: the tube of another shard where it goes, or "". */
  leavesFor(shard: number, id: number, nowMs: number): string {
    this.runDue(shard, nowMs);
    const job = this.#on(shard, id);
    // A job that was sent elsewhere and refused leaves then.
    if (job === undefined || !job.policy.leaves) return "";
    if (job.state === "moving" && job.stateBefore === "buried") return "";
    job.policy.leaves = false;
    const { tube } = job;
    if (job.state !== "buried") return "";
    const target = tube.resolved.values.deadLetter;
    if (target === "" || target === tube.name) {
      this.#buryLast(job);
      this.#keep(job);
      return "";
    }
    if (this.tubeShard(target) !== shard) return target;
    this.#enterDeadLetter(job, target);
    this.#offer(job.tube, nowMs);
    this.#dropIfUnused(tube);
    return "";
  }

  #buryLast(job: ModelJob): void {
    job.buriedAt = ++this.#burials;
    job.buriedSince = this.event;
  }

  /**
   * Jobs that were buried in one event of several that were due at the same moment: no order is
   * promised, and this is what it was.
   */
  orderBurials(tube: ModelTube, ids: readonly number[]): void {
    const jobs = this.buried(tube).filter(({ buriedSince }) => buriedSince === this.event);
    const places = jobs.map(({ buriedAt }) => buriedAt);
    jobs.sort((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id));
    for (const [index, job] of jobs.entries()) job.buriedAt = places[index]!;
  }

  #forget(job: ModelJob): void {
    this.jobs.delete(job.id);
    job.tube.groups?.left();
    this.#dropIfUnused(job.tube);
  }

  #dropKey({ id, tube }: ModelJob): void {
    this.keys = this.keys.filter((key) => key.id !== id || key.tube !== tube.name);
  }

  /** The job of a key is gone: it is remembered for a while, if it is to be. */
  #endKey({ id, tube }: ModelJob, nowMs: number): void {
    const isMeant = (key: ModelKey): boolean => key.id === id && key.tube === tube.name;
    for (const key of this.keys) if (isMeant(key)) key.isHeld = false;
    this.keys = this.keys.filter((key) => !isMeant(key) || key.untilMs > nowMs);
  }

  /**
   * A job is about to go: so does its record, unless its key is remembered, which then takes the
   * record's place.
   */
  #keepEnd(job: ModelJob): void {
    const key = this.keyOf(job);
    this.changes.push({ id: job.id, job: key === undefined ? undefined : this.#keptKey(key) });
  }

  /**
   * A reservation ended by a release, its time or its holder's end; `isLogged`, even if the job has
   * no policy.
   */
  #endReservation(job: ModelJob, delayMs: number, isLogged: boolean, nowMs: number): void {
    const { tube, policy } = job;
    const { values } = tube.resolved;
    job.holder = undefined;
    const attempts = job.reserves - policy.attemptsBase;
    if (policy.expiresAtMs > 0 && policy.expiresAtMs <= nowMs) {
      this.#expire(job, nowMs);
      return;
    }
    if (values.maxAttempts > 0 && attempts >= values.maxAttempts) {
      this.#die(job, nowMs);
      return;
    }
    let waitMs = delayMs;
    if (waitMs === 0 && values.backoffMs > 0) {
      waitMs = backoffMs({ ...values, sources: new Map() }, job.id, attempts);
      job.delaySeconds = Math.floor(waitMs / 1000);
    }
    if (waitMs > 0) this.#becomeDelayed(job, nowMs, waitMs);
    else this.#becomeReady(job);
    if (isLogged || this.#hasPolicy(job)) this.#keep(job);
  }

  /** A job that was kicked has all its attempts again, and lives again if it died here. */
  #rescue(job: ModelJob, tube: ModelTube): void {
    const { policy, reserves } = job;
    const { maxAttempts, backoffMs: waitMs } = tube.resolved.values;
    if ((maxAttempts > 0 || waitMs > 0) && reserves > 0) policy.attemptsBase = reserves;
    if (policy.reason === "none" || policy.origin !== tube.name) return;
    policy.reason = "none";
    policy.origin = "";
    policy.leaves = false;
    this.#takeKey(job);
  }

  /** A job has the key that it was put with, if no other job has it. */
  #takeKey({ id, tube, policy, reserves }: ModelJob): void {
    const { key, untilReserve } = policy;
    const isTaken = this.keys.some((each) => each.tube === tube.name && each.key === key);
    if (key === "" || isTaken || (untilReserve && reserves > 0)) return;
    this.keys.push({ tube: tube.name, key, id, isHeld: true, untilMs: 0 });
  }

  /** What a reserve on this shard alone gives: a job, an answer, or a wait. */
  reserve(
    session: ModelSession,
    shard: number,
    timeoutMs: number,
    nowMs: number,
  ): ModelJob | "timedOut" | "deadlineSoon" | "waits" {
    this.runDue(shard, nowMs);
    const job = this.bestReady(this.#watchedOn(session, shard), nowMs);
    if (job !== undefined) return this.#hold(job, session, nowMs);
    if (this.inMargin(session, nowMs, shard)) return "deadlineSoon";
    if (timeoutMs <= 0 || session.halfClosedOn.has(shard)) return "timedOut";
    this.#startWait(session, shard, undefined, nowMs + timeoutMs);
    return "waits";
  }

  /** What a batch of this shard alone gives: as many reserves as go together. */
  reserveBatch(
    session: ModelSession,
    shard: number,
    limits: BatchLimits,
    timeoutMs: number,
    nowMs: number,
  ): ModelJob[] | "timedOut" | "deadlineSoon" | "waits" {
    this.runDue(shard, nowMs);
    const jobs: ModelJob[] = [];
    let bytes = 0;
    for (;;) {
      const job = this.bestReady(this.#watchedOn(session, shard), nowMs);
      if (job === undefined || jobs.length === limits.jobsMax) break;
      bytes += job.body.length;
      const isLost = wasLost(job);
      if (jobs.length > 0 && (bytes > limits.bytesMax || isLost)) break;
      jobs.push(this.#hold(job, session, nowMs));
      if (isLost) break;
    }
    if (jobs.length > 0) return jobs;
    const answer = this.reserve(session, shard, timeoutMs, nowMs);
    assert.ok(typeof answer === "string");
    return answer;
  }

  /** What a shard has for a batch over several: up to the first that would end it. */
  listBatch(session: ModelSession, shard: number, limits: BatchLimits, nowMs: number): ModelJob[] {
    this.runDue(shard, nowMs);
    const watched = new Set(this.#watchedOn(session, shard));
    const ready = [...watched]
      .flatMap((tube) => this.#line(tube, nowMs))
      .sort((a, b) => (isBetter(a, b) ? -1 : 1))
      .slice(0, limits.jobsMax);
    let bytes = 0;
    const last = ready.findIndex((job) => {
      bytes += job.body.length;
      // The jobs behind a job of a group depend on its taker.
      return wasLost(job) || bytes > limits.bytesMax || job.tube.groups !== undefined;
    });
    return last < 0 ? ready : ready.slice(0, last + 1);
  }

  /** Jobs of a tube that may be given one after the other, as far as that is known before. */
  #line(tube: ModelTube, nowMs: number): ModelJob[] {
    const next = this.nextOf(tube, nowMs);
    if (next === undefined) return [];
    if (tube.groups !== undefined) return [next];
    const ready = this.jobsOf(tube).filter(({ state }) => state === "ready");
    return ready.sort((a, b) => (isBetter(a, b) ? -1 : 1)).slice(0, this.#roomOf(tube, nowMs));
  }

  /** Its part of a batch over several shards, undefined for what it may not give. */
  takeBatch(
    session: ModelSession,
    shard: number,
    listed: readonly { id: number; pri: number }[],
    isAlone: boolean,
    nowMs: number,
  ): (ModelJob | undefined)[] {
    this.runDue(shard, nowMs);
    const watched = this.#watchedOn(session, shard);
    return listed.map(({ id, pri }) => {
      const job = this.#on(shard, id);
      if (job?.state !== "ready" || job.pri !== pri || !watched.includes(job.tube)) return undefined;
      const next = this.nextOf(job.tube, nowMs);
      if (next === undefined || (job.tube.groups !== undefined && next !== job)) return undefined;
      return isAlone || !wasLost(job) ? this.#hold(job, session, nowMs) : undefined;
    });
  }

  /** The client ends its wait; false if it does not wait. */
  abortWait(session: ModelSession, shard: number, nowMs: number): boolean {
    this.runDue(shard, nowMs);
    const wait = this.waitOf(session, shard);
    if (wait === undefined || wait.number !== undefined) return false;
    this.#endWait(session, shard);
    return true;
  }

  /**
   * Touches some of the jobs that the session holds, those first that it has held longest; true if
   * no more is left.
   */
  touchSome(session: ModelSession, shard: number, begins: boolean, jobsMax: number, nowMs: number): boolean {
    // Before what is due: a touch begins with the jobs that are there when it comes.
    if (begins) session.touchedUpTo.set(shard, -1);
    this.runDue(shard, nowMs);
    const left = (): ModelJob[] =>
      this.held(session, shard)
        .filter((job) => job.reservedAt > (session.touchedUpTo.get(shard) ?? -1))
        .sort((a, b) => a.reservedAt - b.reservedAt);
    for (const job of left().slice(0, jobsMax)) {
      job.deadlineAtMs = nowMs + job.ttrSeconds * 1000;
      job.touchedAt = this.event;
      session.touchedUpTo.set(shard, job.reservedAt);
    }
    return left().length === 0;
  }

  takeUpTo(
    session: ModelSession,
    shard: number,
    pri: number,
    id: number,
    nowMs: number,
  ): ModelJob | undefined {
    this.runDue(shard, nowMs);
    const job = this.bestReady(this.#watchedOn(session, shard), nowMs);
    if (job === undefined || job.pri > pri || (job.pri === pri && job.id > id)) return undefined;
    return this.#hold(job, session, nowMs);
  }

  waitShared(session: ModelSession, shard: number, timeoutAtMs: number, nowMs: number): void {
    this.runDue(shard, nowMs);
    const job = this.bestReady(this.#watchedOn(session, shard), nowMs);
    if (job === undefined) {
      this.#startWait(session, shard, session.lastWait, timeoutAtMs);
    } else if (this.#claim(session, session.lastWait)) {
      this.#hold(job, session, nowMs);
      this.#effect({ kind: "reserved", session: session.index, job: job.id });
    }
  }

  stopSharedWait(session: ModelSession, shard: number): void {
    if (this.waitOf(session, shard)?.number !== undefined) this.#endWait(session, shard);
  }

  reserveJob(session: ModelSession, shard: number, id: number, nowMs: number): ByIdResult {
    this.runDue(shard, nowMs);
    const job = this.#on(shard, id);
    if (job === undefined || job.state === "reserved" || job.state === "moving") return "not found";
    const wasReady = job.state === "ready";
    this.#hold(job, session, nowMs);
    // It comes back ready, as a job that was reserved does, and not as what it was before.
    if (!wasReady) this.#keep(job);
    return "done";
  }

  delete(session: ModelSession, shard: number, id: number, nowMs: number): ByIdResult {
    this.runDue(shard, nowMs);
    const job = this.#on(shard, id);
    if (job === undefined || !isFree(job, session)) return "not found";
    this.#endKey(job, nowMs);
    this.#deleteOne(job, nowMs);
    return "done";
  }

  #deleteOne(job: ModelJob, nowMs: number): void {
    this.#keepEnd(job);
    this.jobs.delete(job.id);
    job.tube.deletes++;
    job.tube.groups?.left();
    this.#serve(job.tube, nowMs);
    this.#dropIfUnused(job.tube);
  }

  release(
    session: ModelSession,
    shard: number,
    id: number,
    { pri, delaySeconds, reason }: { pri: number; delaySeconds: number; reason: string },
    nowMs: number,
  ): ByIdResult {
    this.runDue(shard, nowMs);
    const job = this.#heldBy(session, shard, id);
    if (job === undefined) return "not found";
    if (reason !== "") this.#fail(job, "released", nowMs, reason);
    job.pri = pri;
    job.delaySeconds = delaySeconds;
    job.releases++;
    this.#endReservation(job, delaySeconds * 1000, true, nowMs);
    this.#serve(job.tube, nowMs);
    return "done";
  }

  bury(
    session: ModelSession,
    shard: number,
    id: number,
    pri: number,
    nowMs: number,
    reason: string,
  ): ByIdResult {
    this.runDue(shard, nowMs);
    const job = this.#heldBy(session, shard, id);
    if (job === undefined) return "not found";
    this.#fail(job, "buried", nowMs, reason);
    job.pri = pri;
    job.buries++;
    job.state = "buried";
    job.holder = undefined;
    this.#buryLast(job);
    this.#keep(job);
    this.#serve(job.tube, nowMs);
    return "done";
  }

  touch(session: ModelSession, shard: number, id: number, nowMs: number): ByIdResult {
    this.runDue(shard, nowMs);
    const job = this.#heldBy(session, shard, id);
    if (job === undefined) return "not found";
    job.deadlineAtMs = nowMs + job.ttrSeconds * 1000;
    job.touchedAt = this.event;
    return "done";
  }

  /**
   * "full": its tube is, and nothing has changed; an errand: it has to go to a tube of another
   * shard for that.
   */
  update(
    session: ModelSession,
    shard: number,
    id: number,
    change: JobChange,
    nowMs: number,
  ): ByIdResult | "full" | Errand {
    this.runDue(shard, nowMs);
    const job = this.#on(shard, id);
    if (job === undefined || !isFree(job, session)) return "not found";
    const { tube: target = job.tube.name } = change;
    const moves = target !== job.tube.name;
    if (moves && this.tubeShard(target) !== shard) return this.#errandOf(job, change, nowMs);
    if (moves && this.#refuses(this.tube(target), job)) return "full";
    const before = job.tube;
    const wasHeld = job.state === "reserved";
    this.#setFacts(job, change, nowMs);
    if (moves) this.#changeTube(job, target);
    const { delayMs = change.tube !== undefined && wasHeld ? 0 : undefined } = change;
    if (moves && !wasHeld) this.#keep(job);
    else if (delayMs === undefined) this.#updateInPlace(job, change, nowMs);
    if (delayMs !== undefined) {
      this.#updateDelay(job, delayMs, nowMs, before);
      this.#keep(job);
    }
    this.runDue(shard, nowMs);
    if (delayMs !== undefined || moves) this.#serve(job.tube, nowMs);
    if (wasHeld && moves) this.#serve(before, nowMs);
    this.#dropIfUnused(before);
    return "done";
  }

  #setFacts(job: ModelJob, { pri = job.pri, ttrSeconds, ttlMs }: JobChange, nowMs: number): void {
    if (ttlMs !== undefined) job.policy.expiresAtMs = ttlMs === 0 ? 0 : nowMs + ttlMs;
    // An earlier search for the best job has not seen this.
    if (pri !== job.pri) job.readySince = this.event;
    job.pri = pri;
    job.ttrSeconds = ttrSeconds ?? job.ttrSeconds;
  }

  /** It stays in its state and tube; a buried one is buried anew. */
  #updateInPlace(job: ModelJob, { ttrSeconds }: JobChange, nowMs: number): void {
    if (job.state === "reserved" && ttrSeconds !== undefined) job.deadlineAtMs = nowMs + ttrSeconds * 1000;
    if (job.state === "buried") this.#buryLast(job);
    this.#keep(job);
  }

  /** Whether a tube has no room for a job that is to come. */
  #refuses(tube: ModelTube, { body }: ModelJob): boolean {
    const isFull = this.#isFull(tube, body.length);
    if (isFull) this.#dropIfUnused(tube);
    return isFull;
  }

  /** It moves unchanged to another tube of this shard; an unreserved dead one lives again there. */
  #changeTube(job: ModelJob, target: string): void {
    const { tube } = job;
    this.#dropKey(job);
    tube.movedOut++;
    this.#enter(job, this.tube(target), job.state, job.state === "reserved", () => tube.groups?.left());
  }

  #errandOf(job: ModelJob, { pri, ttrSeconds, delayMs, ttlMs }: JobChange, nowMs: number): Errand {
    const { policy } = job;
    const isHeld = job.state === "reserved";
    const livesMs = ttlMs === 0 ? 0 : nowMs + (ttlMs ?? 0);
    const isExcused = isHeld && job.tube.resolved.values.maxAttempts > 0;
    return {
      travel: isHeld ? "handed" : "update",
      asReady: false,
      delayMs: delayMs ?? (isHeld ? 0 : undefined),
      facts: {
        pri: pri ?? job.pri,
        ttrSeconds: ttrSeconds ?? job.ttrSeconds,
        releases: job.releases + Number(isHeld),
      },
      expiresAtMs: ttlMs === undefined ? policy.expiresAtMs : livesMs,
      attemptsBase: policy.attemptsBase + Number(isExcused),
    };
  }

  /** `heldIn` is the tube in which it was held, if it was. */
  #updateDelay(job: ModelJob, delayMs: number, nowMs: number, heldIn = job.tube): void {
    job.delaySeconds = Math.floor(delayMs / 1000);
    if (job.state === "reserved") {
      job.releases++;
      // That was no attempt.
      if (heldIn.resolved.values.maxAttempts > 0) job.policy.attemptsBase++;
    } else if (job.state === "buried") this.#rescue(job, job.tube);
    if (delayMs > 0) this.#becomeDelayed(job, nowMs, delayMs);
    else if (job.state !== "ready") this.#becomeReady(job);
  }

  kick(tube: ModelTube, bound: number, nowMs: number): number {
    this.runDue(tube.shard, nowMs);
    const buried = this.firstBuried(tube) !== undefined;
    let kicked = 0;
    while (kicked < bound) {
      const job = buried ? this.firstBuried(tube) : this.firstDelayed(tube);
      if (job === undefined) break;
      this.#kickOne(job, nowMs);
      kicked++;
    }
    return kicked;
  }

  kickJob(shard: number, id: number, nowMs: number): ByIdResult {
    this.runDue(shard, nowMs);
    const job = this.#on(shard, id);
    if (job === undefined || (job.state !== "buried" && job.state !== "delayed")) return "not found";
    this.#kickOne(job, nowMs);
    return "done";
  }

  #kickOne(job: ModelJob, nowMs: number): void {
    job.kicks++;
    this.#rescue(job, job.tube);
    this.#becomeReady(job);
    this.#keep(job);
    this.runDue(job.tube.shard, nowMs);
    this.#serve(job.tube, nowMs);
  }

  /**
   * Deletes chosen jobs by id, reserved or not, whose ids are above the first given and at most the
   * second; returns how many. Each may free a limit for another one.
   */
  clear(choice: JobChoice, nowMs: number, [afterId, lastId]: readonly [number, number]): number {
    const jobs = [...this.jobs.values()]
      .filter(({ id }) => id > afterId && id <= lastId)
      .sort((a, b) => a.id - b.id);
    const isWhole = choice.contains === undefined && choice.group === undefined && choice.limit === undefined;
    // Whole queues go first.
    const queued = isWhole ? jobs.filter((job) => job.state !== "reserved") : [];
    let cleared = 0;
    for (const job of [...queued, ...jobs]) {
      if (!this.jobs.has(job.id) || !fits(job, choice) || cleared === (choice.limit ?? NEVER)) continue;
      // A reserve under way may have been told of its margin before.
      if (job.holder !== undefined) job.holder.expiredAt = this.event;
      this.#dropKey(job);
      this.#deleteOne(job, nowMs);
      cleared++;
    }
    return cleared;
  }

  // --- jobs that move ----------------------------------------------------------------------------

  /** A move-jobs has come to a job that is here, for a tube that is here. */
  move(job: ModelJob, target: string, asReady: boolean, nowMs: number): "moved" | "stays" | "full" {
    if (job.tube.name === target) {
      if (!asReady || job.state === "ready") return "stays";
      this.#kickOne(job, nowMs);
      return "moved";
    }
    const before = job.tube;
    const there = this.tube(target);
    if (this.#refuses(there, job)) return "full";
    this.#dropKey(job);
    before.movedOut++;
    this.#enter(job, there, job.state, false, () => before.groups?.left(), asReady);
    this.#keep(job);
    this.#offer(there, nowMs);
    this.#dropIfUnused(before);
    return "moved";
  }

  depart(job: ModelJob, transfer: number, errand: Errand): void {
    const { state } = job;
    assert.ok(state !== "moving", `job ${job.id} leaves once`);
    assert.equal(state === "reserved", errand.travel === "handed", `only its holder hands job ${job.id} on`);
    job.stateBefore = state;
    job.holderBefore = job.holder;
    job.holder = undefined;
    job.transfer = transfer;
    job.errand = errand;
    job.state = "moving";
  }

  /** The shard of the tube is told of a job; false if the tube has no room for it. */
  arrive(job: ModelJob, target: string, nowMs: number): boolean {
    this.runDue(this.tubeShard(target), nowMs);
    assert.equal(job.state, "moving", `job ${job.id} arrives once, and has left before`);
    const stale = this.copies.find(({ id, tube }) => id === job.id && tube.shard === this.tubeShard(target));
    if (stale !== undefined) this.#forgetCopy(stale, nowMs);
    const there = this.tube(target);
    const { travel, asReady, delayMs, facts, expiresAtMs, attemptsBase } = job.errand!;
    if (travel !== "death" && this.#refuses(there, job)) return false;
    this.copies.push({ ...job });
    Object.assign(job, facts);
    job.policy.leaves = false;
    job.policy.expiresAtMs = expiresAtMs ?? job.policy.expiresAtMs;
    job.policy.attemptsBase = attemptsBase ?? job.policy.attemptsBase;
    const staysDead = travel === "death" || travel === "handed";
    this.#enter(job, there, keptState(job.stateBefore), staysDead, () => {}, asReady || travel === "death");
    this.#keep(job);
    if (delayMs !== undefined) {
      this.#updateDelay(job, delayMs, nowMs);
      this.#keep(job);
    }
    this.#offer(there, nowMs);
    return true;
  }

  /** The shard that it has left is told. */
  departed(id: number, shard: number, transfer: number, nowMs: number): void {
    this.runDue(shard, nowMs);
    const copy = this.copies.find(
      (each) => each.id === id && each.tube.shard === shard && each.transfer === transfer,
    );
    if (copy !== undefined) this.#forgetCopy(copy, nowMs);
  }

  /** The shard that it was to leave is told that it was not taken. */
  stay(job: ModelJob, transfer: number, nowMs: number): void {
    const { tube } = job;
    this.runDue(tube.shard, nowMs);
    assert.deepEqual([job.state, job.transfer], ["moving", transfer], `job ${job.id} stays where it is`);
    if (job.stateBefore === "ready") this.#becomeReady(job);
    else job.state = job.stateBefore;
    if (job.state === "reserved") {
      job.holder = job.holderBefore;
      job.reservedAt = ++this.#reservations;
    }
    if (job.state === "buried") {
      this.#buryLast(job);
      this.#keep(job);
    }
    this.#offer(tube, nowMs);
  }

  #forgetCopy(copy: ModelJob, nowMs: number): void {
    const { tube } = copy;
    this.copies = this.copies.filter((each) => each !== copy);
    this.#dropKey(copy);
    tube.movedOut++;
    tube.groups?.left();
    this.#serve(tube, nowMs);
    this.#dropIfUnused(tube);
  }

  /** Jobs that have arrived elsewhere and are still in the table of a shard. */
  copiesOn(shard: number): ModelJob[] {
    return this.copies.filter(({ tube }) => tube.shard === shard);
  }

  /**
   * It lives in another tube from now on; a dead one lives again, unless it stays dead. `left` is
   * called once it is not in the one before.
   */
  #enter(
    job: ModelJob,
    there: ModelTube,
    state: State,
    staysDead: boolean,
    left: () => void,
    asReady = false,
  ): void {
    const { policy } = job;
    const livesAgain = policy.reason !== "none" && !staysDead;
    if (livesAgain) {
      policy.reason = "none";
      policy.origin = "";
      policy.leaves = false;
      policy.attemptsBase = job.reserves;
    }
    there.movedIn++;
    policy.hasMoved = true;
    job.tube = there;
    left();
    if (policy.reason === "none") this.#takeKey(job);
    this.#joinGroup(job, false);
    if (livesAgain || asReady || state === "ready") this.#becomeReady(job);
    else job.state = state;
    if (job.state === "buried") this.#buryLast(job);
  }

  /** A job of the tube has become ready, which may be over its time. */
  #offer(tube: ModelTube, nowMs: number): void {
    this.runDue(tube.shard, nowMs);
    this.#serve(tube, nowMs);
    this.#dropIfUnused(tube);
  }

  /** Buried jobs of the tube in the order of their burial. */
  buried(tube: ModelTube): ModelJob[] {
    return [...this.jobs.values()]
      .filter((job) => job.state === "buried" && job.tube === tube)
      .sort((a, b) => a.buriedAt - b.buriedAt);
  }

  firstBuried(tube: ModelTube): ModelJob | undefined {
    return this.buried(tube)[0];
  }

  firstDelayed(tube: ModelTube): ModelJob | undefined {
    return [...this.jobs.values()]
      .filter((job) => job.state === "delayed" && job.tube === tube)
      .sort((a, b) => a.deadlineAtMs - b.deadlineAtMs || a.id - b.id)[0];
  }

  /** The best ready job of the tube, paused or not. */
  firstReady(tube: ModelTube): ModelJob | undefined {
    if (tube.groups !== undefined) return tube.groups.next(true);
    return bestOf(this.jobsOf(tube).filter(({ state }) => state === "ready"));
  }

  #on(shard: number, id: number): ModelJob | undefined {
    const job = this.jobs.get(id);
    return job?.tube.shard === shard ? job : undefined;
  }

  #heldBy(session: ModelSession, shard: number, id: number): ModelJob | undefined {
    const job = this.#on(shard, id);
    return job?.holder === session ? job : undefined;
  }

  #hold(job: ModelJob, session: ModelSession, nowMs: number): ModelJob {
    job.state = "reserved";
    job.holder = session;
    job.reserves++;
    job.reservedAt = ++this.#reservations;
    job.deadlineAtMs = nowMs + job.ttrSeconds * 1000;
    job.touchedAt = this.event;
    job.tube.groups?.taken(job);
    job.tube.bucket?.take(nowMs);
    this.given.set(job.id, job);
    if (job.policy.untilReserve && this.keyOf(job)?.isHeld === true) {
      this.#endKey(job, nowMs);
      this.#keep(job);
    }
    return job;
  }

  #becomeReady(job: ModelJob): void {
    job.state = "ready";
    job.holder = undefined;
    job.readySince = this.event;
    job.tube.groups?.becameReady(job);
  }

  #becomeDelayed(job: ModelJob, nowMs: number, delayMs = job.delaySeconds * 1000): void {
    job.state = "delayed";
    job.holder = undefined;
    job.deadlineAtMs = nowMs + delayMs;
  }
}

/** What a job has that is on no way. */
const AT_HOME = { stateBefore: "ready", holderBefore: undefined, transfer: 0, errand: undefined } as const;

const keptState = (state: Exclude<State, "moving">): KeptJob["state"] =>
  state === "reserved" ? "ready" : state;

/** Whether a job that is in a queue has to expire. */
const isOver = ({ policy: { expiresAtMs } }: ModelJob, nowMs: number): boolean =>
  expiresAtMs > 0 && expiresAtMs <= nowMs;

/** Whether limits count a job as held: also while its holder hands it on to another shard. */
const isInWork = ({ state, stateBefore }: ModelJob): boolean =>
  state === "reserved" || (state === "moving" && stateBefore === "reserved");

/** Whether the session may change the job: it holds it, or the job is unreserved. */
const isFree = ({ state, holder }: ModelJob, session: ModelSession): boolean =>
  state !== "moving" && (state !== "reserved" || holder === session);

/** Whether settings may keep ready jobs of a tube back. */
const isLimited = ({ values }: Resolved): boolean =>
  values.maxReserved !== NEVER || values.groupMaxReserved !== NEVER || values.rate !== "";

/** Returns the due items of the earliest time. */
function soonest<Due>(all: Iterable<Due>, nowMs: number, atMs: (each: Due) => number): Due[] {
  const due = [...all].filter((each) => atMs(each) <= nowMs);
  const earliestMs = Math.min(...due.map(atMs));
  return due.filter((each) => atMs(each) === earliestMs);
}

export interface BatchLimits {
  readonly jobsMax: number;
  readonly bytesMax: number;
}

/** Whether a reservation of the job ended by its ttr or with its holder. */
export function wasLost(job: ModelJob): boolean {
  return job.reserves > job.releases + job.buries;
}

export function isBetter(a: Pick<ModelJob, "id" | "pri">, b: Pick<ModelJob, "id" | "pri">): boolean {
  return a.pri < b.pri || (a.pri === b.pri && a.id < b.id);
}

function bestOf(jobs: readonly ModelJob[]): ModelJob | undefined {
  let best: ModelJob | undefined;
  for (const job of jobs) if (best === undefined || isBetter(job, best)) best = job;
  return best;
}
