// What the http thread asks a shard beside commands, and the answers: shapes only, the bytes are msgpack's.
//
// A question is `[verb, arguments]`. Its answer comes in one message or in several (flag More), each a whole value of its
// own. A list of tubes is not msgpack but a fixed layout, since 200 rows take 0.36 ms packed as values and 0.01 ms so:
//
//   offset 0  uint32   rows
//   offset 4  uint32   zero
//   offset 8  float64  TUBE_FIELDS for each row
//   then      for each row: uint8 length of the name, and the name

/** What is told of a tube, in this order. Times are ms of the monotonic clock. */
export const TubeField = {
  /** Of its creation, over all shards: two tubes of one name that lived one after the other differ in it. */
  Sequence: 0,
  Ready: 1,
  Urgent: 2,
  Reserved: 3,
  Delayed: 4,
  Buried: 5,
  /** Since when the oldest ready job is ready; Infinity without one. */
  OldestReadyAtMs: 6,
  /** Since when the job that was buried first is buried; Infinity without one. */
  OldestBuriedAtMs: 7,
  BodyBytes: 8,
  Users: 9,
  Watchers: 10,
  Waiters: 11,
  PauseSeconds: 12,
  /** When the pause ends; 0 without one. */
  PauseUntilMs: 13,
  Puts: 14,
  Reserves: 15,
  Deletes: 16,
  Releases: 17,
  Buries: 18,
  Kicks: 19,
  Timeouts: 20,
  Pauses: 21,
} as const;
export const TUBE_FIELDS = 22;
export const TUBE_ROWS_AT = 8;

/** Sums of a shard since its start, and what it has now. */
export interface ShardTotals {
  readonly nowMs: number;
  readonly jobs: { ready: number; urgent: number; reserved: number; delayed: number; buried: number };
  readonly puts: number;
  readonly reserves: number;
  readonly deletes: number;
  readonly releases: number;
  readonly buries: number;
  readonly kicks: number;
  readonly touches: number;
  readonly timeouts: number;
  readonly tubes: number;
  readonly waiting: number;
  /** Jobs in slot 0 of the http thread: see shard/control/leases.ts. */
  readonly leases: number;
  readonly jobsMemoryBytes: number;
  readonly bodiesMemoryBytes: number;
  readonly wait: Distribution;
  readonly hold: Distribution;
  readonly body: Distribution;
}

/** Counts by the bounds below, one more for what is above the last; not summed up. */
export interface Distribution {
  readonly counts: readonly number[];
  readonly sum: number;
}

/** Seconds that jobs wait and are held. */
export const WAIT_BOUNDS_SECONDS = [
  0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 3600, 21600, 86400,
] as const;
/** Bytes of bodies. */
export const BODY_BOUNDS_BYTES = [
  64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864,
] as const;

