// Schemas of requests and responses, the source of validation, types and the OpenAPI document.

import { type TSchema, Type } from "typebox";
import { MISSED_WORDS, OVERLAP_WORDS } from "../../protocol/schedule-options.ts";
import { eachJobCounter, JOB_COUNTER_ROWS } from "../../schema/job.ts";
import { eachOf } from "../../schema/names.ts";
import {
  eachScheduleCounter,
  LISTED_COUNTERS,
  SCHEDULE_COUNTER_ROWS,
  type ScheduleCounter,
} from "../../schema/schedule.ts";
import {
  COUNTERS,
  GAUGES,
  JOB_COUNTS,
  JOB_STATES,
  OLDEST,
  OLDEST_NAMES,
  POLICY_COUNT_NAMES,
  TUBE_COUNTERS,
  TUBE_GAUGES,
  type TubeCounter,
} from "../../schema/tube.ts";

const strict = { additionalProperties: false } as const;

/** Schema of an object without unknown fields. */
export const Fields = <Properties extends Record<string, TSchema>>(
  properties: Properties,
  description?: string,
) => Type.Object(properties, description === undefined ? strict : { ...strict, description });

const count = Type.Integer({ minimum: 0 });
const seconds = (description: string) => Type.Number({ minimum: 0, description });

const Jobs = Fields(eachOf(JOB_COUNTS, () => count));

export const Counters = Fields(
  eachOf(TUBE_COUNTERS, (name) => Type.Number({ description: COUNTERS[name].says })),
);

const orNone = <Value extends TSchema>(type: Value) => Type.Union([type, Type.Null()]);
const orNull = (description: string) => Type.Union([seconds(description), Type.Null()]);

/** Seconds; null without such a job. */
const Times = Fields({
  count,
  p50: orNull("The median."),
  p99: orNull("The 99th percentile."),
});

export const Tube = Fields({
  name: Type.String(),
  jobs: Jobs,
  ...eachOf(OLDEST_NAMES, (name) => Type.Union([seconds(OLDEST[name]), Type.Null()])),
  ...eachOf(TUBE_GAUGES, (name) => Type.Integer({ minimum: 0, description: GAUGES[name] })),
  pause: Type.Union([
    Fields({
      seconds: Type.Union([count, Type.Null()]),
      timeLeft: Type.Union([
        seconds("Until the pause ends; null for one by the setting `paused`."),
        Type.Null(),
      ]),
    }),
    Type.Null(),
  ]),
  holdsDead: Type.Boolean({ description: "Whether its next ready job is dead: a dead-letter tube." }),
  times: Type.Union([
    Fields({ seconds: seconds("The period that they cover."), wait: Times, hold: Times }),
    Type.Null(),
  ]),
  totals: Counters,
  rates: Counters,
});

/** Facts about a tube beyond its counts, as inspect-tube reports them. */
export const TubeDetails = Fields({
  groups: count,
  groupsBlocked: count,
  ...eachOf(POLICY_COUNT_NAMES, () => count),
  tokens: Type.Optional(count),
});

export const TubeParams = Type.Object({
  tube: Type.String({ description: "A tube, or - for the one in ?tube=." }),
});

/** Any name, even `.` and `..`, which a path can't contain: `/v1/tubes/-?tube=..`. */
export const tubeQuery = {
  tube: Type.Optional(Type.String({ description: "The tube if the path has -." })),
};

export const JobState = Type.Union([
  Type.Literal("ready"),
  Type.Literal("reserved"),
  Type.Literal("delayed"),
  Type.Literal("buried"),
]);

const Failure = Fields({
  attempt: Type.Integer({ minimum: 0, description: "The attempt that failed, from 1; 0 for none." }),
  cause: Type.String({ description: "released, buried, timed-out, disconnected or expired." }),
  at: Type.String({ description: "ISO 8601." }),
  age: seconds("Since then."),
  worker: Type.Union([Type.String({ description: "The worker's name or address." }), Type.Null()]),
  reason: Type.Union([Type.String({ description: "The worker's reason." }), Type.Null()]),
});

