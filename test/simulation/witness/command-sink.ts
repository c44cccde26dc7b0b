// Sink of the witness's reports about commands that took effect.

import type { JobChoice } from "../model/job-choice.ts";
import type { ByIdResult } from "../model/model-types.ts";

/** Reports about commands that took effect. */
export interface CommandSink {
  put(session: number, job: number): void;
  /** A tick of a schedule has put a job. */
  ticked(job: number, key: string): void;
  /** A run-schedule has put a job. */
  ran(job: number, schedule: string): void;
  /** A put was refused because the log has no room. */
  putRefused(session: number): void;
  /** A put's job was not stored: its key is taken, or its tube is full. */
  putDeclined(session: number, reply: string): void;
  reserved(session: number, job: number): void;
  /** The jobs of a batch, or one shard's part of them. */
  reservedBatch(session: number, jobs: readonly number[], isPart: boolean): void;
  /** The last of a client's jobs on a shard was touched; it holds this many there. */
  touchedAll(session: number, shard: number, held: number): void;
  /** The client ended its wait. */
  aborted(session: number): void;
  /** A wait or a reserve ended on its shard without a job. */
  refused(session: number, reply: "TIMED_OUT" | "DEADLINE_SOON"): void;
  /**
   * `settled` is false for "not found" on a shard where the job can't be although it is elsewhere.
   */
  byId(session: number, shard: number, name: ByIdCommand, id: number, done: boolean, settled: boolean): void;
  kicked(session: number, tube: string, bound: number, count: number): void;
  kickJob(shard: number, id: number, done: boolean, settled: boolean): void;
  cancelJob(id: number, result: ByIdResult | "marked", settled: boolean): void;
  paused(name: string, seconds: number, found: boolean): void;
  /** An update-job has found the tube full to which its job was to go. */
  updateRefused(session: number, id: number): void;
  /** A move-jobs has moved a job from one tube to another, or begun to. */
  moved(from: string, to: string, isDone: boolean): void;
  /** A clear-tube has done all that it should. */
  cleared(jobs: JobChoice, count: number): void;
  /** The model has followed a call on a shard; what became of commands is told after this. */
  followed(shard: number): void;
  /** Anything may have changed. */
  changed(): void;
}

/** For engines whose commands have no client. */
export const NOBODY: CommandSink = {
  put() {},
  ticked() {},
  ran() {},
  putRefused() {},
  putDeclined() {},
  reserved() {},
  reservedBatch() {},
  touchedAll() {},
  aborted() {},
  refused() {},
  byId() {},
  kicked() {},
  kickJob() {},
  cancelJob() {},
  paused() {},
  updateRefused() {},
  moved() {},
  cleared() {},
  followed() {},
  changed() {},
};

export type ByIdCommand =
  | "reserve-job"
  | "delete"
  | "release"
  | "bury"
  | "touch"
  | "touch-job"
  | "update-job";
