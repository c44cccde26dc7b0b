// The loop of a thread without an event loop: turns while there is work, a spin if it is likely to
// pay, then sleep.

import type { TurnCounters } from "../message/turn-counters.ts";
import { type DoorbellOwner, pause } from "../ring/doorbell.ts";
import { Point, type Role, type Surroundings } from "./role.ts";
import { LOOKS_PER_CLOCK_READING, SLEEP_MS_MAX, type Spin } from "./waiting-policy.ts";

/** The next step of the loop. */
const Action = { Turn: 0, Spin: 1, Announce: 2, AskForRoom: 3, Look: 4, Sleep: 5 } as const;
type Action = (typeof Action)[keyof typeof Action];

interface BlockingLoopOptions {
  readonly role: Role;
  readonly doorbell: DoorbellOwner;
  readonly counters: TurnCounters;
  readonly spin: Spin;
  readonly surroundings: Surroundings;
}

export class BlockingLoop {
  /** At `Point.Asleep`: when a timer is due, in ms; Infinity if there is none. */
  wakeAtMs: number = Number.POSITIVE_INFINITY;
  /** At `Point.Asleep`: the time until then, at most SLEEP_MS_MAX. */
  sleepMs = 0;
  readonly #options: BlockingLoopOptions;
  #action: Action = Action.Turn;

  constructor(options: BlockingLoopOptions) {
    this.#options = options;
  }

  /** Advances to the next point. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a method for each action costs 7 to 20 ns a turn
  next(): Point {
    const { role, doorbell, counters, spin, surroundings } = this.#options;
    for (;;) {
      switch (this.#action) {
        case Action.Turn: {
          const point = role.next();
          if (point !== Point.Turned) return point;
          if (role.hasMore) {
            spin.worked(role.taken);
            return point;
          }
          this.#action = spin.begins(role.begunAtMs, role.nextDueAtMs) ? Action.Spin : Action.Announce;
          break;
        }
        case Action.Spin:
          if (looks(role)) {
            spin.paid();
            this.#action = Action.Turn;
            return Point.Turned;
          }
          if (!spin.goesOn()) this.#action = Action.Announce;
          break;
        case Action.Announce:
          doorbell.prepare();
          this.#action = Action.AskForRoom;
          break;
        case Action.AskForRoom:
          role.wantRoom();
          this.#action = Action.Look;
          break;
        case Action.Look:
          this.wakeAtMs = role.nextDueAtMs;
          this.sleepMs = Math.min(this.wakeAtMs - surroundings.nowMs(), SLEEP_MS_MAX);
          if (role.hasWork || this.sleepMs <= 0) {
            doorbell.cancel();
            this.#action = Action.Turn;
            return Point.Turned;
          }
          counters.slept();
          this.#action = Action.Sleep;
          break;
        case Action.Sleep:
          this.#action = Action.Turn;
          return Point.Asleep;
      }
      if (surroundings.isHeldUp?.() === true) return Point.HeldUp;
    }
  }
}

/** Polls for about a microsecond. Returns whether work has arrived. */
function looks(role: Role): boolean {
  for (let look = 0; look < LOOKS_PER_CLOCK_READING; look++) {
    pause();
    if (role.hasWork) return true;
  }
  return false;
}
