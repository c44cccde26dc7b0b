// Entry point `runnerbean/client`: a Node client for this server and for any beanstalkd.

export type { FinishedJob } from "../schema/job.ts";
export type { Batch, BatchOutcome, BatchReport, BatchState, ListedBatch } from "./batch.ts";
export {
  BadFormat,
  BadSchedule,
  BatchConflict,
  Buried,
  Closed,
  ConnectionLost,
  DeadlineSoon,
  Draining,
  JobCancelled,
  JobLost,
  JobTooBig,
  NotFound,
  NotSupported,
  OtherServer,
  OutOfMemory,
  ProtocolError,
  QueueError,
  ReplyError,
  TubeFull,
  Unauthorized,
} from "./errors.ts";
export type { Job, JobHandle, JobReport, JobState, JobStats, TouchOptions, UpdateOptions } from "./job.ts";
export type { ConnectionEvent } from "./link.ts";
export type { Meta } from "./meta.ts";
export { type Codec, json, text } from "./meta.ts";
export type { Put, PutCounts, PutOptions } from "./put.ts";
export {
  type ConnectOptions,
  connect,
  type Queue,
  type ReserveManyOptions,
  type ReserveOptions,
  type ServerStats,
} from "./queue.ts";
export type {
  ListedSchedule,
  Missed,
  Overlap,
  Schedule,
  ScheduleOptions,
  ScheduleReport,
} from "./schedule.ts";
export type { Filter, LimitedFilter, ListedJob, ListFilter, Tube, TubeSettings, TubeStats } from "./tube.ts";
export type { ReserveOrder } from "./wire.ts";
export { type Handler, type RetryOptions, type Worker, type WorkOptions, work } from "./worker.ts";
