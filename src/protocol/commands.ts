// The table of commands: every property that depends on the command alone. The parser, the
// acceptor, the shards, `stats`, `--help` and the list in README.md read it. CONTRIBUTING.md
// explains how to add a command.

import * as options from "./option-rows.ts";
import {
  batchAbort,
  batchBytes,
  batchLinger,
  batchMeta,
  batchMin,
  batchOneGroup,
  batchTubes,
  type OptionRow,
  SETTING_ROWS,
} from "./option-rows.ts";
import { SCHEDULE_LIST_OPTIONS, SCHEDULE_OPTIONS } from "./schedule-options.ts";

// The numbers of commands.

/**
 * Operations of the wire, below 128. Only threads of one process exchange them; their order has no
 * meaning.
 */
export const Op = {
  Unknown: 0,
  Put: 1,
  Peek: 2,
  PeekReady: 3,
  PeekDelayed: 4,
  PeekBuried: 5,
  Reserve: 6,
  ReserveWithTimeout: 7,
  Delete: 8,
  Release: 9,
  Use: 10,
  Watch: 11,
  Ignore: 12,
  Bury: 13,
  Kick: 14,
  Touch: 15,
  Stats: 16,
  StatsJob: 17,
  StatsTube: 18,
  ListTubes: 19,
  ListTubeUsed: 20,
  ListTubesWatched: 21,
  PauseTube: 22,
  ReserveJob: 23,
  KickJob: 24,
  Quit: 25,
  Extensions: 26,
  Origins: 28,
  PutInTube: 27,
  ListJobs: 40,
  ClearTube: 41,
  InspectJob: 42,
  InspectTube: 43,
  UpdateJob: 44,
  TouchJob: 45,
  CancelJob: 46,
  FinishedJobs: 47,
  SetTube: 50,
  MoveJobs: 51,
  ReserveBatch: 60,
  DeleteBatch: 61,
  TouchAll: 62,
  Name: 63,
  OpenBatch: 70,
  CommitBatch: 71,
  CancelBatch: 72,
  InspectBatch: 73,
  ListBatches: 74,
  SetSchedule: 80,
  DeleteSchedule: 81,
  PauseSchedule: 82,
  ResumeSchedule: 83,
  RunSchedule: 84,
  InspectSchedule: 85,
  ListSchedules: 86,
  ReserveOrder: 100,
  InspectWatched: 101,
  /** Known only on listeners that require it: see AUTH. */
  Auth: 127,
} as const;
export type Op = (typeof Op)[keyof typeof Op];

// The arguments of commands.

/**
 * The arguments that follow a command word, and how strictly the parser reads them (README.md,
 * "Lines").
 */
export const Args = {
  /** Nothing. */
  None: 0,
  /** Any text, ignored. */
  Ignored: 1,
  Id: 2,
  IdPri: 3,
  IdPriDelay: 4,
  Put: 5,
  /** A number of jobs, parsed as C's strtol does. */
  Bound: 6,
  /** Seconds, or -1. */
  Timeout: 7,
  Tube: 8,
  /** A tube and a delay; the parser skips blanks before the tube and checks its name last. */
  TubeDelay: 9,
  /** A tube, followed by the arguments of put. */
  TubePut: 10,
  /** A secret: bytes without a blank. */
  Secret: 11,
  /** A tube, a prefix of a tube name followed by `*`, or `*`. */
  Pattern: 20,
  /** A tube, followed by another tube or `*`. */
  TubeTarget: 21,
  /** A tube, or `*`. */
  TubeOrAll: 22,
  /** A number of jobs, and the timeout for the first one. */
  CountTimeout: 30,
  /** Ids, up to the maximum batch size. */
  Ids: 31,
  /** A name for a worker: bytes without blanks and control characters. */
  Name: 32,
  /** The name of a batch, which follows the rules for tube names. */
  Batch: 33,
  /** The name of a schedule, followed by the arguments of put-in-tube. */
  SchedulePut: 50,
  /** The name of a schedule. */
  Schedule: 51,
  /** One of RESERVE_ORDER_WORDS. */
  Order: 60,
} as const;
export type Args = (typeof Args)[keyof typeof Args];

/** The name of an argument in help texts. */
export type Field =
  | "id"
  | "pri"
  | "delay"
  | "ttr"
  | "bytes"
  | "bound"
  | "seconds"
  | "tube"
  | "token"
  | "tube | *"
  | "pattern"
  | "to"
  | "count"
  | "ids"
  | "name"
  | "batch"
  | "schedule"
  | "strict|weighted|weighted-time";

