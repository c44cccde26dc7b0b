// Options of a put in JSON and in query strings, in the names and units of the API: `uniqueFor` is
// unique-for of put-in-tube.

import { type Static, Type } from "typebox";
import { WEIGHT_MAX } from "../../../protocol/limits.ts";
import { OPTION_VALUE_BYTES_MAX } from "../../../protocol/option-rows.ts";
import { toMilliseconds } from "../durations.ts";
import { Problem } from "../problem.ts";

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
  ttl: seconds("Drops the job once it has waited this many seconds."),
  group: key("Groups of a tube take turns: 1 to 200 bytes without blanks."),
  weight: Type.Optional(
    Type.Integer({ minimum: 1, maximum: WEIGHT_MAX, description: "The share of its group; 1." }),
  ),
};

const Options = Type.Object(putOptions);
type Options = Static<typeof Options>;

/**
 * Returns the options of a job as the end of its command line, "" without any. Those that the job
 * leaves out come from the query string.
 */
export function optionsOf(job: Options, query: Options): string {
  const unique = job.unique ?? query.unique;
  const uniqueFor = job.uniqueFor ?? query.uniqueFor;
  const uniqueUntil = job.uniqueUntil ?? query.uniqueUntil;
  const ttl = job.ttl ?? query.ttl;
  const group = job.group ?? query.group;
  const weight = job.weight ?? query.weight;
  let text = "";
  if (unique !== undefined) text += ` unique=${keyText(unique, "unique")}`;
  if (uniqueFor !== undefined) text += ` unique-for=${toMilliseconds(uniqueFor, "uniqueFor")}`;
  if (uniqueUntil !== undefined) text += ` unique-until=${uniqueUntil}`;
  if (unique === undefined && text !== "")
    throw new Problem(
      "bad-request",
      '"/uniqueFor" and "/uniqueUntil" are about the key in "/unique": give it.',
    );
  if (ttl !== undefined) text += ` ttl=${toMilliseconds(ttl, "ttl")}`;
  if (group !== undefined) text += ` group=${keyText(group, "group")}`;
  if (weight !== undefined) text += ` weight=${weight}`;
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
