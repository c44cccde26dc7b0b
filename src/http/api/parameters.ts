// Durations in requests: seconds, to the millisecond.

import { type Static, Type } from "typebox";
import type { Where } from "../../message/control.ts";
import { Problem } from "./problem.ts";
import { Fields, JobState } from "./schemas.ts";

/** Rounds seconds to milliseconds. Rounded to 0, a duration would silently mean none. */
export function toMilliseconds(seconds: number, field: string): number {
  if (seconds > 0 && seconds < 0.001)
    throw new Problem("bad-request", `"/${field}" must be 0 or at least 0.001, not ${seconds}.`);
  return Number(seconds.toFixed(3));
}

// Opaque cursors that mark where a list continues.

export function encodeCursor(values: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(values)).toString("base64url");
}

/**
 * Returns the values of a cursor. Throws a Problem unless they have these types and all numbers are
 * non-negative safe integers.
 */
export function decodeCursor(cursor: string, types: readonly ("string" | "number")[]): (string | number)[] {
  let values: unknown;
  try {
    values = JSON.parse(Buffer.from(cursor, "base64url").toString());
  } catch {
    values = undefined;
  }
  if (
    !Array.isArray(values) ||
    values.length !== types.length ||
    values.some((value, at) => typeof value !== types[at] || (typeof value === "number" && !isPlace(value)))
  )
    throw new Problem("bad-cursor", "Start the list again, without a cursor.");
  return values as (string | number)[];
}

const isPlace = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;

// The parameter `fields`: a client that needs only some fields of a long answer names them.

export const fieldsQuery = {
  fields: Type.Optional(Type.String({ description: "Some of its fields, separated by commas." })),
};

/** Returns these fields of a view, or all of them. `what` names the thing: "A tube". */
export function chosen<View extends object>(
  view: View,
  fields: string | undefined,
  what: string,
): Partial<View> {
  if (fields === undefined) return view;
  return Object.fromEntries(
    fields.split(",").map((field) => {
      if (!Object.hasOwn(view, field)) throw new Problem("bad-request", `${what} has no field "${field}".`);
      return [field, view[field as keyof View]];
    }),
  ) as Partial<View>;
}

// Job filters, as requests give them in a body or a query string.

const TEXT_BYTES_MAX = 200;
const id = Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }));
const number = Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 32 - 1 }));
const seconds = Type.Optional(Type.Number({ minimum: 0, description: "Seconds since the put." }));

export const whereFields = {
  idFrom: id,
  idTo: id,
  priFrom: number,
  priTo: number,
  ageFrom: seconds,
  ageTo: seconds,
  reservesFrom: number,
  timeoutsFrom: number,
  disconnectsFrom: number,
  dead: Type.Optional(
    Type.Boolean({ description: "True for jobs that have no attempts left or have expired." }),
  ),
  group: Type.Optional(Type.String({ minLength: 1, maxLength: TEXT_BYTES_MAX, description: "Its group." })),
  unique: Type.Optional(
    Type.String({ minLength: 1, maxLength: TEXT_BYTES_MAX, description: "Its unique key." }),
  ),
  batch: Type.Optional(
    Type.String({ minLength: 1, maxLength: TEXT_BYTES_MAX, description: "The batch that it belongs to." }),
  ),
  waitsFor: Type.Optional(
    Type.String({ minLength: 1, maxLength: TEXT_BYTES_MAX, description: "The batch that it waits for." }),
  ),
  ofBatch: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: TEXT_BYTES_MAX,
      description: "The batch that it belongs to or waits for.",
    }),
  ),
  text: Type.Optional(
    Type.String({ minLength: 1, maxLength: TEXT_BYTES_MAX, description: "Text anywhere in the body." }),
  ),
  textBase64: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 2 * TEXT_BYTES_MAX,
      description: "The same, as bytes in base64.",
    }),
  ),
};

export const WhereBody = Fields(whereFields, "A job must match all of them.");
export const States = Type.Array(JobState, { minItems: 1, maxItems: 4 });

const PLAIN = [
  ...["idFrom", "idTo", "priFrom", "priTo", "ageFrom", "ageTo", "reservesFrom", "timeoutsFrom"],
  ...["disconnectsFrom", "dead", "batch", "waitsFor", "ofBatch"],
] as const as readonly (keyof Static<typeof WhereBody>)[];

/** Converts a filter to the form that shards understand. */
export function whereOf(given: Static<typeof WhereBody>): Where {
  const plain = PLAIN.filter((key) => given[key] !== undefined).map((key) => [key, given[key]]);
  const { text, textBase64 } = given;
  if (text !== undefined && textBase64 !== undefined)
    throw new Problem("bad-request", "Give either text or textBase64.");
  const bytes =
    text !== undefined
      ? Buffer.from(text)
      : textBase64 === undefined
        ? undefined
        : Buffer.from(textBase64, "base64");
  if (bytes !== undefined && (bytes.length === 0 || bytes.length > TEXT_BYTES_MAX))
    throw new Problem("bad-request", `A text to search for must have 1 to ${TEXT_BYTES_MAX} bytes.`);
  const { group, unique } = given;
  return {
    ...Object.fromEntries(plain),
    ...(bytes === undefined ? {} : { text: bytes }),
    ...(group === undefined ? {} : { group: latin1Of(group) }),
    ...(unique === undefined ? {} : { unique: latin1Of(unique) }),
  } as Where;
}

/** Keys are compared byte for byte. */
const latin1Of = (text: string): string => Buffer.from(text).toString("latin1");
