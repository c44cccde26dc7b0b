// The loop of a thread with acceptors: moves commands to the shards and answers back, and decides when to go on and when to sleep.
//
// Shards may live in its thread (residents). They take their turns between its two halves: a command that has come is
// executed and its reply leaves in the same pass, without a bell, a sleep or a wake in between. So may the log: it has its
// turn after theirs, and what it does for itself comes after the replies.
//
// Its thread has an event loop and never blocks in here. It calls `wake` whenever a socket has something or the doorbell
// was rung, and goes on to the next point when the event loop has read all sockets that are ready.

import { Point, type Surroundings } from "../loop/point.ts";
import type { ColocatedRole, ResidentShard } from "../loop/role.ts";
import type { Asked, PollPolicy } from "../loop/waiting-policy.ts";
import type { TurnCounters } from "../message/turn-counters.ts";
import { type Doorbell, type DoorbellOwner, pause } from "../ring/doorbell.ts";

/** With sockets of its own the loop lets the event loop have a turn after this many passes. */
const PASSES_PER_TURN = 8;

/**
 * Turns that a resident may take in one pass while it has messages: some thousand commands, after which replies leave and
 * sockets are read.
 */
const RESIDENT_TURNS = 32;
/** With so much time behind it in a pass a resident has no further turn. Without commands it has one: answers leave between slices of long work. */
const RESIDENT_MS = 2;

/** With more messages in a pass there may be clients whose commands have not arrived yet, and the log waits for them … */
const CROWD_MESSAGES = 2;
/** … for this many passes and this long at most: a sync costs as much for one record as for all of them. */
const GATHER_PASSES = 4;
const GATHER_MS = 0.3;

/** What it does next. */
const Action = {
  Publish: 0,
  TurnResidents: 1,
  TurnLog: 2,
  LookOnTheSpot: 3,
  TakeAnswers: 4,
  Send: 5,
  Decide: 6,
  Announce: 7,
  AskForRoom: 8,
  Look: 9,
  Sleep: 10,
} as const;
type Action = (typeof Action)[keyof typeof Action];

/** Sockets that the loop reads and writes itself, beside the event loop. */
export interface LoopSockets {
  /** Sends what there is to send, takes what has come. A sleep of the thread does the same. */
  turn(): void;
}

/** What the loop turns: an acceptor, or all of its thread. Each is explained in acceptor-core.ts. */
export interface LoopCore extends Asked {
  publish(onPublished: (shard: number) => void): void;
  takeAnswers(onWriterWaits: (shard: number) => void): number;
  flush(): void;
  wantRoom(): void;
  stopExpecting(): void;
  readonly hasWork: boolean;
  readonly hasAnswers: boolean;
  readonly hasDurable: boolean;
  readonly hasRoomAgain: boolean;
}

export interface AcceptorLoopOptions {
  readonly core: LoopCore;
  /** The thread's own. */
  readonly doorbell: DoorbellOwner;
  /** The bell of each shard. */
  readonly shards: readonly Doorbell[];
  readonly counters: TurnCounters;
  readonly patience: PollPolicy;
  readonly surroundings: Surroundings;
}

export class AcceptorLoop {
  /** Without them the event loop moves the bytes between two turns. */
  sockets: LoopSockets | undefined;
  /** Shards in this thread that are ready to serve. */
  readonly residents: ResidentShard[] = [];
  /** The log, if it lives in this thread. */
  log: ColocatedRole | undefined;
  /** At `Point.Asleep`: when a resident has something due, ms; Infinity for nothing. */
  wakeAtMs: number = Number.POSITIVE_INFINITY;
  readonly #options: AcceptorLoopOptions;
  #action: Action = Action.Publish;
  /** The resident whose turn it is, and how many it has had in this pass. */
  #resident = 0;
  #residentTurns = 0;
  /** When its first turn in this pass began, ms. */
  #residentSinceMs = 0;
  /** Messages that the residents have taken in this pass. */
  #residentTook = 0;
  /** Passes in a row in which the log had work and waited for more, and since when, ms. */
  #gathered = 0;
  #gathersSinceMs = 0;
  /** Looks on the spot that are left; -1 before they are allowed. */
  #looks = -1;
  #taken = 0;
  /** Replies waited for the log, and none does any more. */
  #released = false;
  /** Passes since the event loop had its turn. */
  #passes = 0;
  /** The sleep has been announced, and nobody has woken it since. */
  #asleep = false;

