// Waits for a condition on a busy machine, instead of sleeping for the time that an idle one needs.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

/** Bounds a hang only: a busy machine may need most of it. */
const LIMIT_MS = 60_000;
const LOOK_MS = 5;
/** Each pause is this share of the wait so far: whatever takes long costs few looks. */
const PAUSE_SHARE = 1 / 20;
const PAUSE_MS_MAX = 100;
/** More than any condition takes that waits for no timer and no input. */
const TURNS_MAX = 10_000;

/**
 * Waits until `found` returns something other than undefined and false, and returns that. Fails
 * after `limitMs`.
 */
export async function eventually<T>(
  what: string | (() => string),
  found: () => T | false | undefined | Promise<T | false | undefined>,
  limitMs: number = LIMIT_MS,
): Promise<T> {
  const startedAt = performance.now();
  for (;;) {
    const result = await found();
    if (result !== undefined && result !== false) return result;
    const waitedMs = performance.now() - startedAt;
    if (waitedMs > limitMs)
      assert.fail(`not within ${limitMs} ms: ${typeof what === "string" ? what : what()}`);
    await sleep(Math.min(PAUSE_MS_MAX, Math.max(LOOK_MS, waitedMs * PAUSE_SHARE)));
  }
}

/** The same for what needs no timer and no input: a fault fails here instead of looping on. */
export async function soon(what: string, is: () => boolean): Promise<void> {
  for (let turn = 0; !is(); turn++) {
    assert.ok(turn < TURNS_MAX, `not within ${TURNS_MAX} turns: ${what}`);
    await Promise.resolve();
  }
}
