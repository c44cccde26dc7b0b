// Jobs, tubes, sessions and waits of the model, and what its calls return.

import type { BatchFacts } from "../../../src/schema/batch.ts";
import type { State } from "./job-state.ts";
import type { KeptKey, KeptPolicy } from "./kept-policy.ts";
import type { ModelBucket } from "./model-bucket.ts";
import type { ModelGroups } from "./model-groups.ts";
import type { JobPolicy, Resolved, TubeCounts } from "./model-policies.ts";
import type { ModelTurns } from "./turns/model-turns.ts";

export interface ModelJob {
  readonly id: number;
  tube: ModelTube;
  body: string;
  /** Policy from its options and from the settings of its tube. */
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
  /** What its holder has said of it since it was given. */
  progress: number | undefined;
  note: string;
  /** When its last reservation began, if its tube kept ends then; otherwise -1. */
  startedAtMs: number;
}

/** Why a job goes to another shard, and what becomes of it there. */
export interface Errand {
  readonly travel: "move" | "death" | "update" | "handed";
  /** It becomes ready, whatever it was. */
  readonly asReady: boolean;
  /** It becomes ready or delayed for so long. */
  readonly delayMs: number | undefined;
  /** Fields that it gets there, in place of its own. */
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
  reserves: number;
  timeouts: number;
  disconnects: number;
  releases: number;
  buries: number;
  kicks: number;
  pauses: number;
  /** Settings of the tube, as it was last told. */
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
  /** Once it has given a tube a weight or chosen an order. */
  turns: ModelTurns | undefined;
}

export interface Wait {
  readonly session: ModelSession;
  readonly shard: number;
  /** Number of a wait over several shards; undefined for a wait on this shard alone. */
  readonly number: number | undefined;
  timeoutAtMs: number;
  /** Its acceptor was told that it is due. */
  told: boolean;
  /** What a batch that fills waits for on this shard. */
  fill: { readonly fillsAt: number; lingerMs: number } | undefined;
}

export type Effect =
  | { kind: "reserved"; session: number; job: number }
  | { kind: "timedOut" | "deadlineSoon" | "waitDue"; session: number }
  | { kind: "claim"; session: number; won: boolean };

/** Outcome of a put. */
export type PutVerdict =
  | { kind: "stored" | "full" }
  | { kind: "duplicate"; of: number }
  | { kind: "refused"; reply: "BATCH_NOT_FOUND" | "BATCH_COMMITTED" | "BATCH_ORDER" };

/** What a shard knows of a batch. */
export type KnownBatch = Pick<BatchFacts, "number" | "name" | "state" | "outcome" | "allDone" | "allFailed">;

export type ByIdResult = "done" | "not found";

/**
 * A change that a log must keep: of what a restart brings back of a job, or undefined for its end.
 */
export interface ModelChange {
  readonly id: number;
  readonly job: Kept | undefined;
}

/** Contents of the log for an id. */
export type Kept = KeptJob | KeptKey;

/** State that outlives the process: a reservation does not. */
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

export interface BatchLimits {
  readonly jobsMax: number;
  readonly bytesMax: number;
  /** All jobs belong to the tube and group of the first. */
  readonly oneGroup?: boolean;
}
