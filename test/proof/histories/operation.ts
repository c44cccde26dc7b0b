// Operations of a history: what one client did to one tube, when it asked and when it was answered.
// The format of a line of a history file, too.

/** Reply of the server in one word, and what the commands below need of it. */
export type Result =
  | "inserted"
  | "reserved"
  | "timed-out"
  | "deadline-soon"
  | "done"
  | "kicked"
  | "found"
  | "counted"
  | "not-found"
  /** The connection was lost before the answer: it took effect at any later moment, or never. */
  | "unknown";

export type Kind =
  | "put"
  | "reserve"
  | "reserve-job"
  | "delete"
  | "release"
  | "bury"
  | "touch"
  | "kick"
  | "kick-job"
  | "peek"
  | "peek-ready"
  | "peek-delayed"
  | "peek-buried"
  | "stats-job"
  | "stats-tube"
  /**
   * The client is gone, and its reservation of this job ends. One for each job: servers give them
   * back one by one. Job 0 is whichever it may have got from a reserve of unknown outcome.
   */
  | "leave"
  /** The end of a delay or of a ttr, which no client asks for. */
  | "due"
  /** Another server takes the lead without an effect of unknown outcome. */
  | "undo";

export type JobState = "ready" | "delayed" | "reserved" | "buried";

/** What a client saw. Times are microseconds of one monotonic clock. */
export interface Recorded {
  readonly kind: Kind;
  /** 0 for `due`, which has no client. */
  readonly client: number;
  /** The operation took effect between these two moments, both included. */
  readonly callUs: number;
  readonly returnUs: number;
  readonly result: Result;
  /** Id of the job that was named or answered; 0 for none. */
  readonly job: number;
  readonly pri: number;
  readonly body: string;
  /** put, release. */
  readonly delaySeconds: number;
  /** reserve, reserve-job, touch: of the job. */
  readonly ttrSeconds: number;
  /** reserve. */
  readonly timeoutSeconds: number;
  /** kick. */
  readonly bound: number;
  /** kick: jobs that were kicked. stats-tube: jobs by state, in the order of COUNTED. */
  readonly counts: readonly number[];
  /** stats-job. */
  readonly state: JobState | "";
  /** Number of the effect that may be undone or, for `undo`, that is undone; 0 for none. */
  readonly effect: number;
}

/** The same with the timer that it starts: what the model and other checkers read. */
export interface Operation extends Recorded {
  /** Number of the timer that this starts or, for `due`, that ends; 0 for none. */
  readonly timer: number;
  /** Interval in which the margin of the reservation begins. */
  readonly marginFromUs: number;
  readonly marginToUs: number;
}

/** When an operation of unknown outcome returns: no other is surely later. */
export const NEVER_US: number = Number.MAX_SAFE_INTEGER;

export const COUNTED: readonly JobState[] = ["ready", "reserved", "delayed", "buried"];

/** One tube's operations. */
export interface History {
  readonly name: string;
  readonly operations: readonly Recorded[];
}

export const BLANK: Recorded = {
  kind: "due",
  client: 0,
  callUs: 0,
  returnUs: 0,
  result: "done",
  job: 0,
  pri: 0,
  body: "",
  delaySeconds: 0,
  ttrSeconds: 0,
  timeoutSeconds: 0,
  bound: 0,
  counts: [],
  state: "",
  effect: 0,
};

/** Describes an operation for people. */
export function describe(operation: Recorded): string {
  const { kind, client, callUs, returnUs, result, job, pri, bound, counts, state } = operation;
  const { delaySeconds, ttrSeconds, timeoutSeconds, effect } = operation;
  const ms = (us: number): string => (us / 1000).toFixed(1).padStart(9);
  const facts = [
    job > 0 ? `job ${job}` : "",
    kind === "put" || kind === "release" || kind === "bury" ? `pri ${pri}` : "",
    delaySeconds > 0 ? `delay ${delaySeconds}` : "",
    ttrSeconds > 0 ? `ttr ${ttrSeconds}` : "",
    timeoutSeconds > 0 ? `timeout ${timeoutSeconds}` : "",
    bound > 0 ? `at most ${bound}` : "",
    effect > 0 ? `effect ${effect}` : "",
    kind === "due" ? "its time is over" : `-> ${result}`,
    counts.join(" "),
    state,
  ].filter((fact) => fact !== "");
  return `${ms(callUs)} ..${returnUs >= NEVER_US ? "         " : ms(returnUs)} ms  client ${client}  ${kind} ${facts.join(" ")}`;
}