  constructor(options: AcceptorLoopOptions) {
    this.#options = options;
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

  /** Goes on to the next point. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a method for each action costs 7 to 20 ns a turn
  next(): Point {
    const { core, doorbell, counters, patience, surroundings } = this.#options;
    for (;;) {
      switch (this.#action) {
        case Action.Publish:
          core.publish(this.#ringShard);
          this.#resident = 0;
          this.#residentTurns = 0;
          this.#residentTook = 0;
          this.#action = Action.TurnResidents;
          break;
        case Action.TurnResidents:
          if (!this.#turnResident()) {
            this.#action = Action.TurnLog;
            continue;
          }
          break;
        case Action.TurnLog:
          this.#action = Action.LookOnTheSpot;
          if (this.log === undefined || !this.#logHasTurn(this.log)) continue;
          if (this.log.next() === Point.Ended) this.log = undefined;
          break;
        case Action.LookOnTheSpot:
          if (this.#looks < 0) this.#looks = patience.looks(core);
          if (this.#looks > 0 && !core.hasAnswers) {
            this.#looks--;
            pause();
            break;
          }
          this.#looks = -1;
          this.#action = Action.TakeAnswers;
          continue;
        case Action.TakeAnswers:
          counters.begin();
          this.#taken = core.takeAnswers(this.#ringShard);
          counters.end(this.#taken);
          this.#action = Action.Send;
          break;
        case Action.Send: {
          const held = core.hasHeld;
          core.flush();
          core.publish(this.#ringShard);
          this.#released = held && !core.hasHeld;
          this.#action = Action.Decide;
          break;
        }
        case Action.Decide:
          this.#action = this.#goesOn() ? Action.Publish : Action.Announce;
          // Before a sleep the sockets have their turn with it: what there is to send goes to the kernel in the same call.
          if (this.#action === Action.Publish) this.sockets?.turn();
          if (this.sockets !== undefined) {
            if (this.#action === Action.Publish && ++this.#passes < PASSES_PER_TURN) break;
            this.#passes = 0;
          }
          if (this.#action === Action.Publish) return Point.Turned;
          break;
        case Action.Announce:
          core.stopExpecting();
          doorbell.prepare();
          this.#asleep = true;
          this.#action = Action.AskForRoom;
          break;
        case Action.AskForRoom:
          core.wantRoom();
          for (const resident of this.residents) resident.wantRoom();
          this.log?.wantRoom();
          this.#action = Action.Look;
          break;
        case Action.Look:
          if (this.#looksOnceMore()) return Point.Turned;
          break;
        case Action.Sleep:
          this.#action = Action.Publish;
          return Point.Asleep;
      }
      if (surroundings.isHeldUp()) return Point.HeldUp;
    }
  }

  /** Whether there is more to do, or soon will be. */
  #goesOn(): boolean {
    const { core, patience } = this.#options;
    if (this.#taken > 0 || this.#released) patience.worked();
    return core.hasWork || this.#residentHasWork() || patience.turnsAgain(core);
  }

  /** Before the sleep. True if there is something to do after all. */
  #looksOnceMore(): boolean {
    const { counters, surroundings } = this.#options;
    this.wakeAtMs = this.#residentsDueAtMs();
    const isDue = this.wakeAtMs <= surroundings.nowMs();
    if (isDue || this.#findsWork()) {
      this.wake();
      this.#action = Action.Publish;
      // What is due may keep it from its sleep for a second, some of it in each pass.
      if (isDue) this.sockets?.turn();
      return true;
    }
    counters.slept();
    this.#action = Action.Sleep;
    return false;
  }

  /** Whether there is something to do, now that the sleep has been announced. */
  #findsWork(): boolean {
    const { core } = this.#options;
    return core.hasAnswers || core.hasDurable || core.hasRoomAgain || this.#residentHasWork();
  }

  /** Takes one resident to its next point. Returns false when none has anything more to do in this pass. */
  #turnResident(): boolean {
    const resident = this.residents[this.#resident];
    if (resident === undefined) return false;
    if (this.#residentTurns === RESIDENT_TURNS || !this.#hasTurn(resident)) {
      this.#resident++;
      this.#residentTurns = 0;
      return this.#turnResident();
    }
    const point = resident.next();
    if (point === Point.Turned) {
      if (this.#residentTurns++ === 0) this.#residentSinceMs = resident.begunAtMs;
      this.#residentTook += resident.taken;
    }
    // The log takes nothing any more, and the process is about to end: nobody is due any more either.
    if (point === Point.Ended) this.residents.length = 0;
    return true;
  }

  #hasTurn(resident: ResidentShard): boolean {
    if (resident.isInTurn) return true;
    const { surroundings } = this.#options;
    if (this.#residentTurns === 0) return resident.hasWork || resident.nextDueAtMs <= surroundings.nowMs();
    return resident.hasCommands && surroundings.nowMs() - this.#residentSinceMs < RESIDENT_MS;
  }

  /** It goes on to its next point once in a pass: replies leave in the middle of its turn. */
  #logHasTurn(log: ColocatedRole): boolean {
    if (log.isInTurn) return true;
    const nowMs = this.#options.surroundings.nowMs();
    if (!log.hasWork) return log.nextDueAtMs <= nowMs;
    if (this.#residentTook <= CROWD_MESSAGES) return this.#endGathering();
    if (this.#gathered === 0) this.#gathersSinceMs = nowMs;
    if (this.#gathered === GATHER_PASSES || nowMs - this.#gathersSinceMs >= GATHER_MS)
      return this.#endGathering();
    this.#gathered++;
    return false;
  }

  #endGathering(): true {
    this.#gathered = 0;
    return true;
  }

  #residentHasWork(): boolean {
    for (const resident of this.residents) if (resident.hasWork) return true;
    return this.log !== undefined && (this.log.isInTurn || this.log.hasWork);
  }

  #residentsDueAtMs(): number {
    let atMs = this.log?.nextDueAtMs ?? Number.POSITIVE_INFINITY;
    for (const resident of this.residents) atMs = Math.min(atMs, resident.nextDueAtMs);
    return atMs;
  }

  readonly #ringShard = (shard: number): void => {
    const { shards, counters } = this.#options;
    counters.rang(shards[shard]!.ring());
  };
}
