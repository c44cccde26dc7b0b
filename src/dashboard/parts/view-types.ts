// Types of the views that the server sends to the dashboard. A view contains all data of a page and
// is always complete.

/** Part of every view: data for the frame around the page. */
export interface Frame {
  readonly version: string;
  readonly hostname: string;
  /** ok, starting, stopping, draining, disk-full … */
  readonly status: string;
  readonly detail: string;
  /** Whether it accepts commands: not while it starts, follows another server, or stops. */
  readonly serves: boolean;
  /** Seconds since the start. */
  readonly uptime: number;
  /** ISO 8601. */
  readonly at: string;
  /**
   * The first listener of the beanstalkd protocol, such as "127.0.0.1:11300"; null before it is
   * open.
   */
  readonly listener: string | null;
  /** Whether the server is in a group. */
  readonly isInGroup: boolean;
}

export interface JobCounts {
  readonly ready: number;
  readonly reserved: number;
  readonly delayed: number;
  readonly buried: number;
}

export interface TubeTimes {
  /** The period. */
  readonly seconds: number;
  readonly wait: Quantiles;
  readonly hold: Quantiles;
}

/** In seconds; null without a job. */
export interface Quantiles {
  readonly count: number;
  readonly p50: number | null;
  readonly p99: number | null;
}

export interface TubeRow {
  readonly name: string;
  readonly jobs: JobCounts & { readonly urgent: number };
  /** Seconds; null without such a job. */
  readonly oldestReady: number | null;
  readonly oldestBuried: number | null;
  readonly bodyBytes: number;
  readonly users: number;
  readonly watchers: number;
  readonly waiters: number;
  readonly pause: { readonly seconds: number; readonly timeLeft: number } | null;
  /** Its next ready job is dead, so it is a dead-letter tube. */
  readonly holdsDead: boolean;
  /** Times of the last minutes; null if they aren't measured. */
  readonly times: TubeTimes | null;
  readonly rates: Readonly<Record<string, number>>;
  readonly totals: Readonly<Record<string, number>>;
}

export interface Attention {
  /** warn or bad. */
  readonly level: string;
  readonly tube: string | null;
  /** The affected object, if that is neither a tube nor a page: "batch import-7". */
  readonly about?: string;
  /** Address of the page with details. */
  readonly page: string;
  readonly text: string;
  /** Advice; empty if another entry of the same kind gives it. */
  readonly todo: string;
}

export interface LogView {
  readonly bytes: number;
  readonly live: number;
  readonly dead: number;
  /** Free room in files. */
  readonly spare: number;
  readonly amplification: number | null;
  readonly oldestFile: number;
  readonly currentFile: number;
  readonly recordsWritten: number;
  readonly full: boolean;
  readonly syncSeconds: readonly Bucket[];
  readonly waitSeconds: readonly Bucket[];
}

export interface Bucket {
  /** Null for values above the last bound. */
  readonly le: number | null;
  readonly count: number;
}

export interface ThreadRow {
  readonly name: string;
  /** Recent CPU share of a core, 0 to 1. */
  readonly cpu: number;
}

/** Recent load of a thread's rings. */
export interface RingRow {
  readonly name: string;
  /** Per second. */
  readonly turns: number;
  readonly messages: number;
  /**
   * Fill level of the fullest ring at the beginning of a turn, 0 to 1: the recent mean, and the
   * maximum since the start.
   */
  readonly fill: number;
  readonly fillMax: number;
}

export type Rates = Readonly<
  Record<"puts" | "reserves" | "deletes" | "timeouts" | "disconnects" | "buries" | "releases", number>
>;

export interface OverviewView {
  readonly frame: Frame;
  readonly jobs: JobCounts;
  readonly waiting: number;
  readonly connections: number;
  readonly tubes: number;
  readonly oldest: { readonly tube: string; readonly seconds: number } | null;
  readonly rates: Rates;
  readonly attention: readonly Attention[];
  readonly busiest: readonly TubeRow[];
  readonly oldestTubes: readonly TubeRow[];
  readonly log: LogView | null;
  readonly threads: readonly ThreadRow[];
}

export interface TubesView {
  readonly frame: Frame;
  readonly items: readonly TubeRow[];
  readonly total: number;
  readonly matched: number;
  readonly from: number;
}

export interface TubeView {
  readonly frame: Frame;
  /** Null if the tube doesn't exist. */
  readonly tube: TubeRow | null;
}

export interface LogPageView {
  readonly frame: Frame;
  /** Null without a log. */
  readonly log: LogView | null;
}

export interface ServerView {
  readonly frame: Frame;
  readonly server: Readonly<Record<string, unknown>>;
  readonly threads: readonly ThreadRow[];
  readonly rings: readonly RingRow[];
}

export interface MemberRow {
  readonly node: string;
  readonly address: string;
  /** starting, standby, opening, primary. */
  readonly role: string;
  readonly epoch: number;
  readonly batch: number;
  readonly behindMessages: number;
  readonly mayServe: boolean;
  readonly isComplete: boolean;
  readonly isThis: boolean;
  readonly pid: number;
  readonly version: string;
}

export interface GroupView {
  readonly name: string;
  readonly role: string;
  readonly epoch: number;
  readonly mayServe: boolean;
  readonly standbys: number;
  readonly batch: number;
  readonly pendingBatches: number;
  readonly messagesUnderWay: number;
  readonly behindMessages: number;
  readonly appends: number;
  /** Null before the first. */
  readonly appendMeanSeconds: number | null;
  readonly doubts: number;
  readonly ignoredBatches: number;
  readonly freezes: number;
  readonly sharedLog: { readonly bytes: number; readonly limit: number };
  readonly members: readonly MemberRow[];
}

