// The loop of an acceptor: moves commands to the shards and answers back, and decides when to go on and when to sleep.
//
// Its thread has an event loop and never blocks in here. It calls `wake` whenever a socket has something or the doorbell
// was rung, and goes on to the next point when the event loop has read all sockets that are ready.

import { Point, type Points, type Surroundings } from "../loop/point.ts";
import type { Patience } from "../loop/waiting-policy.ts";
import type { TurnCounters } from "../message/turn-counters.ts";
import { type Doorbell, type DoorbellOwner, pause } from "../ring/doorbell.ts";
import type { AcceptorCore } from "./acceptor-core.ts";

/** With sockets of its own the loop lets the event loop have a turn after this many passes. */
const PASSES_PER_TURN = 8;

/** Sockets that the loop reads and writes itself, beside the event loop. */
export interface LoopSockets {
  /** Sends what there is to send, takes what has come. Returns how many completions there were. */
  turn(): number;
}

export interface AcceptorLoopOptions {
  readonly core: AcceptorCore;
  /** The thread's own. */
  readonly doorbell: DoorbellOwner;
  /** The bell of each shard. */
  readonly shards: readonly Doorbell[];
  readonly counters: TurnCounters;
  readonly patience: Patience;
  readonly surroundings: Surroundings;
}

export class AcceptorLoop {
  readonly points: Points;
  /** Without them the event loop moves the bytes between two turns. */
  sockets: LoopSockets | undefined;
  readonly #options: AcceptorLoopOptions;
  /** The sleep has been announced, and nobody has woken it since. */
  #asleep = false;

  constructor(options: AcceptorLoopOptions) {
    this.#options = options;
    this.points = this.#run();
  }

  /** Something has come from a socket, or the doorbell was rung. A turn must follow soon. */
  wake(): void {
    this.#options.patience.worked();
    if (!this.#asleep) return;
    this.#asleep = false;
    this.#options.doorbell.cancel();
  }

  /** Whether it sleeps, or is about to: a ring of the doorbell must wake it. */
  get asleep(): boolean {
    return this.#asleep;
  }

  // Most of the complexity is points. A part in a function of its own would be a generator made at each turn.
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: that would cost 50 to 100 ns, and garbage
  *#run(): Points {
    const { core, doorbell, shards, counters, patience, surroundings } = this.#options;
    const ring = (shard: number): void => counters.rang(shards[shard]!.ring());
    for (let passes = 1; ; passes++) {
      core.publish(ring);
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      for (let looks = patience.looks(core); looks > 0 && !core.hasAnswers; looks--) {
        pause();
        if (surroundings.isHeldUp()) yield Point.HeldUp;
      }
      counters.begin();
      const taken = core.takeAnswers(ring);
      counters.end(taken);
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      const held = core.hasHeld;
      core.flush();
      core.publish(ring);
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      if (taken > 0 || (held && !core.hasHeld)) patience.worked();
      let goesOn = core.hasWork || patience.turnsAgain(core);
      if (this.sockets !== undefined) {
        if (this.sockets.turn() > 0) goesOn = true;
        if (goesOn && passes < PASSES_PER_TURN) {
          if (surroundings.isHeldUp()) yield Point.HeldUp;
          continue;
        }
      }
      passes = 0;
      if (goesOn) {
        yield Point.Turned;
        continue;
      }
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      core.stopExpecting();
      doorbell.prepare();
      this.#asleep = true;
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      core.wantRoom();
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      if (core.hasAnswers || core.hasDurable || core.hasRoomAgain) {
        this.wake();
        yield Point.Turned;
        continue;
      }
      counters.slept();
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      yield Point.Asleep;
    }
  }
}