/** The arguments of each Args, in order. A line with `bytes` precedes a body of that size. */
export const FIELDS: Readonly<Record<Args, readonly Field[]>> = {
  [Args.None]: [],
  [Args.Ignored]: [],
  [Args.Id]: ["id"],
  [Args.IdPri]: ["id", "pri"],
  [Args.IdPriDelay]: ["id", "pri", "delay"],
  [Args.Put]: ["pri", "delay", "ttr", "bytes"],
  [Args.Bound]: ["bound"],
  [Args.Timeout]: ["seconds"],
  [Args.Tube]: ["tube"],
  [Args.TubeDelay]: ["tube", "delay"],
  [Args.TubePut]: ["tube", "pri", "delay", "ttr", "bytes"],
  [Args.Secret]: ["token"],
  [Args.Pattern]: ["pattern"],
  [Args.TubeTarget]: ["tube", "to"],
  [Args.TubeOrAll]: ["tube | *"],
  [Args.CountTimeout]: ["count", "seconds"],
  [Args.Ids]: ["ids"],
  [Args.Name]: ["name"],
  [Args.Batch]: ["batch"],
  [Args.SchedulePut]: ["schedule", "tube", "pri", "delay", "ttr", "bytes"],
  [Args.Schedule]: ["schedule"],
  [Args.Order]: ["strict|weighted|weighted-time"],
};

/** Exclusive upper bound of command ops; other messages use this value and above. */
export const COMMAND_OPS = 128;

/** Where the server executes a command. */
export const Route = {
  /** On the shard of the tube in use, or of the named tube; has a body. */
  Put: 0,
  /** On the shards of the watched tubes, possibly after a wait. */
  Reserve: 1,
  /** On the job's shard, or on all shards if the job's shard is unknown. */
  Job: 2,
  /** On the shard of the tube in use. */
  UsedTube: 3,
  /** On the shard of the named tube. */
  NamedTube: 4,
  /** On the acceptor: changes the tubes that the connection uses and watches, and their order. */
  TubeSet: 5,
  /** On the acceptor, which answers from its own state or asks all shards. */
  Report: 6,
  /** Ends the connection. */
  End: 7,
  /** On the shards of all matching tubes. */
  Pattern: 8,
  /** On the shard of the named tube, or on all shards for `*`. */
  NamedTubes: 9,
  /** On the shards of the named jobs. */
  Jobs: 10,
  /** On the shards where the connection holds jobs. */
  Held: 11,
  /** On the acceptor, which notes the client's name. */
  Name: 12,
  /** On the shard that has the named schedule. */
  Schedule: 13,
  /** On all shards, which list their schedules. */
  Schedules: 14,
  /** On the shard that is the home of the named batch, or on any shard for all of them. */
  Batch: 15,
  /** On the acceptor, which knows where the server's job ids come from. */
  Origins: 16,
} as const;
export type Route = (typeof Route)[keyof typeof Route];

/** Permissions of commands, as bits. access/identity.ts adds those of the HTTP API. */
export const CommandPermission = {
  /** Read states and counts: stats and lists. */
  View: 2,
  /** Read the texts of jobs without reserving them: bodies, metadata, keys, groups and reasons. */
  Bodies: 4,
  Put: 8,
  /** Reserve jobs, and finish reserved ones. */
  Work: 16,
  /** Kick, pause, clear, move, and delete other clients' jobs. */
  Manage: 32,
} as const;

/**
 * The tubes and jobs that a command touches. A token that is limited to some tubes is checked for
 * these.
 */
export const Scope = {
  /** The whole server, or tubes that the line does not name: refused to limited tokens. */
  Server: 0,
  /** Only the state of the connection. */
  Connection: 1,
  UsedTube: 2,
  NamedTube: 3,
  /** The named tube, or all of them for `*`. */
  NamedTubes: 4,
  WatchedTubes: 5,
  /** The job with the named id, which the connection must have reserved. */
  Job: 6,
  Jobs: 7,
  /** All jobs that the connection holds. */
  HeldJobs: 8,
} as const;
export type Scope = (typeof Scope)[keyof typeof Scope];

/**
 * Which uses of a command are changes by hand: the audit log has them. Puts, reservations and what
 * workers do with the jobs that they hold are not.
 */
