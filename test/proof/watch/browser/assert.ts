// The five functions of node:assert/strict that the simulator uses, for a browser.

import equalDeeply from "fast-deep-equal/es6/index.js";

class AssertionError extends Error {
  override readonly name = "AssertionError";
  actual: unknown;
  expected: unknown;
}

function shown(value: unknown): string {
  const text = typeof value === "bigint" ? `${value}n` : JSON.stringify(value);
  return text ?? String(value);
}

/** A message that is an Error is thrown itself. */
function refuse(
  message: string | Error | undefined,
  otherwise: string,
  values: { actual?: unknown; expected?: unknown } = {},
): never {
  throw message instanceof Error ? message : Object.assign(new AssertionError(message ?? otherwise), values);
}

function ok(value: unknown, message?: string | Error): asserts value {
  if (!value) refuse(message, `${shown(value)} is not true`);
}

function equal(actual: unknown, expected: unknown, message?: string | Error): void {
  if (!Object.is(actual, expected))
    refuse(message, `${shown(actual)} is not ${shown(expected)}`, { actual, expected });
}

function notEqual(actual: unknown, expected: unknown, message?: string | Error): void {
  if (Object.is(actual, expected)) refuse(message, `${shown(actual)} is what it must not be`);
}

function deepEqual(actual: unknown, expected: unknown, message?: string | Error): void {
  if (equalDeeply(actual, expected)) return;
  refuse(message, `${shown(actual)} is not ${shown(expected)}`, { actual, expected });
}

function fail(message?: string | Error): never {
  refuse(message, "failed");
}

export { AssertionError, deepEqual, equal, fail, notEqual, ok };
export default { AssertionError, deepEqual, equal, fail, notEqual, ok };
