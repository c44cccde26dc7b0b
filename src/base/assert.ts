// Assertions of invariants; a broken one ends the process. Messages must be literals: a template
// costs time even when the condition holds.

/**
 * Whether to check what costs more than a comparison: `if (CHECKED) assert(...)`. True if
 * RUNNERBEAN_CHECKED=1 is in the environment when this module loads, as in tests and simulations.
 */
export const CHECKED: boolean = process.env["RUNNERBEAN_CHECKED"] === "1";

/**
 * Throws when `condition` is false. Nothing catches the error: a thread with a broken invariant
 * must die loudly.
 */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`broken invariant: ${message}`);
}
