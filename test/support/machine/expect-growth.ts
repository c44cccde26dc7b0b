// Checks whether a server keeps more memory than allowed.

import { eventually } from "../eventually.ts";
import type { ServerProcess } from "../server/server-process.ts";

const MIB = 1024 * 1024;
/** An idle server that has not freed its memory by then keeps it. */
const LIMIT_MS = 5000;

/**
 * Fails if the server keeps so much more memory than before; what a busy machine frees late is
 * waited for.
 */
export async function expectGrowth(
  server: ServerProcess,
  beforeBytes: number,
  bytesMax: number,
): Promise<void> {
  const grownBytes = (): number => server.residentBytes() - beforeBytes;
  await eventually(
    () => `less than ${bytesMax / MIB} MiB more, not ${Math.round(grownBytes() / MIB)}`,
    () => grownBytes() < bytesMax,
    LIMIT_MS,
  );
}