export const ByHand = {
  Never: 0,
  Always: 1,
  /** By a connection that holds no job: it deletes a job that no worker has finished. */
  WithoutJobs: 2,
} as const;
export type ByHand = (typeof ByHand)[keyof typeof ByHand];

/** Classes of the histograms of command times, in the order of their counters. */
export const COMMAND_CLASSES = ["put", "reserve", "delete", "other"] as const;
type CommandClass = (typeof COMMAND_CLASSES)[number];

export interface Command {
  readonly op: Op;
  /**
   * The beginning of the line, including the blank where one is required. Nothing may follow unless
   * `args` reads it.
   */
  readonly word: string;
  readonly args: Args;
  readonly route: Route;
  /**
   * Bits of CommandPermission, any one of which is enough. 0 means every admitted client. Workers
   * may query jobs and tubes, because client libraries such as Laravel's do so for each job.
   * Commands that show texts of jobs need Bodies, and so do those that search bodies: a search
   * reveals what they contain.
   */
  readonly permission: number;
  readonly scope: Scope;
  /** Leaves the texts of jobs out for clients with neither Bodies nor Work. */
  readonly leavesOutTexts?: true;
  /** Absent: never. */
  readonly byHand?: ByHand;
  /** Absent: "other". */
  readonly timing?: CommandClass;
  /** Passes the auth filter of a client that has not authenticated. */
  readonly beforeAuth?: true;
  /** The named jobs are gone afterwards. */
  readonly deletes?: true;
  /** May move jobs to another shard. */
  readonly movesJobs?: true;
  /**
   * Waits while the named job is in transfer to another shard. Otherwise, commands that only show
   * the job show it as it is, and commands that require its holder are refused.
   */
  readonly waitsForTransfer?: true;
  /** The command has a counter in `stats`, `cmd-` and its name, in the order of this table. */
  readonly inStats?: true;
  /**
   * beanstalkd lacks the command: its line may be longer, its durations may have decimals, and
   * `options` may follow its arguments.
   */
  readonly extension?: true;
  readonly options?: readonly OptionRow[];
  /** A line without options is BAD_FORMAT. */
  readonly needsOption?: true;
  /**
   * The replies other than BAD_FORMAT, the usual one first; a description of the body or text
   * follows the words.
   */
  readonly replies: readonly string[];
  /** The section of README.md that specifies the command. */
  readonly section: string;
  /** A short description. */
  readonly help: string;
}

const { None, Ignored, Id, IdPri, IdPriDelay, Bound, Timeout, Tube } = Args;
const { TubeDelay, TubePut, Pattern, TubeTarget, TubeOrAll, CountTimeout, Ids } = Args;
const { View, Bodies, Put, Work, Manage } = CommandPermission;
const { Always, WithoutJobs } = ByHand;
const ANYONE = 0;

const NOT_FOUND = "NOT_FOUND";
const FOUND = ["FOUND <id> <bytes> and body", NOT_FOUND];
const RESERVED = "RESERVED <id> <bytes> and body";
const USING = "USING <tube>";
const WATCHING = "WATCHING <count>";
const OK = "OK <bytes> and YAML";
const STORED = ["INSERTED <id>", "EXPECTED_CRLF", "JOB_TOO_BIG", "DRAINING", "OUT_OF_MEMORY"];
const UNKNOWN_OPTION = "UNKNOWN_OPTION <name>";

