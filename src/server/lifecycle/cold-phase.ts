// The cold phase of a server: its first commands, during which V8 compiles the code that they run.
//
// By default, V8's threads take half of the CPU of the first 20,000 commands. Most of that is
// TurboFan, whose code saves less in the first 100,000 commands than it costs. It is therefore put
// off until the server has taken some hundred thousand messages (bench/README.md has the figures).

import { setFlagsFromString } from "node:v8";

/**
 * Calls after which V8 optimizes a function with TurboFan. V8 multiplies them by the length of the
 * function's bytecode in 32-bit arithmetic: a test checks that no function is too long for that.
 */
export const COLD_CALLS = 100_000;
/** V8's default. */
const WARM_CALLS = 3000;
/** Messages that all threads together take in the cold phase; a command is one or a few. */
const COLD_MESSAGES = 300_000;
const LOOK_MS = 1000;

/**
 * Begins the cold phase. Call it just before clients are served, when all threads have loaded their
 * code: V8 refuses compiled code from a file once a flag has changed. `messages` returns how many
 * messages all threads have taken so far.
 */
export function beginColdPhase(messages: () => number): void {
  optimizeAfter(COLD_CALLS);
  const end = messages() + COLD_MESSAGES;
  const timer = setInterval(() => {
    if (messages() < end) return;
    clearInterval(timer);
    optimizeAfter(WARM_CALLS);
  }, LOOK_MS).unref();
}

const optimizeAfter = (calls: number): void => setFlagsFromString(`--invocation-count-for-turbofan=${calls}`);
