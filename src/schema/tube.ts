// The figures of a tube: one row each. From the rows follow the row that a shard sends to the HTTP
// thread, the totals of a shard, the fields of the HTTP API with their schemas and orders, metrics,
// histories, and the counts in inspect-tube.
//
// A new counter is a row here, a field of the engine's Tube and one of its ShardState, and the
// place that counts both.

import { eachOf } from "./names.ts";

/** Numbers of jobs. All but `urgent` are states; urgent jobs are among the ready ones. */
export const JOB_COUNTS = ["ready", "urgent", "reserved", "delayed", "buried"] as const;
export const JOB_STATES = ["ready", "reserved", "delayed", "buried"] as const;

/** Ages of the oldest jobs, which shards send as times. */
export const OLDEST = {
  oldestReady: "How long the oldest ready job has been ready.",
  oldestBuried: "How long the oldest buried job has been buried.",
} as const;

/** Other numbers that are shown as they are. */
export const GAUGES = {
  bodyBytes: "Bytes of the bodies of its jobs.",
  users: "Connections that use it.",
  watchers: "Connections that watch it.",
  waiters: "Connections that wait for its jobs.",
} as const;

/** What the policies of a tube did, in the order of inspect-tube, and how the dashboard says it. */
export const POLICY_COUNTS = {
  duplicates: "duplicates refused",
  rejected: "refused by a limit",
  expired: "expired",
  dead: "died",
  cancelled: "cancelled",
  movedIn: "moved in",
  movedOut: "moved out",
} as const;

interface CounterRow {
  /** The field of the engine's Tube, or of its PolicyCounts. */
  readonly tube?: string;
  readonly policy?: string;
  /** The field of the engine's ShardState, which counts all tubes of a shard. */
  readonly shard: string;
  /** The histories that record it. A change needs another VERSION of http/state/history-file.ts. */
  readonly history?: "server" | "all";
  /** One sentence, for metrics and the API. */
  readonly says: string;
}

// biome-ignore format: a table
export const COUNTERS = {
  puts: { tube: "totalJobs", shard: "totalJobs", history: "all", says: "Jobs that were put." },
  reserves: { tube: "reserves", shard: "jobReserves", history: "all", says: "Jobs that clients have reserved." },
  deletes: { tube: "deletes", shard: "jobDeletes", history: "all", says: "Jobs that were deleted." },
  releases: { tube: "releases", shard: "jobReleases", history: "server", says: "Jobs that were released." },
  buries: { tube: "buries", shard: "jobBuries", history: "server", says: "Jobs that were buried." },
  kicks: { tube: "kicks", shard: "jobKicks", history: "server", says: "Jobs that were kicked." },
  timeouts: { tube: "timeouts", shard: "jobTimeouts", history: "all", says: "Reservations that ended because their time to run expired." },
  disconnects: { tube: "disconnects", shard: "jobDisconnects", history: "all", says: "Reservations that ended with the connection of their worker." },
  deaths: { policy: "dead", shard: "jobDeaths", says: "Jobs that died: their attempts were used up, or they expired and were buried." },
  expiries: { policy: "expired", shard: "jobExpiries", says: "Jobs whose time to live expired." },
  cancels: { policy: "cancelled", shard: "jobCancels", says: "Jobs that cancel-job has ended." },
  duplicates: { policy: "duplicates", shard: "putDuplicates", says: "Puts whose unique key another job had." },
  refusals: { policy: "rejected", shard: "putRefusals", says: "Puts that a limit of the tube refused." },
  rateWaits: { policy: "rateWaits", shard: "rateWaits", says: "How often the tube used up its rate, so that jobs had to wait." },
  groupRateWaits: { policy: "groupRateWaits", shard: "groupRateWaits", says: "How often a group of the tube used up its rate, so that its jobs had to wait." },
} as const satisfies Readonly<Record<string, CounterRow>>;

const namesOf = <Name extends string>(rows: Readonly<Record<Name, unknown>>): readonly Name[] =>
  Object.keys(rows) as Name[];

export type TubeCounter = keyof typeof COUNTERS;
export const TUBE_COUNTERS: readonly TubeCounter[] = namesOf(COUNTERS);
export const TUBE_GAUGES: readonly (keyof typeof GAUGES)[] = namesOf(GAUGES);
export const OLDEST_NAMES: readonly (keyof typeof OLDEST)[] = namesOf(OLDEST);

type PolicyCount = keyof typeof POLICY_COUNTS;
export const POLICY_COUNT_NAMES: readonly PolicyCount[] = namesOf(POLICY_COUNTS);
/** The counts of a tube's policies. inspect-tube doesn't have the waits for a rate. */
export type PolicyCounts = Record<PolicyCount | "rateWaits" | "groupRateWaits", number>;
export const NO_COUNTS: Readonly<PolicyCounts> = eachOf(
  [...POLICY_COUNT_NAMES, "rateWaits", "groupRateWaits"],
  () => 0,
);

/** Counters in the history of the server, and in those of tubes, in storage order. */
type Recorded<Histories> = {
  [Name in TubeCounter]: (typeof COUNTERS)[Name] extends { history: Histories } ? Name : never;
}[TubeCounter];
const recorded = <Histories>(...histories: readonly Histories[]): readonly Recorded<Histories>[] =>
  TUBE_COUNTERS.filter((name) => {
    const { history }: CounterRow = COUNTERS[name];
    return histories.some((each) => each === history);
  }) as Recorded<Histories>[];
export const SERVER_HISTORY = recorded("all" as const, "server" as const);
export const TUBE_HISTORY = recorded("all" as const);

/** The columns of the row that a shard sends. Times are in ms of the monotonic clock. */
const COLUMNS = [
  /** Creation order over all shards. It distinguishes two consecutive tubes of the same name. */
  "sequence",
  ...JOB_COUNTS,
  /** When the oldest job of the state came into it; Infinity if there is none. */
  "oldestReadyAtMs",
  "oldestBuriedAtMs",
  ...TUBE_GAUGES,
  /** Both are Infinity while the setting `paused` pauses the tube. */
  "pauseSeconds",
  /** When the pause ends; 0 if there is none. */
  "pauseUntilMs",
  /** 1 if its best ready job is dead: then it is a dead-letter tube. */
  "holdsDead",
  /**
   * The job that lately lost the most workers, 0 if there is none: its id, how often it was
   * reserved, and how often its worker's connection ended.
   */
  "lostJob",
  "lostJobReserves",
  "lostJobDisconnects",
  ...TUBE_COUNTERS,
] as const;
export const TUBE_FIELDS: number = COLUMNS.length;
/** The number of each column. */
export const TubeField = Object.fromEntries(COLUMNS.map((name, at) => [name, at])) as Readonly<
  Record<(typeof COLUMNS)[number], number>
>;
