// Options of a put in JSON and in query strings, in the names and units of the API: `uniqueFor` is
// unique-for of put-in-tube.

import { type Static, Type } from "typebox";
import { WEIGHT_MAX } from "../../../protocol/limits.ts";
import { OPTION_VALUE_BYTES_MAX } from "../../../protocol/option-rows.ts";
import { toMilliseconds } from "../durations.ts";
import { Problem } from "../problem.ts";

/** What keys, times and a weight leave of the options of a command. */
const META_BYTES_MAX = 500;
const SECONDS_MAX = 2 ** 32 - 1;

const key = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: OPTION_VALUE_BYTES_MAX, description }));
const seconds = (description: string) =>
  Type.Optional(Type.Number({ minimum: 0, maximum: SECONDS_MAX, description }));

export const putOptions = {
  unique: key("The tube has at most one job with this key: 1 to 200 bytes without blanks."),
  uniqueFor: seconds("Keeps the key for at least this many seconds, even if the job is done sooner."),
  uniqueUntil: Type.Optional(
    Type.Union([Type.Literal("delete"), Type.Literal("reserve")], { description: "When the key is free." }),
  ),
  onDuplicate: Type.Optional(
    Type.Enum(["refuse", "keep", "replace", "escalate", "debounce"], {
      description: "What becomes of a waiting job that has the key; refuse.",
    }),
  ),
  debounceMax: seconds("With debounce: the job is ready so long after its own put at the latest."),
  ttl: seconds("Drops the job once it has waited this many seconds."),
  group: key("Groups of a tube take turns: 1 to 200 bytes without blanks."),
  weight: Type.Optional(
    Type.Integer({ minimum: 1, maximum: WEIGHT_MAX, description: "The share of its group; 1." }),
  ),
};

/** Context of a job, by name. */
export const meta = Type.Optional(
  Type.Record(Type.String({ pattern: "^[-A-Za-z0-9._]+$" }), Type.String(), {
    description: "Context that travels with the job: with the other options 1,020 bytes at most.",
  }),
);

const Options = Type.Object({ ...putOptions, meta });
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
      '"/uniqueFor", "/uniqueUntil", "/onDuplicate" and "/debounceMax" are about the key in "/unique": give it.',
    );
  const ttl = job.ttl ?? query.ttl;
  const group = job.group ?? query.group;
  const weight = job.weight ?? query.weight;
  let text = unique === undefined ? "" : ` unique=${keyText(unique, "unique")}${key}`;
  if (ttl !== undefined) text += ` ttl=${toMilliseconds(ttl, "ttl")}`;
  if (group !== undefined) text += ` group=${keyText(group, "group")}`;
  if (weight !== undefined) text += ` weight=${weight}`;
  return job.meta === undefined ? text : text + metaText(job.meta);
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
  let bytes = 0;
  for (const [name, value] of Object.entries(meta)) {
    const pair = keyText(`${name}:${value}`, `meta/${name}`);
    bytes += pair.length + 2;
    text += ` meta=${pair}`;
  }
  if (bytes > META_BYTES_MAX)
    throw new Problem("bad-request", `"/meta" must be at most ${META_BYTES_MAX} bytes in all, not ${bytes}.`);
  return text;
}

/** Returns a key as UTF-8, of which each character is a byte, as lines are written. */
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