export interface GroupPageView {
  readonly frame: Frame;
  /** Null without a group. */
  readonly group: GroupView | null;
}

/** A body, as the API returns it; with neither field, it may not be seen or isn't loaded yet. */
export interface BodyRow {
  readonly bytes: number;
  readonly body?: string;
  readonly bodyBase64?: string;
  readonly truncated: boolean;
}

/** A job, as the API returns it. */
export interface JobRow extends BodyRow {
  readonly id: number;
  readonly tube: string;
  readonly state: string;
  readonly pri: number;
  readonly age: number;
  readonly timeLeft: number;
  readonly reserves: number;
  readonly timeouts: number;
  readonly disconnects: number;
  readonly attempts: number;
  /** The tube in which it died, and why: attempts or expired. Null for a job that is not dead. */
  readonly origin: string | null;
  readonly death: string | null;
  /** Newest first; in lists only the last one. */
  readonly failures: readonly FailureRow[];
  /** The batches that it belongs to and waits for, and whether any outcome will do. */
  readonly batch: string | null;
  readonly waitsFor: string | null;
  readonly waitsForAny: boolean;
  readonly [field: string]: unknown;
}

export interface FailureRow {
  readonly attempt: number;
  readonly cause: string;
  readonly at: string;
  readonly age: number;
  readonly worker: string | null;
  readonly reason: string | null;
}

export interface JobPageView {
  readonly frame: Frame;
  /** Without its body; null if there is no such job. */
  readonly job: JobRow | null;
}

export interface ConnectionRow {
  readonly id: string;
  /** The name that the client gave itself. */
  readonly name: string | null;
  readonly address: string | null;
  /** Listener that accepted it. */
  readonly listener: string | null;
  readonly age: number;
  /** Seconds since the server last replied to it, or since it was accepted. */
  readonly idle: number;
  readonly uses: string;
  readonly watches: readonly string[];
  readonly watchCount: number;
  readonly producer: boolean;
  readonly worker: boolean;
  readonly waiting: boolean;
  readonly held: number;
  readonly holds: readonly { readonly id: number; readonly timeLeft: number }[];
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Only for a closed connection. */
  readonly closedFor: number | null;
  readonly reason: string | null;
}

export interface ConnectionsView {
  readonly frame: Frame;
  readonly items: readonly ConnectionRow[];
  readonly total: number;
  readonly matched: number;
}

/** A bulk operation. */
export interface TaskRow {
  readonly id: string;
  /** kick, delete, move, copy, update, count. */
  readonly act: string;
  readonly tube: string;
  readonly state: "running" | "done" | "cancelled" | "failed";
  /** Reason of a failure. */
  readonly fault: string | null;
  readonly affected: number;
  readonly examined: number;
  /** 0 to 1. */
  readonly progress: number;
  /** ISO 8601. */
  readonly startedAt: string;
  readonly endedAt: string | null;
}

/** A manual change. */
export interface ChangeRow {
  /** ISO 8601. */
  readonly at: string;
  /** Null without tokens. */
  readonly who: string | null;
  /** Null for a unix socket. */
  readonly address: string | null;
  readonly method: string;
  readonly route: string;
  readonly what: Readonly<Record<string, string>>;
  readonly affected: number | null;
  readonly status: number;
}

export interface TasksView {
  readonly frame: Frame;
  readonly tasks: readonly TaskRow[];
  /** Only with the permission to administer. */
  readonly changes?: { readonly items: readonly ChangeRow[]; readonly total: number };
}

/** The view of pages that fetch all their data themselves. */
export interface FrameView {
  readonly frame: Frame;
}

/** A schedule, as the API lists it. */
export interface ScheduleRow {
  readonly name: string;
  readonly tube: string;
  readonly cron: string | null;
  /** Seconds. */
  readonly every: number | null;
  readonly tz: string;
  readonly paused: boolean;
  /** ISO 8601. */
  readonly next: string | null;
  readonly last: string | null;
  readonly fired: number;
  readonly missedTicks: number;
  readonly refusals: number;
}

/** A schedule, as the API returns it alone. */
export interface ScheduleView extends ScheduleRow, BodyRow {
  /** once, all, none. */
  readonly missed: string;
  /** ISO 8601. */
  readonly nextRuns: readonly string[];
  readonly runs: number;
  readonly duplicates: number;
  readonly lastRefusal: string | null;
  readonly pri: number;
  /** Seconds; a `ttl` of 0 is none. */
  readonly delay: number;
  readonly ttr: number;
  readonly ttl: number;
  readonly group: string | null;
  readonly weight: number;
  readonly meta: Readonly<Record<string, string>>;
}

/** A batch, as the API lists it with its counts. */
export interface BatchRow {
  readonly name: string;
  readonly number: number;
  readonly state: "open" | "committed" | "cancelled" | "complete";
  readonly outcome: "success" | "failure" | "cancelled" | null;
  readonly members: number;
  readonly open: number;
  readonly done: number;
  readonly failed: number;
  readonly buried: number;
  readonly waiting: number;
  /** Seconds. */
  readonly age: number;
  /** Null until it is complete. */
  readonly forgetsIn: number | null;
}

/** A page of a list of the API. */
export interface ListPage<Row> {
  readonly items: readonly Row[];
  readonly cursor: string | null;
}

export interface JobsPage {
  readonly items: readonly JobRow[];
  readonly cursor: string | null;
  readonly examined: number;
}

/** A problem instead of the requested data. */
export interface Refused {
  readonly status: number;
  readonly detail: string;
}
