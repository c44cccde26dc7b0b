// Schemas of requests and responses, the source of validation, types and the OpenAPI document.

import { type TSchema, Type } from "typebox";
import { eachJobCounter, JOB_COUNTER_ROWS } from "../../schema/job.ts";

const strict = { additionalProperties: false } as const;

/** Schema of an object without unknown fields. */
export const Fields = <Properties extends Record<string, TSchema>>(
  properties: Properties,
  description?: string,
) => Type.Object(properties, description === undefined ? strict : { ...strict, description });

const count = Type.Integer({ minimum: 0 });
const seconds = (description: string) => Type.Number({ minimum: 0, description });

const Jobs = Fields({ ready: count, urgent: count, reserved: count, delayed: count, buried: count });

export const Counters = Fields({
  puts: Type.Number(),
  reserves: Type.Number(),
  deletes: Type.Number(),
  releases: Type.Number(),
  buries: Type.Number(),
  kicks: Type.Number(),
  timeouts: Type.Number(),
  disconnects: Type.Number({ description: "Reservations that ended with the connection of their worker." }),
  deaths: Type.Number({ description: "Jobs that died: out of attempts, or expired and buried." }),
  expiries: Type.Number({ description: "Jobs whose time to live expired." }),
  duplicates: Type.Number({ description: "Puts whose unique key another job had." }),
  refusals: Type.Number({ description: "Puts that a limit of the tube refused." }),
  rateWaits: Type.Number({ description: "How often the tube used up its rate." }),
});

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
  oldestReady: Type.Union([seconds("How long the oldest ready job has been ready."), Type.Null()]),
  oldestBuried: Type.Union([seconds("How long the oldest buried job has been buried."), Type.Null()]),
  bodyBytes: count,
  users: count,
  watchers: count,
  waiters: count,
  pause: Type.Union([
    Fields({ seconds: count, timeLeft: seconds("Seconds until the pause ends.") }),
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
  duplicates: count,
  rejected: count,
  expired: count,
  dead: count,
  movedIn: count,
  movedOut: count,
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
  batch: Type.Union([Type.String({ description: "The batch that it belongs to." }), Type.Null()]),
  waitsFor: Type.Union([Type.String({ description: "The batch that it waits for." }), Type.Null()]),
  waitsForAny: Type.Boolean({ description: "Whether it waits for any outcome of that batch." }),
  bytes: count,
  body: Type.Optional(Type.String({ description: "The body if it is UTF-8; bytes in MessagePack." })),
  bodyBase64: Type.Optional(Type.String({ description: "The body if it is not UTF-8." })),
  truncated: Type.Boolean({ description: "Whether the body is longer than the part shown." }),
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
