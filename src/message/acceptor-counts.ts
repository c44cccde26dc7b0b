// What acceptors count: why connections end, and the times of sampled commands.

import { COMMAND_CLASSES, Op, TIMING_OF } from "../protocol/commands.ts";
import { RequestOp } from "./request.ts";

/**
 * Why a connection ends: the client closed it; the client quit; it was idle for too long; an
 * operator closed it; it failed, for example because the client died; the server stopped;
 * authentication failed.
 */
export const END_REASONS = ["client", "quit", "idle", "admin", "error", "stop", "auth"] as const;
export type EndReason = (typeof END_REASONS)[number];

// Times of sampled commands, by class and by bucket: acceptors count them, metrics show them.

export const COMMAND_BOUNDS_SECONDS = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
] as const;

/** Counters of a class: one per bucket, one for longer times, and the sum in seconds. */
const COUNTERS_PER_CLASS = COMMAND_BOUNDS_SECONDS.length + 2;
export const COMMAND_TIMES = COMMAND_CLASSES.length * COUNTERS_PER_CLASS;

/** Returns the class of a message to a shard, as an index of COMMAND_CLASSES. */
export function commandClass(op: number): number {
  return TIMING_OF[op === RequestOp.PutStored ? Op.Put : op] ?? COMMAND_CLASSES.indexOf("other");
}

/** The counts per bucket and the sum of one class. */
interface CommandTimes {
  readonly counts: readonly number[];
  readonly sum: number;
}

export class CommandTimesCounters {
  readonly #counters: Float64Array;
  readonly #start: number;

  /** `counters` belong to a thread. Its COMMAND_TIMES begin at `start`. */
  constructor(counters: Float64Array, start: number) {
    this.#counters = counters;
    this.#start = start;
  }

  add(commandClass: number, seconds: number): void {
    let bound = 0;
    while (bound < COMMAND_BOUNDS_SECONDS.length && seconds > COMMAND_BOUNDS_SECONDS[bound]!) bound++;
    const start = this.#start + commandClass * COUNTERS_PER_CLASS;
    const sum = start + COUNTERS_PER_CLASS - 1;
    this.#counters[start + bound] = this.#counters[start + bound]! + 1;
    this.#counters[sum] = this.#counters[sum]! + seconds;
  }

  of(commandClass: number): CommandTimes {
    const start = this.#start + commandClass * COUNTERS_PER_CLASS;
    const sum = start + COUNTERS_PER_CLASS - 1;
    return { counts: [...this.#counters.subarray(start, sum)], sum: this.#counters[sum]! };
  }
}
