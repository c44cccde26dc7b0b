// Samples the time that commands take, from the complete command until its reply is handed over,
// including its wait for the log. In one of several turns, the first command that starts is timed.
// All others cost only a check.

import { CommandTimesCounters, commandClass } from "../../message/command-times.ts";
import { Counter } from "../../message/topology.ts";
import { Op } from "../../protocol/commands.ts";
import type { ReplyLog } from "./outbox.ts";

/** One command is timed per this many turns that took answers. */
const TURNS_PER_SAMPLE = 64;
const RESERVE = commandClass(Op.Reserve);

/** A command that is being timed. */
export interface CommandSample {
  readonly commandClass: number;
  /** In monotonic ms. */
  readonly beganAtMs: number;
  /**
   * Whether the reply has arrived, and the record that it waits for: its shard, and its number or 0
   * for none.
   */
  isAnswered: boolean;
  shard: number;
  recordNumber: number;
}

export class CommandSampler {
  /** Whether the next command that starts is to be timed. */
  isDue = false;
  #turns = 0;
  readonly #nowMs: () => number;
  readonly #counters: CommandTimesCounters;

  constructor(counters: Float64Array, nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#counters = new CommandTimesCounters(counters, Counter.CommandTimes);
  }

  /** Notes a turn that took answers. */
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
   * Takes the end of the reply. `hasWaited` means that the thread has stopped polling for it, as it
   * does while a reserve waits for a job. The server is not responsible for such a wait, so the
   * sample is dropped: the result is undefined.
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

  /** Called after output was handed over. Returns whether the sample is finished. */
  flushed(sample: CommandSample, log: ReplyLog): boolean {
    const { isAnswered, shard, recordNumber, beganAtMs } = sample;
    if (!isAnswered || (recordNumber !== 0 && !log.isLogged(shard, recordNumber))) return false;
    this.#counters.add(sample.commandClass, (this.#nowMs() - beganAtMs) / 1000);
    return true;
  }
}
