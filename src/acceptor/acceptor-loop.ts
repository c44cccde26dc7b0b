// The loop of an acceptor: moves commands to the shards and answers back, and decides when to go on and when to sleep.
//
// Shards may live in its thread (residents). They take their turns between its two halves: a command that has come is
// executed and its reply leaves in the same pass, without a bell, a sleep or a wake in between.
//
// Its thread has an event loop and never blocks in here. It calls `wake` whenever a socket has something or the doorbell
// was rung, and goes on to the next point when the event loop has read all sockets that are ready.

import { Point, type Points, type Surroundings } from "../loop/point.ts";
import type { Role } from "../loop/role.ts";
import type { Patience } from "../loop/waiting-policy.ts";
import type { TurnCounters } from "../message/turn-counters.ts";
import { type Doorbell, type DoorbellOwner, pause } from "../ring/doorbell.ts";
import type { AcceptorCore } from "./acceptor-core.ts";

/** With sockets of its own the loop lets the event loop have a turn after this many passes. */
const PASSES_PER_TURN = 8;

/**
 * Turns that a resident may take in one pass while it has messages: some thousand commands, after which replies leave and
 * sockets are read.
 */
const RESIDENT_TURNS = 32;

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
  /** Shards in this thread that are ready to serve. */
  readonly residents: Role[] = [];
  /** At `Point.Asleep`: when a resident has something due, ms; Infinity for nothing. */
  wakeAtMs: number = Number.POSITIVE_INFINITY;
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

  *#run(): Points {
    const { core, doorbell, shards, counters, patience, surroundings } = this.#options;
    const ring = (shard: number): void => counters.rang(shards[shard]!.ring());
    for (let passes = 1; ; passes++) {
      core.publish(ring);
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      if (this.residents.length > 0) yield* this.#turnResidents();
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
      let goesOn = core.hasWork || this.#residentHasWork || patience.turnsAgain(core);
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
      for (const resident of this.residents) resident.wantRoom();
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      this.wakeAtMs = this.#residentsDueAtMs;
      const isDue = this.wakeAtMs <= surroundings.nowMs();
      if (core.hasAnswers || core.hasDurable || core.hasRoomAgain || this.#residentHasWork || isDue) {
        this.wake();
        yield Point.Turned;
        continue;
      }
      counters.slept();
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      yield Point.Asleep;
    }
  }

  get #residentHasWork(): boolean {
    return this.residents.some((resident) => resident.hasWork);
  }

  get #residentsDueAtMs(): number {
    let atMs = Number.POSITIVE_INFINITY;
    for (const resident of this.residents) atMs = Math.min(atMs, resident.nextDueAtMs);
    return atMs;
  }

  /** Lets each resident that has something to do take some turns. */
  *#turnResidents(): Generator<Point, void, void> {
    const nowMs = this.#options.surroundings.nowMs();
    for (const resident of this.residents) {
      let turns = 0;
      while (
        (resident.hasWork || (turns === 0 && resident.nextDueAtMs <= nowMs)) &&
        turns++ < RESIDENT_TURNS
      ) {
        let point = next(resident);
        for (; point === Point.HeldUp; point = next(resident)) yield point;
        if (point === Point.Ended) {
          // The log takes nothing any more, and the process is about to end: nobody is due any more either.
          this.residents.length = 0;
          return;
        }
      }
    }
  }
}

const next = (role: Role): Point => role.points.next().value;
