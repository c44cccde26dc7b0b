// Asserts an invariant; a broken one ends the process (the message must be a literal: a template costs even
// when it holds).

/** Throws when `condition` is false. Nothing catches it: a thread with a broken invariant must die loudly. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`broken invariant: ${message}`);
}
