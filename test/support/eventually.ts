// Waits for a condition on a busy machine, instead of sleeping for the time that an idle one needs.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

/** Bounds a hang only: a busy machine may need most of it. */
const LIMIT_MS = 60_000;
const LOOK_MS = 5;

/**
 * Waits until `found` returns something other than undefined and false, and returns that. Fails
 * after `limitMs`.
 */
export async function eventually<T>(
  what: string | (() => string),
  found: () => T | false | undefined | Promise<T | false | undefined>,
  limitMs: number = LIMIT_MS,
): Promise<T> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const result = await found();
    if (result !== undefined && result !== false) return result;
    if (performance.now() > deadline)
      assert.fail(`not within ${limitMs} ms: ${typeof what === "string" ? what : what()}`);
    await sleep(LOOK_MS);
  }
}
