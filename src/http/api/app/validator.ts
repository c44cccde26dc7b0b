// Whether a request is as its schema says: the first thing that is wrong is told with where it stands.

import type { TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { Problem } from "../problem.ts";

/**
 * Query strings are text, and so converted; bodies are taken as they are. Compiled when it is first used: of all schemas together that takes
 * a tenth of the thread's start, and most servers are asked for a few.
 */
export function validator(
  schema: TSchema,
  converts: boolean,
): (value: unknown) => { value: unknown } | { error: Error } {
  let lazy: ReturnType<typeof Compile> | undefined;
  return (given) => {
    const compiled = (lazy ??= Compile(schema));
    // To convert takes as long as the rest of a put's checks, and most have nothing but text in their address.
    if (compiled.Check(given)) return { value: given };
    const value = converts ? fromText(schema, given) : given;
    if (converts && compiled.Check(value)) return { value };
    const errors = [...compiled.Errors(value)];
    const [first] = errors;
    const said = first === undefined ? "The request is not valid." : inWords(first, errors);
    return { error: new Problem("bad-request", said) };
  };
}

/**
 * An address with its texts as the numbers and booleans that are asked for. A text that is none stays one, and is refused:
 * `Value.Convert` would take "1.5" for 1, and so delete another job than was said.
 */
function fromText(schema: TSchema, given: unknown): unknown {
  const { properties = {} } = schema as { properties?: Readonly<Record<string, { type?: string }>> };
  const entries = Object.entries(given as Readonly<Record<string, unknown>>);
  return Object.fromEntries(
    entries.map(([key, text]) => {
      const type = Object.hasOwn(properties, key) ? properties[key]!.type : undefined;
      if (typeof text !== "string") return [key, text];
      if (type === "boolean") return [key, BOOLEANS.get(text) ?? text];
      const isNumber = (type === "integer" || type === "number") && DECIMAL.test(text);
      return [key, isNumber ? Number(text) : text];
    }),
  );
}

const DECIMAL = /^-?[0-9]+(?:\.[0-9]+)?$/;
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["1", true],
  ["false", false],
  ["0", false],
]);

interface ValidationError {
  readonly keyword: string;
  readonly instancePath: string;
  readonly message: string;
  readonly params: object;
}

/** With a JSON pointer to what is wrong. */
function inWords(
  { keyword, instancePath, message, params }: ValidationError,
  errors: readonly ValidationError[],
): string {
  const at = instancePath === "" ? "The request" : `"${instancePath}"`;
  if (keyword === "const") {
    const same = errors.filter((each) => each.keyword === keyword && each.instancePath === instancePath);
    const allowed = same.map((each) => (each.params as { allowedValue: unknown }).allowedValue);
    return `${at} must be ${allowed.join(" or ")}.`;
  }
  const unknown = (params as { additionalProperties?: readonly string[] }).additionalProperties;
  if (keyword === "additionalProperties" && unknown !== undefined)
    return `${at} has a field that is not known here: ${unknown.join(", ")}.`;
  if (keyword === "boolean" || message === "schema is false") return `${at} is not known here.`;
  return `${at} ${message}.`;
}
