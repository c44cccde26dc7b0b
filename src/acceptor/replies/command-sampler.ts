// Takes the time of some commands: from when a command is complete until its reply is handed over, with the log that it waits
// for. One in some turns of the loop is timed, whichever comes first then; so the others cost nothing but a look.

import { CommandTimesCounters, commandClass } from "../../message/command-times.ts";
import { Counter } from "../../message/topology.ts";
import { Op } from "../../protocol/commands.ts";
import type { LogProgress } from "./outbox.ts";

/** Of so many turns that took answers, in one a command is timed. */
const TURNS_PER_SAMPLE = 64;
const RESERVE = commandClass(Op.Reserve);

/** A command that is timed. */
export interface CommandSample {
  readonly commandClass: number;
  /** Monotonic ms. */
  readonly beganAtMs: number;
  /** Its reply is there; what it waits for in the log, and 0 for nothing. */
  isAnswered: boolean;
  shard: number;
  recordNumber: number;
}

export class CommandSampler {
  /** Whether the next command that begins is to be timed. */
  isDue = false;
  #turns = 0;
  readonly #nowMs: () => number;
  readonly #counters: CommandTimesCounters;

  constructor(counters: Float64Array, nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#counters = new CommandTimesCounters(counters, Counter.CommandTimes);
  }

  /** A turn has taken answers. */
  turned(): void {
    if (++this.#turns % TURNS_PER_SAMPLE === 0) this.isDue = true;
  }

  begin(op: number): CommandSample {
    this.isDue = false;
    return {
      commandClass: commandClass(op),
      beganAtMs: this.#nowMs(),
      isAnswered: false,
      shard: 0,
      recordNumber: 0,
    };
  }

  /**
   * Its reply is there, whole. `hasWaited`: the thread has given up looking for it, as it does where a reserve waits for a job.
   * Such a wait is not the server's time: undefined, then.
   */
  answered(
    sample: CommandSample,
    hasWaited: boolean,
    shard: number,
    recordNumber: number,
  ): CommandSample | undefined {
    if (hasWaited && sample.commandClass === RESERVE) return undefined;
    sample.isAnswered = true;
    sample.shard = shard;
    sample.recordNumber = recordNumber;
    return sample;
  }

  /** What may leave has been handed over. Returns whether the sample is over. */
  flushed(sample: CommandSample, log: LogProgress): boolean {
    const { isAnswered, shard, recordNumber, beganAtMs } = sample;
    if (!isAnswered || (recordNumber !== 0 && !log.isDurable(shard, recordNumber))) return false;
    this.#counters.add(sample.commandClass, (this.#nowMs() - beganAtMs) / 1000);
    return true;
  }
}
