// Number of jobs of each schedule on this shard, in all tubes and states: a schedule with
// overlap=skip puts no job while there is one. A job's `meta` says which schedule has put it.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import { Attribute, findAttribute } from "../../protocol/job-attribute.ts";

/** Of the pair that a schedule gives its jobs: `schedule:<name>@<tick>`. */
export const SCHEDULE_META = "schedule:";
const COLON = 0x3a;
const AT = 0x40;

export class ScheduledJobs {
  readonly #jobs = new Map<string, number>();
  /** Schedules that ticks ask about: how many do, and the jobs that have arrived meanwhile. */
  readonly #watches = new Map<string, { questions: number; arrivals: number }>();

  /** Number of schedules with jobs. */
  get size(): number {
    return this.#jobs.size;
  }

  has(schedule: string): boolean {
    return this.#jobs.has(schedule);
  }

  /** Counts a job with these attributes, if a schedule has put it. */
  add(bytes: Uint8Array, length: number): void {
    const name = scheduleOf(bytes, length);
    if (name !== "") this.#jobs.set(name, (this.#jobs.get(name) ?? 0) + 1);
  }

  /** Counts it no more. */
  remove(bytes: Uint8Array, length: number): void {
    const name = scheduleOf(bytes, length);
    if (name === "") return;
    const left = this.#jobs.get(name)! - 1;
    assert(left >= 0, "a job of a schedule is counted once");
    if (left > 0) this.#jobs.set(name, left);
    else this.#jobs.delete(name);
  }

  /** Begins to count a schedule's jobs that arrive from other shards, until as many `unwatch`. */
  watch(schedule: string): void {
    const watch = this.#watches.get(schedule);
    if (watch === undefined) this.#watches.set(schedule, { questions: 1, arrivals: 0 });
    else watch.questions++;
  }

  unwatch(schedule: string): void {
    const watch = this.#watches.get(schedule);
    assert(watch !== undefined && watch.questions > 0, "a question that ends has begun");
    if (--watch.questions === 0) this.#watches.delete(schedule);
  }

  /** Returns how many jobs of a watched schedule have arrived from other shards. */
  arrivals(schedule: string): number {
    const watch = this.#watches.get(schedule);
    assert(watch !== undefined, "arrivals are counted while a question is open");
    return watch.arrivals;
  }

  /** Notes that a job with these attributes arrives from another shard. */
  noteArrival(bytes: Uint8Array, length: number): void {
    if (this.#watches.size === 0) return;
    const watch = this.#watches.get(scheduleOf(bytes, length));
    if (watch !== undefined) watch.arrivals++;
  }
}

/** Returns the schedule that has put a job with these attributes, or "". */
function scheduleOf(bytes: Uint8Array, length: number): string {
  const at = findAttribute(bytes, 0, length, Attribute.Meta);
  if (at < 0) return "";
  const nameAt = at + SCHEDULE_META.length;
  // Most pairs have their colon elsewhere.
  if (nameAt > length || bytes[nameAt - 1] !== COLON) return "";
  for (let i = 0; i < SCHEDULE_META.length; i++) if (bytes[at + i] !== SCHEDULE_META.charCodeAt(i)) return "";
  const end = bytes.subarray(nameAt, at + bytes[at - 1]!).lastIndexOf(AT);
  return end < 0 ? "" : latin1(bytes, nameAt, nameAt + end);
}
