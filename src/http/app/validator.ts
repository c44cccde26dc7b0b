// Validates requests against their schemas. An error names the first fault and its location.

import type { TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { Errors } from "typebox/value";
import { Problem } from "../api/problem.ts";

/**
 * Returns a validator for a schema. It converts values of query strings, which are text, but not
 * bodies. The schema is compiled at its first use: compiling all of them takes a tenth of the
 * thread's start, and most servers use only a few.
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
    const meant = meantBy(schema, value);
    const crowded = crowdedIn(meant as Shape, value, "");
    if (crowded !== undefined)
      return { error: new Problem("bad-request", `${placeOf(crowded.at)} ${crowded.fault}.`) };
    const errors = [...Errors(meant, value)];
    const [first] = errors;
    const said = first === undefined ? "The request is not valid." : inWords(first, errors, meant, value);
    return { error: new Problem("bad-request", said) };
  };
}

/**
 * Returns the alternative of a union that the client probably meant, so that an error names its
 * fault: the first one whose required fields are all present.
 */
function meantBy(schema: TSchema, value: unknown): TSchema {
  const { anyOf = [] } = schema as { anyOf?: readonly (TSchema & { required?: readonly string[] })[] };
  if (typeof value !== "object" || value === null) return schema;
  return anyOf.find(({ required = [] }) => required.every((key) => Object.hasOwn(value, key))) ?? schema;
}

/** The parts of a schema that say which fields an object may have, and how many items a list. */
interface Shape {
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  readonly additionalProperties?: unknown;
}

/**
 * Finds the first object with a crowd of unknown fields, or list with too many items. The library
 * would examine each, a second for a body of 8 MiB, while other requests wait.
 */
function crowdedIn(shape: Shape, value: unknown, at: string): { at: string; fault: string } | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { properties = {}, items } = shape;
  const isList = Array.isArray(value);
  const fault = isList ? excessOf(shape, value) : crowdOf(shape, value);
  if (fault !== undefined) return { at, fault };
  // No deeper than the schema, however deep the request is.
  if (isList && items === undefined) return undefined;
  for (const key of isList ? value.keys() : Object.keys(properties)) {
    const inner = (value as Readonly<Record<string, unknown>>)[key];
    const found = crowdedIn(isList ? items! : properties[key]!, inner, `${at}/${key}`);
    if (found !== undefined) return found;
  }
  return undefined;
}

const excessOf = ({ maxItems }: Shape, { length }: readonly unknown[]): string | undefined =>
  maxItems === undefined || length <= maxItems ? undefined : `must not have more than ${maxItems} items`;

/** Names some fields of a crowd; undefined for a few. */
function crowdOf({ properties = {}, additionalProperties }: Shape, value: object): string | undefined {
  if (additionalProperties !== false) return undefined;
  const unknown: string[] = [];
  for (const key in value) {
    if (!Object.hasOwn(properties, key)) unknown.push(key);
    if (unknown.length <= UNKNOWN_MAX) continue;
    const some = unknown.filter(({ length }) => length <= GIVEN_SHOWN).slice(0, UNKNOWN_SHOWN);
    return `has many unknown fields${some.length === 0 ? "" : `, such as ${some.join(", ")}`}`;
  }
  return undefined;
}

/**
 * Converts texts of a URL to the numbers and booleans that the schema requires. Other texts stay as
 * they are and are refused: `Value.Convert` would turn "1.5" into 1, and a client might delete the
 * wrong job.
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
/** A number in JSON's form. */
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

const placeOf = (pointer: string): string => (pointer === "" ? "The request" : `"${pointer}"`);

/** Describes an error, with a JSON pointer to its location. */
function inWords(
  { keyword, instancePath, message, params }: ValidationError,
  errors: readonly ValidationError[],
  schema: TSchema,
  value: unknown,
): string {
  const at = placeOf(instancePath);
  if (keyword === "const") {
    const same = errors.filter((each) => each.keyword === keyword && each.instancePath === instancePath);
    const allowed = same.map((each) => (each.params as { allowedValue: unknown }).allowedValue);
    return `${at} must be ${allowed.join(" or ")}.`;
  }
  if (keyword === "enum") {
    const { allowedValues } = params as { allowedValues: readonly unknown[] };
    return `${at} must be ${allowedValues.join(" or ")}${notGiven(instancePath, value)}.`;
  }
  const unknown = (params as { additionalProperties?: readonly string[] }).additionalProperties;
  if (keyword === "additionalProperties" && unknown !== undefined)
    return `${at} has an unknown field: ${unknown.join(", ")}.`;
  const path = instancePath.split("/").slice(1).map(unescapePointer);
  if (keyword === "boolean" || message === "schema is false") {
    const known = fieldsAt(schema, path.slice(0, -1));
    return `${at} is unknown${known.length === 0 ? "" : `; allowed: ${known.join(", ")}`}.`;
  }
  const not = notGiven(instancePath, value);
  return `${at} ${PLAINER[message] ?? message.replace("must be >=", "must be at least").replace("must be <=", "must be at most")}${not}.`;
}

/** Returns ", not " and the value at a location, if an error may repeat it. */
function notGiven(instancePath: string, value: unknown): string {
  const given = valueAt(value, instancePath.split("/").slice(1).map(unescapePointer));
  const isShown = typeof given !== "object" && given !== undefined && !MAY_BE_SECRET.test(instancePath);
  const shown = isShown ? JSON.stringify(given) : "";
  return shown === "" || shown.length > GIVEN_SHOWN ? "" : `, not ${shown}`;
}

const PLAINER: Readonly<Record<string, string>> = {
  "must be integer": "must be a whole number",
  "must be number": "must be a number",
  "must be boolean": "must be true or false",
  "must be object": "must be an object",
  "must be array": "must be a list",
  "must be string": "must be text",
};

/** More unknown fields of an object are a crowd. */
const UNKNOWN_MAX = 32;
/** Number of fields of a crowd that an error names. */
const UNKNOWN_SHOWN = 3;
/** Longest value that an error repeats. */
const GIVEN_SHOWN = 40;
/** Values that no error repeats: a token, and a body that might be one. */
const MAY_BE_SECRET = /^(?:\/token)?$/;

const unescapePointer = (key: string): string => key.replaceAll("~1", "/").replaceAll("~0", "~");

function fieldsAt(schema: TSchema, path: readonly string[]): readonly string[] {
  let here: unknown = schema;
  for (const key of path) {
    const { properties, items } = (here ?? {}) as {
      properties?: Readonly<Record<string, unknown>>;
      items?: unknown;
    };
    here =
      items ?? (properties !== undefined && Object.hasOwn(properties, key) ? properties[key] : undefined);
  }
  return Object.keys((here as { properties?: object } | undefined)?.properties ?? {});
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  let here = value;
  for (const key of path)
    here =
      typeof here === "object" && here !== null && Object.hasOwn(here, key)
        ? (here as Record<string, unknown>)[key]
        : undefined;
  return here;
}