/** Milliseconds. */
export interface Quantiles {
  readonly count: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

/** Who holds a job: a connection of an acceptor, or nobody that one could name but a lease. */
export type Holder = { readonly port: number; readonly slot: number };

/** All of stats-job, and what that does not tell. */
export interface JobFacts {
  readonly id: number;
  readonly tube: string;
  readonly state: "ready" | "reserved" | "buried" | "delayed";
  readonly pri: number;
  /** Seconds. */
  readonly age: number;
  readonly delay: number;
  readonly ttr: number;
  readonly timeLeft: number;
  readonly reserves: number;
  readonly timeouts: number;
  readonly releases: number;
  readonly buries: number;
  readonly kicks: number;
  /** Seconds since it became ready or was buried; undefined in other states. */
  readonly sinceSeconds: number | undefined;
  readonly holder: Holder | undefined;
  /** Of the log, as stats-job tells it; only of a job that is asked for by itself. */
  readonly file?: number;
  readonly bytes: number;
  /** The beginning of the body. */
  readonly body: Uint8Array | undefined;
}

/** A change of a leased job: done only if the lease still holds, that is if its count of reserves is still this. */
export interface LeaseChange {
  readonly act: "delete" | "release" | "bury" | "touch";
  readonly id: number;
  readonly reserves: number;
  readonly pri?: number | undefined;
  readonly delay?: number | undefined;
}

/** Which jobs are meant; all that is said must hold. Ages are in seconds. */
export interface Where {
  readonly idFrom?: number;
  readonly idTo?: number;
  readonly priFrom?: number;
  readonly priTo?: number;
  readonly ageFrom?: number;
  readonly ageTo?: number;
  readonly reservesFrom?: number;
  readonly timeoutsFrom?: number;
  /** Bytes that are somewhere in the body, 1 to 200. */
  readonly text?: Uint8Array;
}

export type StateName = JobFacts["state"];

export interface BrowseQuestion {
  /** Jobs of all tubes of the shard if it is left out. */
  readonly tube?: string;
  readonly states: readonly StateName[];
  readonly where: Where;
  /** "scan" goes upwards by id; "next" is the order in which jobs of one state of a tube would be handed out. */
  readonly order: "scan" | "next";
  readonly afterId: number;
  readonly limit: number;
  /** Of a body that is shown; negative for none. */
  readonly bodyMax: number;
  /** Of all bodies together: then it rests, or in the order "next" shows no more of them. */
  readonly bodyBytesMax: number;
  /** Jobs that it looks at, at most, before it rests. */
  readonly looksMax: number;
}

/** A part of what is browsed. */
export interface BrowsePart {
  readonly jobs: readonly JobFacts[];
  /** All ids up to this one are done. */
  readonly doneId: number;
  /** Whether all are. */
  readonly hasEnded: boolean;
  readonly examined: number;
}

/** What can be set of a job; a delay is in seconds, and begins now. */
export interface JobSet {
  readonly pri?: number | undefined;
  readonly delay?: number | undefined;
  readonly ttr?: number | undefined;
}

/** What is done to many jobs of a tube. */
export interface BulkQuestion {
  readonly tube: string;
  readonly act: "kick" | "delete" | "move" | "update" | "count";
  /** The tube of a move. */
  readonly to?: string | undefined;
  /** What an update sets. */
  readonly set?: JobSet | undefined;
  readonly states: readonly StateName[];
  readonly where: Where;
  readonly max: number;
}

/** How far it has come. */
export interface BulkPart {
  readonly affected: number;
  readonly examined: number;
  /** 0 to 1. */
  readonly progress: number;
  /** Why it has ended before: the tube that jobs move to, or its shard, takes no more. */
  readonly refusal?: "TUBE_FULL" | "OUT_OF_MEMORY";
}

export interface HeldJob {
  readonly id: number;
  readonly timeLeft: number;
}

/** `[verb, arguments]` of all that can be asked, with the arguments of each. */
export interface Questions {
  ping: undefined;
  totals: undefined;
  latency: undefined;
  tubes: { name?: string | undefined };
  job: { id: number; bodyMax: number };
  leases: { changes: readonly LeaseChange[] };
  /** Leases that nobody will hear of: their jobs are ready again, as if a connection had ended. */
  "give-back": { jobs: readonly { id: number; reserves: number }[] };
  browse: BrowseQuestion;
  bulk: BulkQuestion;
  /** Ends the bulk that was asked for by this number. */
  cancel: { number: number };
  /** "release" ends somebody's reservation as its time to run would. With `force` reserved jobs are deleted, too. */
  "job-act": { id: number; act: "delete" | "kick" | "release" | "move"; force: boolean; to?: string };
  /** What connections of a port hold here, at most 100 jobs each. */
  sessions: { port: number; slots: readonly number[] };
}

export interface Answers {
  ping: true;
  totals: ShardTotals;
  latency: { wait: Quantiles; hold: Quantiles };
  tubes: never;
  job: JobFacts | null;
  /** For each change whether it was done, and until when the lease lasts (touch), ms. */
  leases: readonly boolean[];
  "give-back": number;
  browse: BrowsePart;
  bulk: BulkPart;
  cancel: boolean;
  "job-act": "done" | "not-found" | "reserved" | "state" | "full" | "elsewhere";
  sessions: readonly { held: number; jobs: readonly HeldJob[]; waiting: boolean }[];
}

export type Verb = keyof Questions;
