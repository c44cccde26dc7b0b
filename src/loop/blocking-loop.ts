// The loop of a thread without an event loop: turns while there is work, a spin where it may pay, then sleep.

import type { TurnCounters } from "../message/turn-counters.ts";
import { type DoorbellOwner, pause } from "../ring/doorbell.ts";
import { Point, type Points, type Surroundings } from "./point.ts";
import type { Role } from "./role.ts";
import { LOOKS_PER_CLOCK_READING, SLEEP_MS_MAX, type Spin } from "./waiting-policy.ts";

export interface BlockingLoopOptions {
  readonly role: Role;
  readonly doorbell: DoorbellOwner;
  readonly counters: TurnCounters;
  readonly spin: Spin;
  readonly surroundings: Surroundings;
}

export class BlockingLoop {
  readonly points: Points;
  /** At `Point.Asleep`: when something is due, ms; Infinity for nothing. */
  wakeAtMs: number = Number.POSITIVE_INFINITY;
  /** At `Point.Asleep`: how long until then, at most SLEEP_MS_MAX. */
  sleepMs = 0;
  readonly #options: BlockingLoopOptions;

  constructor(options: BlockingLoopOptions) {
    this.#options = options;
    this.points = this.#run();
  }

  // Most of the complexity is points. A part in a function of its own would be a generator made at each turn.
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: that would cost 50 to 100 ns, and garbage
  *#run(): Points {
    const { role, doorbell, counters, spin, surroundings } = this.#options;
    for (;;) {
      for (let point = next(role); point !== Point.Turned; point = next(role)) yield point;
      if (role.hasMore) {
        spin.worked(role.taken);
        yield Point.Turned;
        continue;
      }
      let found = false;
      for (let goesOn = spin.begins(role.begunAtMs, role.nextDueAtMs); goesOn && !found; ) {
        if (surroundings.isHeldUp()) yield Point.HeldUp;
        found = looks(role);
        if (found) spin.paid();
        else goesOn = spin.goesOn();
      }
      if (found) {
        yield Point.Turned;
        continue;
      }
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      doorbell.prepare();
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      role.wantRoom();
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      this.wakeAtMs = role.nextDueAtMs;
      this.sleepMs = Math.min(this.wakeAtMs - surroundings.nowMs(), SLEEP_MS_MAX);
      if (role.hasWork || this.sleepMs <= 0) {
        doorbell.cancel();
        yield Point.Turned;
        continue;
      }
      counters.slept();
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      yield Point.Asleep;
    }
  }
}

const next = (role: Role): Point => role.points.next().value;

/** Whether work comes while the thread looks for it, for about a microsecond. */
function looks(role: Role): boolean {
  for (let look = 0; look < LOOKS_PER_CLOCK_READING; look++) {
    pause();
    if (role.hasWork) return true;
  }
  return false;
}
