// Validates requests against their schemas. An error names the first fault and its location.

import type { TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { Problem } from "../problem.ts";

/**
 * Returns a validator for a schema. Values of query strings are text, and so converted; bodies are
 * not. The schema is compiled at its first use: compiling all of them takes a tenth of the thread's
 * start, and most servers use only a few.
 */
export function validator(
  schema: TSchema,
  converts: boolean,
): (value: unknown) => { value: unknown } | { error: Error } {
  let lazy: ReturnType<typeof Compile> | undefined;
  return (given) => {
    const compiled = (lazy ??= Compile(schema));
    // A conversion takes as long as the rest of a put's checks, and most URLs need none.
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
 * Converts the texts of a URL to the numbers and booleans that the schema asks for. Other texts
 * stay as they are, and are refused: `Value.Convert` would turn "1.5" into 1, and a client might
 * delete the wrong job.
 */
function fromText(schema: TSchema, given: unknown): unknown {
  const { properties = {} } = schema as { properties?: Readonly<Record<string, { type?: string }>> };
  const entries = Object.entries(given as Readonly<Record<string, unknown>>);
  return Object.fromEntries(
    entries.map(([key, text]) => {
      const type = Object.hasOwn(properties, key) ? properties[key]!.type : undefined;
      if (typeof text !== "string") return [key, text];
      if (type === "boolean") return [key, BOOLEANS.get(text) ?? text];
      const isNumber = type === "number" ? NUMBER.test(text) : type === "integer" && WHOLE.test(text);
      return [key, isNumber ? Number(text) : text];
    }),
  );
}

const WHOLE = /^-?[0-9]+$/;
/** As JSON writes numbers. */
const NUMBER = /^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;
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

/** Describes an error, with a JSON pointer to its location. */
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
