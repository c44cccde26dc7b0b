// Finding of a search for a planted bug: the bug itself, as opposed to a plant that no longer fits
// its target.

import assert from "node:assert/strict";

/**
 * The first line of what was found. Fails where the innermost cause is a mistake of code: a method
 * that is gone, a name that is none.
 */
export function findOf(error: unknown): string {
  let innermost = error;
  while (innermost instanceof Error && innermost.cause !== undefined) innermost = innermost.cause;
  assert.ok(
    !(innermost instanceof TypeError || innermost instanceof ReferenceError),
    `the plant does not fit any more: ${innermost instanceof Error ? innermost.stack : innermost}`,
  );
  return `${error}`.replace(/^Error: /, "").split("\n")[0]!;
}
