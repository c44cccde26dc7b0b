// Fixed mmap threshold of glibc's malloc; replaces src/server/lifecycle/malloc-threshold.ts. An
// executable has no launcher to set the variable, and starting twice would take 40 ms.

const M_MMAP_THRESHOLD = -3;
const BYTES = 262_144;

export function fixMallocThreshold(): void {
  if (process.env["MALLOC_MMAP_THRESHOLD_"] !== undefined) return;
  // Loaded only here, because it is experimental: see docs/differences.md.
  const { dlopen } = process.getBuiltinModule("node:ffi");
  const { functions } = dlopen(null, { mallopt: { arguments: ["i32", "i32"], return: "i32" } });
  functions.mallopt(M_MMAP_THRESHOLD, BYTES);
}
