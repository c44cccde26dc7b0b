// Fixed mmap threshold of glibc's malloc: instead of src/server/lifecycle/malloc-threshold.ts. An
// executable has no launcher that sets the variable, and starting twice would take 40 ms.

import { dlopen } from "node:ffi";

const M_MMAP_THRESHOLD = -3;
const BYTES = 262_144;

export function fixMallocThreshold(): void {
  if (process.env["MALLOC_MMAP_THRESHOLD_"] !== undefined) return;
  const { functions } = dlopen(null, { mallopt: { arguments: ["i32", "i32"], return: "i32" } });
  functions.mallopt(M_MMAP_THRESHOLD, BYTES);
}
