// Folder of Node's compile cache, shared by the processes of tests.

import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Stripped and compiled TypeScript, written when a process ends in order: reading the sources anew
 * takes some times as long.
 */
export const COMPILE_CACHE = join(tmpdir(), "runnerbean-test-compile-cache");