/** The end of a job, which its tube keeps. */
export const Finished = Fields({
  id: count,
  tube: Type.String(),
  state: Type.Enum(["deleted", "dead", "expired", "cancelled"]),
  put: Type.String({ description: "When it was put; ISO 8601, like the other two." }),
  start: Type.Union([
    Type.String({ description: "When its last reservation began, if there was one and it is known." }),
    Type.Null(),
  ]),
  end: Type.String({ description: "When it ended." }),
  attempts: Type.Integer({ minimum: 0, description: "Reservations that count for max-attempts." }),
  worker: Type.Union([Type.String({ description: "The worker that held it at the end." }), Type.Null()]),
  unique: Type.Union([Type.String(), Type.Null()]),
  group: Type.Union([Type.String(), Type.Null()]),
  note: Type.Union([Type.String({ description: "The last note of its worker." }), Type.Null()]),
  reason: Type.Union([
    Type.String({ description: "Why it was cancelled, or its last attempt failed." }),
    Type.Null(),
  ]),
});

export const Job = Fields({
  id: count,
  tube: Type.String(),
  state: JobState,
  pri: count,
  age: seconds("Seconds since the put."),
  delay: count,
  ttr: count,
  timeLeft: seconds("Seconds until it is ready, or its reservation ends."),
  file: Type.Optional(count),
  ...eachJobCounter((name) => Type.Integer({ minimum: 0, description: JOB_COUNTER_ROWS[name].says })),
  attempts: Type.Integer({ minimum: 0, description: "Reservations that count for max-attempts." }),
  origin: Type.Union([Type.String({ description: "The tube in which it died." }), Type.Null()]),
  death: Type.Union([Type.String({ description: "Why it died: attempts or expired." }), Type.Null()]),
  failures: Type.Array(Failure, {
    description: "The last five, newest first; in lists only the last, with a short reason.",
  }),
  readySince: Type.Union([seconds("How long it has been ready."), Type.Null()]),
  buriedSince: Type.Union([seconds("How long it has been buried."), Type.Null()]),
  holder: Type.Union([Type.String({ description: 'A connection, or "lease".' }), Type.Null()]),
  worker: Type.Union([Type.String({ description: "The holder's name or address." }), Type.Null()]),
  expiresIn: Type.Union([seconds("Seconds until it expires, if it has a ttl."), Type.Null()]),
  meta: Type.Record(Type.String(), Type.String(), { description: "Context from the put." }),
  unique: Type.Union([Type.String({ description: "The key from the put." }), Type.Null()]),
  group: Type.Union([Type.String(), Type.Null()]),
  weight: Type.Integer({ description: "Weight of its group; 1 by default." }),
  cost: Type.Integer({ description: "As how many jobs it counts for limits and shares; 1 by default." }),
  progress: Type.Union([
    Type.Integer({ minimum: 0, maximum: 100, description: "Percent, as its worker reported." }),
    Type.Null(),
  ]),
  note: Type.Union([Type.String({ description: "The note of its worker." }), Type.Null()]),
  cancelled: Type.Union([
    Type.String({
      description: "Why it was cancelled, or an empty string: the end of its reservation removes it.",
    }),
    Type.Null(),
  ]),
  batch: Type.Union([Type.String({ description: "The batch that it belongs to." }), Type.Null()]),
  waitsFor: Type.Union([Type.String({ description: "The batch that it waits for." }), Type.Null()]),
  waitsForAny: Type.Boolean({ description: "Whether it waits for any outcome of that batch." }),
  bytes: count,
  body: Type.Optional(Type.String({ description: "The body if it is UTF-8; bytes in MessagePack." })),
  bodyBase64: Type.Optional(Type.String({ description: "The body if it is not UTF-8." })),
  truncated: Type.Boolean({ description: "Whether the body is longer than the part shown." }),
});

