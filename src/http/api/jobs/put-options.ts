// Options of a put in JSON and in query strings, with the names and units of the API: `uniqueFor`
// is unique-for of put-in-tube.

import { type Static, Type } from "typebox";
import { WEIGHT_MAX } from "../../../protocol/limits.ts";
import { OPTION_VALUE_BYTES_MAX, OPTIONS_BYTES_MAX } from "../../../protocol/option-rows.ts";
import { toMilliseconds } from "../durations.ts";
import { Problem } from "../problem.ts";

const BATCH_NAME = "^[A-Za-z0-9+/;.$_()][-A-Za-z0-9+/;.$_()]*$";

/** Options whose values are sent as text; all others are sent as numbers. */
const TEXTS = ["unique", "group", "meta", "batch", "after", "after-any"];
const NUMBER_BYTES = 8;
const HEAD_BYTES = 2;
const SECONDS_MAX = 2 ** 32 - 1;

const key = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: OPTION_VALUE_BYTES_MAX, description }));
const seconds = (description: string) =>
  Type.Optional(Type.Number({ minimum: 0, maximum: SECONDS_MAX, description }));

export const PRI = 1024;
export const TTR_SECONDS = 60;

/** Priority and times of a job. */
export const jobTimes = {
  pri: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: SECONDS_MAX,
      default: PRI,
      description: "Smaller numbers go first.",
    }),
  ),
  delay: Type.Optional(
    Type.Number({ minimum: 0, maximum: SECONDS_MAX, default: 0, description: "Seconds until it is ready." }),
  ),
  ttr: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: SECONDS_MAX,
      default: TTR_SECONDS,
      description: "Seconds that a worker may hold the job.",
    }),
  ),
};

export const putOptions = {
  unique: key("The tube has at most one job with this key: 1 to 200 bytes without blanks."),
  uniqueFor: seconds("Keeps the key for at least this many seconds, even if the job is done sooner."),
  uniqueUntil: Type.Optional(
    Type.Union([Type.Literal("delete"), Type.Literal("reserve")], {
      description: "When the key becomes free.",
    }),
  ),
  onDuplicate: Type.Optional(
    Type.Enum(["refuse", "keep", "replace", "escalate", "debounce"], {
      description: "What happens to a waiting job that has the key; refuse by default.",
    }),
  ),
  debounceMax: seconds("With debounce: seconds from its own put after which the job is ready at the latest."),
  ttl: seconds("Drops the job once it has waited this many seconds."),
  group: key("Groups of a tube take turns: 1 to 200 bytes without blanks."),
  weight: Type.Optional(
    Type.Integer({ minimum: 1, maximum: WEIGHT_MAX, description: "The share of its group; 1 by default." }),
  ),
};

const batch = (description: string) =>
  Type.Optional(Type.String({ pattern: BATCH_NAME, maxLength: OPTION_VALUE_BYTES_MAX, description }));

/** The batches that a job belongs to and waits for. Jobs of schedules have none. */
export const batchOptions = {
  batch: batch("The open batch that the job belongs to."),
  after: batch("The job waits until this batch has ended, and is buried if a member has failed."),
  afterAny: batch("The job waits until this batch has ended, whether its members succeed or fail."),
};

/** Context of a job, by name. */
export const meta = Type.Optional(
  Type.Record(Type.String({ pattern: "^[-A-Za-z0-9._]+$" }), Type.String(), {
    description: "Context that travels with the job: with the other options, at most 1,020 bytes.",
  }),
);

const Options = Type.Object({ ...putOptions, ...batchOptions, meta });
type Options = Static<typeof Options>;

/**
 * Returns the options of a job as the end of its command line, "" without any. Those that the job
 * leaves out come from the query string.
 */
export function optionsOf(job: Options, query: Options): string {
  const key = keyOptions(job, query);
  const unique = job.unique ?? query.unique;
  if (unique === undefined && key !== "")
    throw new Problem(
      "bad-request",
      '"/uniqueFor", "/uniqueUntil", "/onDuplicate" and "/debounceMax" need a key in "/unique".',
    );
  const ttl = job.ttl ?? query.ttl;
  const group = job.group ?? query.group;
  const weight = job.weight ?? query.weight;
  let text = unique === undefined ? "" : ` unique=${keyText(unique, "unique")}${key}`;
  if (ttl !== undefined) text += ` ttl=${toMilliseconds(ttl, "ttl")}`;
  if (group !== undefined) text += ` group=${keyText(group, "group")}`;
  if (weight !== undefined) text += ` weight=${weight}`;
  text += batchText(job, query);
  if (job.meta === undefined) return text;
  text += metaText(job.meta);
  const bytes = encodedBytes(text);
  if (bytes > OPTIONS_BYTES_MAX)
    throw new Problem(
      "bad-request",
      `"/meta" and the other options must be at most ${OPTIONS_BYTES_MAX} bytes in all, with two more for each, ` +
        `not ${bytes}: put long values into the body.`,
    );
  return text;
}

/** Returns the length that the server counts for options: see protocol/options.ts. */
function encodedBytes(text: string): number {
  let bytes = 0;
  for (const option of text.split(" ").slice(1)) {
    const equals = option.indexOf("=");
    const isText = TEXTS.includes(option.slice(0, equals));
    bytes += HEAD_BYTES + (isText ? option.length - equals - 1 : NUMBER_BYTES);
  }
  return bytes;
}

function batchText(job: Options, query: Options): string {
  const batch = job.batch ?? query.batch;
  const after = job.after ?? query.after;
  const afterAny = job.afterAny ?? query.afterAny;
  if (after !== undefined && afterAny !== undefined)
    throw new Problem("bad-request", 'A job waits for one batch: give either "/after" or "/afterAny".');
  let text = batch === undefined ? "" : ` batch=${batch}`;
  if (after !== undefined) text += ` after=${after}`;
  if (afterAny !== undefined) text += ` after-any=${afterAny}`;
  return text;
}

/** Returns the options about a unique key. */
function keyOptions(job: Options, query: Options): string {
  const uniqueFor = job.uniqueFor ?? query.uniqueFor;
  const uniqueUntil = job.uniqueUntil ?? query.uniqueUntil;
  const onDuplicate = job.onDuplicate ?? query.onDuplicate;
  const debounceMax = job.debounceMax ?? query.debounceMax;
  let text = "";
  if (uniqueFor !== undefined) text += ` unique-for=${toMilliseconds(uniqueFor, "uniqueFor")}`;
  if (uniqueUntil !== undefined) text += ` unique-until=${uniqueUntil}`;
  if (onDuplicate !== undefined) text += ` on-duplicate=${onDuplicate}`;
  if (debounceMax !== undefined) text += ` debounce-max=${toMilliseconds(debounceMax, "debounceMax")}`;
  return text;
}

function metaText(meta: Readonly<Record<string, string>>): string {
  let text = "";
  for (const [name, value] of Object.entries(meta))
    text += ` meta=${keyText(`${name}:${value}`, `meta/${name}`)}`;
  return text;
}

/** Returns a key in the form of a line: UTF-8, with a character for each byte. */
function keyText(key: string, field: string): string {
  const bytes = Buffer.from(key);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they would end the option, or the line
  if (/[\u0000-\u0020\u007f]/.test(key) || bytes.length > OPTION_VALUE_BYTES_MAX || !key.isWellFormed())
    throw new Problem(
      "bad-request",
      `"/${field}" must be 1 to ${OPTION_VALUE_BYTES_MAX} bytes of UTF-8 without blanks and control characters.`,
    );
  return bytes.toString("latin1");
}
