// Assertions of invariants; a broken one ends the process. Messages must be literals: a template
// costs time even when the condition holds.

/**
 * Throws when `condition` is false. Nothing catches the error: a thread with a broken invariant
 * must die loudly.
 */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`broken invariant: ${message}`);
}