export const Connection = Fields({
  id: Type.String({ description: "acceptor.connection.serial; jobs name their holder by the first two." }),
  name: Type.Union([Type.String(), Type.Null()], { description: "The name that the client gave itself." }),
  address: Type.Union([Type.String(), Type.Null()]),
  listener: Type.Union([Type.String(), Type.Null()], {
    description: "The listener that accepted it, as /v1/server names it.",
  }),
  age: Type.Number({ description: "Seconds since it was accepted; for a closed one, until it closed." }),
  idle: Type.Number({
    description:
      "Seconds since the client last sent something, or connected; for a closed one, until it closed.",
  }),
  closedFor: Type.Union([Type.Number(), Type.Null()], { description: "Seconds since it closed." }),
  reason: Type.Union([Type.String(), Type.Null()], {
    description: "Why it closed: client, quit, idle, admin, error, stop, auth.",
  }),
  uses: Type.String(),
  watches: Type.Array(Type.String(), { description: "The first 20." }),
  watchCount: Type.Integer(),
  producer: Type.Boolean(),
  worker: Type.Boolean(),
  waiting: Type.Boolean(),
  held: Type.Integer(),
  holds: Type.Array(Fields({ id: Type.Integer(), timeLeft: Type.Number() }), {
    description: "The first 100 of each shard.",
  }),
  bytesIn: Type.Integer({ description: "Received bytes that were not processed yet." }),
  bytesOut: Type.Integer({ description: "Bytes of replies that were not sent yet." }),
});

export const TaskBody = Fields({
  id: Type.String(),
  act: Type.String(),
  tube: Type.String(),
  state: Type.Union([
    Type.Literal("running"),
    Type.Literal("done"),
    Type.Literal("cancelled"),
    Type.Literal("failed"),
  ]),
  fault: Type.Union([Type.String(), Type.Null()], { description: "Why it failed." }),
  affected: Type.Integer(),
  examined: Type.Integer(),
  progress: Type.Number({ description: "0 to 1." }),
  startedAt: Type.String(),
  endedAt: Type.Union([Type.String(), Type.Null()]),
});

/** A manual change. */
export const Change = Fields({
  at: Type.String({ description: "ISO 8601" }),
  who: orNone(Type.String()),
  address: orNone(Type.String()),
  way: Type.Enum(["protocol", "http", "dashboard"]),
  method: Type.String({ description: "Or the command, for a change over the protocol." }),
  route: Type.String({ description: "Empty for a command." }),
  what: Type.Record(Type.String(), Type.String()),
  before: orNone(
    Type.Record(Type.String(), Type.String(), {
      description: "Values that it replaced, for settings of tubes.",
    }),
  ),
  affected: orNone(Type.Integer()),
  status: Type.Integer(),
});

const RoleName = Type.Enum(["starting", "standby", "opening", "primary"], {
  description: "opening: it has the lead and loads its jobs.",
});

const Member = Fields({
  node: Type.String({ description: "8 hex digits, drawn when its directory was created." }),
  address: Type.String({ description: "What --replicate-as says." }),
  role: RoleName,
  epoch: count,
  batch: Type.Integer({ minimum: 0, description: "The last batch in its log." }),
  behindMessages: count,
  mayServe: Type.Boolean(),
  isComplete: Type.Boolean({ description: "Its log is complete, so it may take the lead." }),
  isThis: Type.Boolean(),
  pid: count,
  version: Type.String(),
});

export const Group = Fields({
  name: Type.String(),
  role: RoleName,
  epoch: count,
  mayServe: Type.Boolean({ description: "It has the lead and the shared log answers." }),
  standbys: Type.Integer({ minimum: 0, description: "All standbys that answer, including this one." }),
  batch: count,
  pendingBatches: Type.Integer({
    minimum: 0,
    description: "Batches that the shared log has not acknowledged.",
  }),
  messagesUnderWay: count,
  behindMessages: Type.Integer({ minimum: 0, description: "Messages that a standby has not read yet." }),
  appends: count,
  appendMeanSeconds: Type.Union([Type.Number(), Type.Null()]),
  doubts: Type.Integer({ minimum: 0, description: "How often it had to read whether a message was stored." }),
  ignoredBatches: count,
  freezes: Type.Integer({ minimum: 0, description: "How often the shared log did not answer in time." }),
  sharedLog: Fields({ bytes: count, limit: Type.Integer({ minimum: 0, description: "0: none." }) }),
  members: Type.Array(Member, { description: "Servers that answered within the last seconds." }),
});

const time = (description: string) =>
  Type.Union([Type.String({ description: `${description} ISO 8601.` }), Type.Null()]);

const scheduleCount = (name: ScheduleCounter) =>
  Type.Integer({ minimum: 0, description: SCHEDULE_COUNTER_ROWS[name].says });