// biome-ignore format: a table
export const COMMANDS: readonly Command[] = [
  { op: Op.Put, word: "put ", args: Args.Put, route: Route.Put, inStats: true,
    permission: Put, scope: Scope.UsedTube, timing: "put",
    replies: STORED, section: "3", help: "stores a job in the tube in use" },
  { op: Op.Peek, word: "peek ", args: Id, route: Route.Job, inStats: true,
    permission: Bodies, scope: Scope.Job,
    replies: FOUND, section: "6", help: "shows a job" },
  { op: Op.PeekReady, word: "peek-ready", args: None, route: Route.UsedTube, inStats: true,
    permission: Bodies, scope: Scope.UsedTube,
    replies: FOUND, section: "6", help: "shows the ready job that would be reserved next from the tube in use" },
  { op: Op.PeekDelayed, word: "peek-delayed", args: None, route: Route.UsedTube, inStats: true,
    permission: Bodies, scope: Scope.UsedTube,
    replies: FOUND, section: "6", help: "shows the delayed job with the shortest delay left" },
  { op: Op.PeekBuried, word: "peek-buried", args: None, route: Route.UsedTube, inStats: true,
    permission: Bodies, scope: Scope.UsedTube,
    replies: FOUND, section: "6", help: "shows the job that was buried first" },
  { op: Op.Reserve, word: "reserve", args: None, route: Route.Reserve, inStats: true,
    permission: Work, scope: Scope.WatchedTubes, timing: "reserve",
    replies: [RESERVED, "DEADLINE_SOON", "TIMED_OUT (half-closed only)"], section: "4", help: "reserves the next job of the watched tubes; waits until there is one" },
  { op: Op.ReserveWithTimeout, word: "reserve-with-timeout ", args: Timeout, route: Route.Reserve, inStats: true,
    permission: Work, scope: Scope.WatchedTubes, timing: "reserve",
    replies: [RESERVED, "DEADLINE_SOON", "TIMED_OUT"], section: "4", help: "the same, but waits at most this long" },
  { op: Op.Delete, word: "delete ", args: Id, route: Route.Job, inStats: true,
    byHand: WithoutJobs, permission: Work, scope: Scope.Job, timing: "delete", deletes: true, waitsForTransfer: true,
    replies: ["DELETED", NOT_FOUND], section: "5", help: "deletes a job: its work is done" },
  { op: Op.Release, word: "release ", args: IdPriDelay, options: options.REASON_OPTIONS, route: Route.Job, inStats: true,
    permission: Work, scope: Scope.Job,
    replies: ["RELEASED", NOT_FOUND], section: "5", help: "puts a reserved job back in its tube" },
  { op: Op.Use, word: "use ", args: Tube, route: Route.TubeSet, inStats: true,
    permission: ANYONE, scope: Scope.NamedTube,
    replies: [USING], section: "7.1", help: "chooses the tube that put, kick and peek use" },
  { op: Op.Watch, word: "watch ", args: Tube, options: options.WATCH_OPTIONS, route: Route.TubeSet, inStats: true,
    permission: ANYONE, scope: Scope.NamedTube,
    replies: [WATCHING], section: "7.1", help: "adds a tube to the watch list of reserve, and sets its weight there" },
  { op: Op.Ignore, word: "ignore ", args: Tube, route: Route.TubeSet, inStats: true,
    permission: ANYONE, scope: Scope.Connection,
    replies: [WATCHING, "NOT_IGNORED"], section: "7.1", help: "removes a tube from the watch list, but never the last one" },
  { op: Op.Bury, word: "bury ", args: IdPri, options: options.REASON_OPTIONS, route: Route.Job, inStats: true,
    permission: Work, scope: Scope.Job,
    replies: ["BURIED", NOT_FOUND], section: "5", help: "sets a reserved job aside until it is kicked" },
  { op: Op.Kick, word: "kick ", args: Bound, route: Route.UsedTube, inStats: true,
    byHand: Always, permission: Manage, scope: Scope.UsedTube,
    replies: ["KICKED <count>"], section: "6", help: "makes buried jobs of the tube in use ready, or delayed ones if there are none" },
  { op: Op.Touch, word: "touch ", args: Id, route: Route.Job, inStats: true,
    permission: Work, scope: Scope.Job,
    replies: ["TOUCHED", NOT_FOUND], section: "5", help: "restarts the time to run of a reserved job" },
  { op: Op.Stats, word: "stats", args: None, route: Route.Report, inStats: true,
    permission: View, scope: Scope.Server,
    replies: [OK], section: "8.2", help: "statistics of the server" },
  { op: Op.StatsJob, word: "stats-job ", args: Id, route: Route.Job, inStats: true,
    permission: View | Work, scope: Scope.Job,
    replies: [OK, NOT_FOUND], section: "8.4", help: "statistics of a job" },
  { op: Op.StatsTube, word: "stats-tube ", args: Tube, route: Route.NamedTube, inStats: true,
    permission: View | Work, scope: Scope.NamedTube,
    replies: [OK, NOT_FOUND], section: "8.3", help: "statistics of a tube" },
  { op: Op.ListTubes, word: "list-tubes", args: None, route: Route.Report, inStats: true,
    permission: View, scope: Scope.Server,
    replies: [OK, "OUT_OF_MEMORY"], section: "7.3", help: "lists all tubes" },
  { op: Op.ListTubeUsed, word: "list-tube-used", args: None, route: Route.Report, inStats: true,
    permission: ANYONE, scope: Scope.Connection,
    replies: [USING], section: "7.1", help: "names the tube in use" },
  { op: Op.ListTubesWatched, word: "list-tubes-watched", args: None, route: Route.Report, inStats: true,
    permission: ANYONE, scope: Scope.Connection,
    replies: [OK], section: "7.3", help: "lists the watched tubes" },
  { op: Op.PauseTube, word: "pause-tube", args: TubeDelay, route: Route.NamedTube, inStats: true,
    byHand: Always, permission: Manage, scope: Scope.NamedTube,
    replies: ["PAUSED", NOT_FOUND], section: "7.4", help: "stops reservations from a tube for a while" },
  { op: Op.ReserveJob, word: "reserve-job ", args: Id, route: Route.Job,
    permission: Work, scope: Scope.Job, timing: "reserve", waitsForTransfer: true,
    replies: [RESERVED, NOT_FOUND], section: "4.6", help: "reserves a job by its id, unless it is reserved already" },
  { op: Op.KickJob, word: "kick-job ", args: Id, route: Route.Job,
    byHand: Always, permission: Manage, scope: Scope.Job, waitsForTransfer: true,
    replies: ["KICKED", NOT_FOUND], section: "6", help: "makes a buried or delayed job ready" },
  { op: Op.Quit, word: "quit", args: Ignored, route: Route.End,
    permission: ANYONE, scope: Scope.Connection, beforeAuth: true,
    replies: ["none: the connection is closed"], section: "12", help: "closes the connection" },
  { op: Op.Extensions, word: "extensions", args: None, route: Route.Report, extension: true,
    permission: ANYONE, scope: Scope.Connection,
    replies: [OK], section: "18.2", help: "lists the commands that beanstalkd does not have, and how often each has been used" },
  { op: Op.Origins, word: "origins", args: None, route: Route.Origins, extension: true,
    permission: ANYONE, scope: Scope.Connection,
    replies: [OK], section: "18.34", help: "lists the servers whose job ids mean the same jobs here, this one first" },
  { op: Op.PutInTube, word: "put-in-tube ", args: TubePut, options: options.PUT_OPTIONS, route: Route.Put, extension: true,
    permission: Put, scope: Scope.NamedTube, timing: "put",
    replies: [...STORED, "DUPLICATE <id>", "KEPT <id>", "REPLACED <id>", "ESCALATED <id>", "DEBOUNCED <id>", "TUBE_FULL", "BATCH_NOT_FOUND", "BATCH_COMMITTED", "BATCH_ORDER", UNKNOWN_OPTION], section: "18.3", help: "stores a job in a named tube without changing the tube in use" },
  { op: Op.ReserveBatch, word: "reserve-batch ", args: CountTimeout, options: [batchBytes, batchMin, batchLinger, batchOneGroup, batchTubes, batchMeta, batchAbort], route: Route.Reserve, extension: true,
    permission: Work, scope: Scope.WatchedTubes, timing: "reserve",
    replies: ["RESERVED_BATCH <count> and then RESERVED that many times", "DEADLINE_SOON", "TIMED_OUT", "ABORTED", UNKNOWN_OPTION], section: "18.4", help: "reserves up to count jobs of the watched tubes; waits until there is one, or min of them" },
  { op: Op.DeleteBatch, word: "delete-batch ", args: Ids, route: Route.Jobs, extension: true,
    byHand: WithoutJobs, permission: Work, scope: Scope.Jobs, timing: "delete", deletes: true,
    replies: ["DELETED_BATCH <deleted> <missing> and the missing ids"], section: "18.5", help: "deletes jobs: their work is done" },
  { op: Op.TouchAll, word: "touch-all", args: None, route: Route.Held, extension: true,
    permission: Work, scope: Scope.HeldJobs,
    replies: ["TOUCHED_ALL <count>"], section: "18.11", help: "restarts the time to run of all jobs that the connection holds" },
  { op: Op.Name, word: "name ", args: Args.Name, route: Route.Name, extension: true,
    permission: ANYONE, scope: Scope.Connection,
    replies: ["NAMED"], section: "18.12", help: "names the client, for the failures of its jobs" },
  { op: Op.InspectJob, word: "inspect-job ", args: Id, route: Route.Job, extension: true,
    permission: View | Work, leavesOutTexts: true, scope: Scope.Job,
    replies: [OK, NOT_FOUND], section: "18.6", help: "what stats-job leaves out, such as who holds a job" },
  { op: Op.InspectTube, word: "inspect-tube ", args: Tube, route: Route.NamedTube, extension: true,
    permission: View | Work, scope: Scope.NamedTube,
    replies: [OK, NOT_FOUND], section: "18.6", help: "what stats-tube leaves out: settings, groups, keys and limits of a tube" },
  { op: Op.UpdateJob, word: "update-job ", args: Id, options: options.UPDATE_OPTIONS, needsOption: true, route: Route.Job, extension: true,
    byHand: Always, permission: Work | Manage, scope: Scope.Server, waitsForTransfer: true, movesJobs: true,
    replies: ["UPDATED", NOT_FOUND, "TUBE_FULL", "OUT_OF_MEMORY", UNKNOWN_OPTION], section: "18.7", help: "changes a job's priority, delay, time to run or to live, or its tube" },
  { op: Op.TouchJob, word: "touch-job ", args: Id, options: options.TOUCH_OPTIONS, route: Route.Job, extension: true,
    permission: Work, scope: Scope.Job,
    replies: ["TOUCHED", "TOUCHED cancelled=<reason>", NOT_FOUND, UNKNOWN_OPTION], section: "18.14", help: "restarts a job's time to run, reports its progress, and tells whether it was cancelled" },
  { op: Op.CancelJob, word: "cancel-job ", args: Id, options: options.REASON_OPTIONS, route: Route.Job, extension: true,
    byHand: Always, permission: Manage, scope: Scope.Job, waitsForTransfer: true,
    replies: ["CANCELLED", "CANCELLING", NOT_FOUND, "OUT_OF_MEMORY", UNKNOWN_OPTION], section: "18.14", help: "removes a job that waits, or tells the holder of a reserved one to stop" },
  { op: Op.ListJobs, word: "list-jobs ", args: TubeOrAll, options: options.LIST_OPTIONS, route: Route.NamedTubes, extension: true,
    permission: Bodies, scope: Scope.NamedTubes,
    replies: [OK, "OUT_OF_MEMORY", UNKNOWN_OPTION], section: "18.8", help: "lists the jobs of a tube, or of all tubes, by id, a page at a time" },
  { op: Op.FinishedJobs, word: "finished-jobs ", args: Tube, options: options.FINISHED_OPTIONS, route: Route.NamedTube, extension: true,
    permission: Bodies, scope: Scope.NamedTube,
    replies: [OK, "OUT_OF_MEMORY", UNKNOWN_OPTION], section: "18.10", help: "lists the last jobs of a tube that have ended, newest first (keep-finished)" },
  { op: Op.ClearTube, word: "clear-tube ", args: Tube, options: options.CLEAR_OPTIONS, route: Route.NamedTube, extension: true,
    byHand: Always, permission: Manage, scope: Scope.NamedTube,
    replies: ["CLEARED <count>", UNKNOWN_OPTION], section: "18.9", help: "deletes the jobs of a tube that are not reserved" },
  { op: Op.MoveJobs, word: "move-jobs ", args: TubeTarget, options: options.MOVE_OPTIONS, route: Route.NamedTube, extension: true,
    byHand: Always, permission: Manage, scope: Scope.Server, movesJobs: true,
    replies: ["MOVED <count>", UNKNOWN_OPTION], section: "18.21", help: "moves jobs to another tube, or dead jobs back to where they came from" },
  { op: Op.SetTube, word: "set-tube ", args: Pattern, options: SETTING_ROWS, needsOption: true, route: Route.Pattern, extension: true,
    byHand: Always, permission: Manage, scope: Scope.Server,
    replies: ["SET", "OUT_OF_MEMORY", UNKNOWN_OPTION], section: "18.20", help: "sets limits, retries and times for a tube, or for all tubes whose names begin alike" },
  { op: Op.ReserveOrder, word: "reserve-order ", args: Args.Order, route: Route.TubeSet, extension: true,
    permission: ANYONE, scope: Scope.Connection,
    replies: ["SET"], section: "18.22", help: "chooses how reserve picks among the watched tubes: the best job, or by weights" },
  { op: Op.InspectWatched, word: "inspect-watched", args: None, route: Route.Report, extension: true,
    permission: ANYONE, scope: Scope.Connection,
    replies: [OK], section: "18.22", help: "lists the watched tubes with their weights, and the order of reserves" },
  { op: Op.SetSchedule, word: "set-schedule ", args: Args.SchedulePut, options: SCHEDULE_OPTIONS, route: Route.Put, extension: true,
    byHand: Always, permission: Manage, scope: Scope.Server,
    replies: ["SET", "BAD_SCHEDULE <what is wrong>", "EXPECTED_CRLF", "JOB_TOO_BIG", "DRAINING", "OUT_OF_MEMORY", UNKNOWN_OPTION], section: "18.30", help: "puts a job at the times of a cron expression, or at regular intervals" },
  { op: Op.DeleteSchedule, word: "delete-schedule ", args: Args.Schedule, route: Route.Schedule, extension: true,
    byHand: Always, permission: Manage, scope: Scope.Server,
    replies: ["DELETED", NOT_FOUND], section: "18.31", help: "deletes a schedule; the jobs that it has put stay" },
  { op: Op.PauseSchedule, word: "pause-schedule ", args: Args.Schedule, route: Route.Schedule, extension: true,
    byHand: Always, permission: Manage, scope: Scope.Server,
    replies: ["PAUSED", NOT_FOUND], section: "18.31", help: "stops a schedule from putting jobs until it is resumed" },
  { op: Op.ResumeSchedule, word: "resume-schedule ", args: Args.Schedule, route: Route.Schedule, extension: true,
    byHand: Always, permission: Manage, scope: Scope.Server,
    replies: ["RESUMED", NOT_FOUND], section: "18.31", help: "ends the pause of a schedule" },
  { op: Op.RunSchedule, word: "run-schedule ", args: Args.Schedule, route: Route.Schedule, extension: true,
    byHand: Always, permission: Manage, scope: Scope.Server,
    replies: ["INSERTED <id>", NOT_FOUND, "TUBE_FULL", "DRAINING", "OUT_OF_MEMORY"], section: "18.31", help: "puts a schedule's job now; its next run stays" },
  { op: Op.InspectSchedule, word: "inspect-schedule ", args: Args.Schedule, route: Route.Schedule, extension: true,
    permission: Bodies, scope: Scope.Server,
    replies: [OK, NOT_FOUND], section: "18.32", help: "everything about a schedule: its next runs, counts and body" },
  { op: Op.ListSchedules, word: "list-schedules", args: None, options: SCHEDULE_LIST_OPTIONS, route: Route.Schedules, extension: true,
    permission: View, scope: Scope.Server,
    replies: [OK, "OUT_OF_MEMORY", UNKNOWN_OPTION], section: "18.32", help: "lists schedules by name, a page at a time" },
  { op: Op.OpenBatch, word: "open-batch ", args: Args.Batch, options: options.OPEN_OPTIONS, route: Route.Batch, extension: true,
    byHand: Always, permission: Put, scope: Scope.Server,
    replies: ["OPENED", "BATCH_EXISTS", "OUT_OF_MEMORY", UNKNOWN_OPTION], section: "18.33", help: "opens a batch, which jobs may join and others wait for" },
  { op: Op.CommitBatch, word: "commit-batch ", args: Args.Batch, route: Route.Batch, extension: true,
    byHand: Always, permission: Put, scope: Scope.Server,
    replies: ["COMMITTED", NOT_FOUND, "BATCH_CANCELLED"], section: "18.33", help: "closes a batch for new members: it is complete when all have ended" },
  { op: Op.CancelBatch, word: "cancel-batch ", args: Args.Batch, route: Route.Batch, extension: true,
    byHand: Always, permission: Manage, scope: Scope.Server,
    replies: ["CANCELLED", NOT_FOUND, "BATCH_COMPLETE"], section: "18.33", help: "removes the members of a batch that are not reserved, and ends it" },
  { op: Op.InspectBatch, word: "inspect-batch ", args: Args.Batch, route: Route.Batch, extension: true,
    permission: View | Put, scope: Scope.Server,
    replies: [OK, NOT_FOUND], section: "18.33", help: "the state of a batch, and how many of its members have ended" },
  { op: Op.ListBatches, word: "list-batches", args: None, options: options.LIST_BATCHES_OPTIONS, route: Route.Batch, extension: true,
    permission: View | Put, scope: Scope.Server,
    replies: [OK, UNKNOWN_OPTION], section: "18.33", help: "lists the batches in the order of their opening or newest first, a page at a time" },
];

