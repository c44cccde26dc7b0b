// Batches and schedules of a shard that need an operator's attention: members that failed or are
// buried, schedules that are paused, refused, or have missed ticks.

import { assert } from "../../base/assert.ts";
import type { BatchRow } from "../../engine/flows/batch-row.ts";
import type { Schedule } from "../../engine/schedules/schedule.ts";
import type { BatchSign, FlowSigns, ScheduleSign } from "../../message/control.ts";
import { BatchState } from "../../protocol/batch-facts.ts";
import { REFUSAL_WORDS } from "../schedules/schedule-text.ts";
import type { ControlAnswerer, ControlShard, ControlWork } from "./control-work.ts";

/** Number of batches examined: the oldest incomplete ones, which are the same on all shards. */
const BATCHES_MAX = 2000;
/** Batches in a slice: a name has up to 200 bytes. */
const SLICE_BATCHES = 100;
const SCHEDULES_NAMED = 3;

export class ListFlowSigns implements ControlWork {
  readonly #shard: ControlShard;
  readonly #wallMs: number;
  readonly #batches: Iterator<BatchRow>;
  #left = BATCHES_MAX;

  constructor(shard: ControlShard, wallMs: number) {
    this.#shard = shard;
    this.#wallMs = wallMs;
    this.#batches = shard.engine.batches.counts.unfinished;
  }

  step(answerer: ControlAnswerer): boolean {
    const batches: BatchSign[] = [];
    for (let slice = SLICE_BATCHES; slice > 0 && this.#left > 0; slice--) {
      const { done, value } = this.#batches.next();
      this.#left = done === true ? 0 : this.#left - 1;
      const sign = done === true ? undefined : signOf(value);
      if (sign !== undefined) batches.push(sign);
    }
    assert(batches.length <= SLICE_BATCHES, "a part has no more batches than a slice");
    const isLast = this.#left === 0;
    answerer.value(isLast ? { batches, schedules: this.#schedules() } : { batches }, isLast);
    return isLast;
  }

  #schedules(): NonNullable<FlowSigns["schedules"]> {
    const { paused, refused, missing } = this.#shard.engine.schedules.table;
    return { paused: this.#first(paused), refused: this.#first(refused), missing: this.#first(missing) };
  }

  #first(schedules: ReadonlySet<Schedule>): { count: number; first: ScheduleSign[] } {
    const first: ScheduleSign[] = [];
    for (const { name, nextMs, lastRefusal, missedInARow } of schedules) {
      if (first.length === SCHEDULES_NAMED) break;
      const lateSeconds = Math.max(0, this.#wallMs - nextMs) / 1000;
      first.push({ name, lateSeconds, refusal: REFUSAL_WORDS[lastRefusal], missed: missedInARow });
    }
    return { count: schedules.size, first };
  }
}

/**
 * Returns undefined for a cancelled batch, and for one without anything to report on this shard.
 */
function signOf(batch: BatchRow): BatchSign | undefined {
  const { number, name, state, dead, failed, formerFailed, buried, waitingJobs } = batch;
  const allFailed = dead + failed + formerFailed;
  if (state === BatchState.Cancelled) return undefined;
  if (allFailed + buried + waitingJobs === 0) return undefined;
  return [number, allFailed + buried > 0 ? name : "", allFailed, buried, waitingJobs];
}