const scheduleFields = {
  name: Type.String(),
  tube: Type.String(),
  cron: Type.Union([Type.String(), Type.Null()]),
  every: Type.Union([Type.Number({ description: "Seconds." }), Type.Null()]),
  tz: Type.String({ description: "The time zone of cron." }),
  missed: Type.Enum([...MISSED_WORDS], {
    description: "What happens to ticks while the server is down or refuses the job.",
  }),
  overlap: Type.Enum([...OVERLAP_WORDS], {
    description: "skip: a tick puts no job while an earlier job of the schedule exists.",
  }),
  paused: Type.Boolean(),
  next: time("The next tick."),
  last: time("The last tick that put a job."),
  ...eachOf(LISTED_COUNTERS, scheduleCount),
  bytes: count,
};
export const ListedSchedule = Fields(scheduleFields);
export const Schedule = Fields({
  ...scheduleFields,
  nextRuns: Type.Array(Type.String(), { description: "The next five ticks." }),
  ...eachScheduleCounter(scheduleCount),
  lastRefusal: Type.Union([Type.String(), Type.Null()]),
  pri: count,
  delay: Type.Number(),
  ttr: count,
  ttl: Type.Number({ description: "Seconds; 0 for none." }),
  group: Type.Union([Type.String(), Type.Null()]),
  weight: count,
  meta: Type.Record(Type.String(), Type.String()),
  body: Type.Optional(Type.String({ description: "The first 4,096 bytes." })),
  bodyBase64: Type.Optional(Type.String({ description: "The same if the bytes are not UTF-8." })),
  truncated: Type.Boolean({ description: "Whether the body is longer than the part shown." }),
});

const counted = (description: string) => Type.Integer({ minimum: 0, description });

export const batchFields = {
  name: Type.String(),
  number: counted("Unique forever, unlike the name."),
  state: Type.Enum(["open", "committed", "cancelled", "complete"]),
  outcome: orNone(Type.Enum(["success", "failure", "cancelled"])),
};
const batchCounts = {
  members: counted("open, done and failed together."),
  open: counted("Members that have not ended."),
  done: counted("Members that their workers have deleted."),
  failed: counted("Members that ended in any other way."),
  buried: counted("Open members that are buried."),
  waiting: counted("Jobs that wait for the batch."),
  keep: Type.Number({ description: "Seconds for which the server remembers it once it is complete." }),
  age: Type.Number({ description: "Seconds since it was opened." }),
  forgetsIn: Type.Union([
    Type.Number({ description: "Seconds until a complete batch is forgotten." }),
    Type.Null(),
  ]),
};
export const Batch = Fields({ ...batchFields, ...batchCounts });
export const ListedBatch = Fields({ ...batchFields, ...Type.Partial(Type.Object(batchCounts)).properties });

/** Counters of the server that have rates. */
export const RATED = [
  "puts",
  "reserves",
  "deletes",
  "timeouts",
  "disconnects",
  "buries",
  "releases",
] as const satisfies readonly TubeCounter[];

export const Server = Fields({
  name: Type.String(),
  version: Type.String(),
  node: Type.String(),
  id: Type.String(),
  hostname: Type.String(),
  pid: count,
  startedAt: Type.String({ description: "ISO 8601." }),
  uptime: seconds("Since the start."),
  status: Type.String({ description: "ok, starting, standby, frozen or stopping." }),
  replayed: Type.Number({ description: "Progress of the replay, 0 to 1." }),
  readyForPuts: Type.Boolean(),
  draining: Type.Boolean(),
  listeners: Type.Array(Type.String()),
  ports: Type.Array(
    Fields({
      address: Type.String(),
      protocol: Type.Enum(["beanstalkd", "http"]),
      tls: Type.Boolean(),
      auth: Type.Enum(["none", "token", "certificate"], { description: "What a client must show." }),
    }),
  ),
  transport: Type.String(),
  shards: count,
  acceptors: count,
  maxJobSize: count,
  options: Type.Record(Type.String(), Type.Unknown()),
  memory: Fields({
    resident: count,
    jobs: count,
    bodies: count,
    rings: count,
    httpHeap: count,
    used: Type.Integer({ minimum: 0, description: "What counts for max-memory." }),
    limit: orNone(count),
    full: Type.Boolean(),
  }),
  jobs: Fields(eachOf(JOB_STATES, () => count)),
  waiting: Type.Integer({ minimum: 0, description: "Connections that wait for a job." }),
  connections: count,
  tubes: count,
  rates: Type.Object(
    eachOf(RATED, () => Type.Number()),
    {
      description: "Per second, over the last five.",
    },
  ),
});
const Buckets = Type.Array(
  Fields({
    le: Type.Union([Type.Number(), Type.Null()], { description: "Null above the last bound." }),
    count,
  }),
);