/**
 * Known only on listeners that require it; unknown elsewhere, as it is to beanstalkd. See
 * acceptor/admission/auth-filter.ts.
 */
export const AUTH: Command = {
  op: Op.Auth,
  word: "auth ",
  args: Args.Secret,
  route: Route.Report,
  permission: ANYONE,
  scope: Scope.Connection,
  replies: ["AUTHENTICATED", "UNAUTHORIZED"],
  section: "19",
  help: 'authenticates the client, if the listener requires it (auth = "token")',
};

/** The commands that beanstalkd lacks. */
export const EXTENSIONS: readonly Command[] = COMMANDS.filter(({ extension }) => extension);

/** Returns the name of a command, as `stats` and documents write it. */
export function commandName(command: Command): string {
  return command.word.trimEnd();
}

/** The commands of `--protocol strict`: as beanstalkd has them, without extensions and options. */
export const STRICT_COMMANDS: readonly Command[] = COMMANDS.filter(({ extension }) => !extension).map(
  ({ options: _, ...command }) => command,
);

// Columns of the table of commands, as arrays by op.

export const ROWS: readonly (Command | undefined)[] = Array.from({ length: COMMAND_OPS }, (_, op) =>
  [...COMMANDS, AUTH].find((command) => command.op === op),
);

/** Returns a column as an array by op, so that a look-up is one load. */
function column(value: (row: Command) => number, absent = 0): Uint8Array {
  return Uint8Array.from(ROWS, (row) => (row === undefined ? absent : value(row)));
}

