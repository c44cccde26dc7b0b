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