/** The walk over the log in the background, which looks for damage. */
export const ScrubView = Fields({
  paused: Type.Boolean(),
  left: Type.Integer({ minimum: 0, description: "Files that a requested walk has yet to read." }),
  files: count,
  bytes: count,
  walks: count,
  walkedAt: orNone(Type.String({ description: "The end of the last complete walk." })),
  found: Type.Integer({ minimum: 0, description: "Damaged places found since the start." }),
  damaged: Type.Integer({ minimum: 0, description: "Those that are still on the disk." }),
  failure: Type.String({ description: "Why the last read failed; empty if it didn't." }),
  places: Type.Array(
    Fields({
      file: Type.String(),
      offset: count,
      bytes: count,
      jobs: Type.Array(Type.Integer()),
      reason: Type.String(),
      foundAt: Type.String(),
      repairedAt: orNone(Type.String()),
    }),
  ),
});

export const Log = Fields({
  bytes: count,
  live: count,
  spare: Type.Integer({ minimum: 0, description: "Free room in files." }),
  dead: count,
  amplification: orNone(Type.Number()),
  oldestFile: count,
  currentFile: count,
  recordsWritten: count,
  recordsMigrated: count,
  bytesWritten: count,
  unsynced: seconds("Age of the oldest change that is not synced."),
  compacts: Type.Boolean(),
  full: Type.Boolean(),
  ended: Type.Boolean(),
  backup: Fields({ underWay: Type.Boolean(), kept: count }),
  scrub: ScrubView,
  syncSeconds: Buckets,
  waitSeconds: Buckets,
  batchRecords: Buckets,
});

/** Recent load. Each row is of one thread. */
export const Load = {
  load: Type.Array(
    Fields({ name: Type.String(), cpu: Type.Number({ description: "Share of a core, 0 to 1." }) }),
  ),
  rings: Type.Array(
    Fields({
      name: Type.String(),
      turns: seconds("Per second."),
      messages: seconds("Per second."),
      fill: Type.Number({ description: "Of its fullest ring at the beginning of a turn, 0 to 1: the mean." }),
      fillMax: Type.Number({ description: "The maximum since the start." }),
    }),
  ),
};

export const Attention = Fields({
  level: Type.Enum(["bad", "warn"]),
  tube: orNone(Type.String()),
  about: Type.Optional(
    Type.String({ description: 'What it is about, if not one tube: "batch import-7", "3 more tubes".' }),
  ),
  page: Type.String({ description: "Address of the dashboard's page with details." }),
  text: Type.String(),
  todo: Type.String({ description: "Advice." }),
});

const Check = Fields({
  ok: Type.Boolean(),
  status: Type.String(),
  detail: Type.String(),
});

export const Health = Fields({
  ok: Type.Boolean(),
  checks: Fields({
    live: Check,
    ready: Check,
    puts: Check,
    log: Check,
    certificates: Check,
    memory: Check,
    draining: Check,
  }),
  version: Type.String(),
  hostname: Type.String(),
  listeners: Type.Array(Type.String()),
  inGroup: Type.Boolean({ description: "Whether the server was started with --replicate." }),
});

export const JobParams = Type.Object({ id: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }) });

export const Quantiles = Fields({
  count,
  p50: Type.Number(),
  p90: Type.Number(),
  p99: Type.Number(),
  p999: Type.Number(),
  max: Type.Number(),
});

export const ProblemBody = Type.Object({
  type: Type.String(),
  title: Type.String(),
  status: Type.Integer(),
  detail: Type.String(),
  code: Type.String(),
  instance: Type.String(),
});

/** An object with unknown fields. */
export const Anything = Type.Object({}, { additionalProperties: true });