/** A bit that no permission has: an op without a row is refused. */
const NOBODY = 128;

export const ROUTE_OF: Uint8Array = column(({ route }) => route);
export const PERMISSION_OF: Uint8Array = column(({ permission }) => permission, NOBODY);
export const SCOPE_OF: Uint8Array = column(({ scope }) => scope);
const OTHER = COMMAND_CLASSES.indexOf("other");
export const TIMING_OF: Uint8Array = column(({ timing = "other" }) => COMMAND_CLASSES.indexOf(timing), OTHER);
export const PASSES_BEFORE_AUTH: Uint8Array = column(({ beforeAuth = false }) => Number(beforeAuth));
/** The ByHand of each op. */
export const BY_HAND: Uint8Array = column(({ byHand = 0 }) => byHand);
export const DELETES: Uint8Array = column(({ deletes = false }) => Number(deletes));
export const LEAVES_OUT_TEXTS: Uint8Array = column(({ leavesOutTexts = false }) => Number(leavesOutTexts));
export const MOVES_JOBS: Uint8Array = column(({ movesJobs = false }) => Number(movesJobs));
export const WAITS_FOR_TRANSFER: Uint8Array = column(({ waitsForTransfer = false }) =>
  Number(waitsForTransfer),
);

/** Returns the command word as beanstalkd's -VV prints it. */
export function wordOf(op: number): string {
  return ROWS[op]?.word ?? "<unknown>";
}

