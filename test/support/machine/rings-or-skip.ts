// The io_uring rings of a test, or the reason to skip it.

import type { TestContext } from "node:test";
import type { enter } from "../../../src/uring/kernel.ts";
import { KernelError } from "../../../src/uring/kernel.ts";
import { Uring } from "../../../src/uring/uring.ts";

/**
 * Returns two rings, of which the first makes its system calls by `call`. Skips the test and
 * returns undefined if the kernel refuses.
 */
export function ringsOrSkip(t: TestContext, call?: typeof enter): [Uring, Uring] | undefined {
  try {
    return [new Uring(call), new Uring()];
  } catch (error) {
    if (!(error instanceof KernelError)) throw error;
    t.skip(error.message);
    return undefined;
  }
}