// The list of commands in `--help`.

const ALL = [...COMMANDS, AUTH];

/** A usage longer than this is on a line of its own, above its explanation. */
const USAGE_WIDTH = 38;
const LINE_WIDTH = 110;

/** Returns each command with its help text, for a terminal. */
export function commandListText(): string {
  const indent = " ".repeat(USAGE_WIDTH + 3);
  return ALL.map((command) => {
    const usage = commandUsage(command);
    return usage.length <= USAGE_WIDTH
      ? ` ${usage.padEnd(USAGE_WIDTH)}  ${command.help}\n`
      : ` ${wrapped(usage)}\n${indent}${command.help}\n`;
  }).join("");
}

/** Returns the usage of a command: its word, arguments and options. */
export function commandUsage(command: Command): string {
  const fields = FIELDS[command.args].map((field) => `<${field}>`);
  const options = (command.options ?? []).map(({ name, usage }) => `[${name}=${usage}]`);
  return [commandName(command), ...fields, ...options].join(" ");
}

function wrapped(usage: string): string {
  let length = 0;
  return usage.replace(/ ?\S+/g, (word) => {
    const isLonger = length + word.length > LINE_WIDTH;
    length = isLonger ? word.length : length + word.length;
    return isLonger ? `\n    ${word}` : word;
  });
}
