// The loop of a thread with acceptors: moves commands to the shards and answers back, and decides
// when to continue and when to sleep.
//
// Shards may run in the same thread (residents). They take their turns between the loop's two
// halves. So a command is executed and answered in the pass in which it arrived, without a
// doorbell, a sleep or a wake-up. The log may run here too. Its turn follows the residents', and
// its housekeeping comes after the replies.
//
// The thread has an event loop and never blocks in here. It calls `wake` whenever a socket has
// bytes or the doorbell was rung, and advances the loop after the event loop has read all ready
// sockets.

import { type ColocatedRole, Point, type ResidentShard, type Surroundings } from "../loop/role.ts";
import type { AcceptorActivity, PollPolicy } from "../loop/waiting-policy.ts";
import type { TurnCounters } from "../message/turn-counters.ts";
import { type Doorbell, type DoorbellOwner, pause } from "../ring/doorbell.ts";
import type { AcceptorCore } from "./connection/acceptor-core.ts";

/** If the loop has its own sockets, the event loop gets a turn after this many passes. */
const PASSES_PER_TURN = 8;

/**
 * Maximum number of turns of a resident in one pass while it has messages: some thousand commands,
 * after which replies leave and sockets are read.
 */
const RESIDENT_TURNS = 32;
/**
 * Time after which a resident gets no further turn in a pass. A resident without commands gets one
 * turn, so that replies leave between slices of long work.
 */
const RESIDENT_MS = 2;

/**
 * After a pass with more messages than this, other clients' commands are probably still arriving,
 * so the log waits for them.
 */
const CROWD_MESSAGES = 2;
/**
 * The log waits for at most this many passes and ms: a sync costs the same for one record as for
 * many.
 */
const GATHER_PASSES = 4;
const GATHER_MS = 0.3;

/** The next step of the loop. */
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

/** Sockets that the loop reads and writes itself, besides the event loop. */
interface LoopSockets {
  /** Sends pending bytes and processes received ones. A sleep of the thread does the same. */
  turn(): void;
}

/** One acceptor, or all of the thread. The members are explained in acceptor-core.ts. */
interface LoopCore extends AcceptorActivity {
  publish(onPublished: (shard: number) => void): void;
  takeAnswers(onWriterWaits: (shard: number) => void): number;
  flush(): void;
  wantRoom(): void;
  readonly pendingReplies: AcceptorActivity["pendingReplies"] & { giveUp(): void };
  readonly hasWork: boolean;
  readonly hasAnswers: boolean;
  readonly hasDurable: boolean;
  readonly hasRoomAgain: boolean;
}

interface AcceptorLoopOptions {
  readonly core: LoopCore;
  /** The doorbell of this thread. */
  readonly doorbell: DoorbellOwner;
  /** The doorbell of each shard. */
  readonly shards: readonly Doorbell[];
  readonly counters: TurnCounters;
  readonly pollPolicy: PollPolicy;
  readonly surroundings: Surroundings;
}

export class AcceptorLoop {
  /** Undefined if the event loop moves the bytes, between two turns. */
  sockets: LoopSockets | undefined;
  /** Shards in this thread that are ready to serve. */
  readonly residents: ResidentShard[] = [];
  /** The log, if it runs in this thread. */
  log: ColocatedRole | undefined;
  /** At `Point.Asleep`: when a resident has a timer due, in ms; Infinity if there is none. */
  wakeAtMs: number = Number.POSITIVE_INFINITY;
  readonly #options: AcceptorLoopOptions;
  #action: Action = Action.Publish;
  /** The resident whose turn it is, and its turns in this pass. */
  #resident = 0;
  #residentTurns = 0;
  /** The start of its first turn in this pass, in ms. */
  #residentSinceMs = 0;
  /** Messages that the residents have taken in this pass. */
  #residentTook = 0;
  /**
   * Consecutive passes in which the log had work and waited for more, and the start of the first,
   * in ms.
   */
  #gathered = 0;
  #gathersSinceMs = 0;
  /** Remaining spins; -1 before the number is decided. */
  #looks = -1;
  #taken = 0;
  /** Whether the last reply that waited for the log was released in this pass. */
  #released = false;
  /** Passes since the event loop had its turn. */
  #passes = 0;
  /** Whether the loop sleeps or is about to: a ring of the doorbell must wake it. */
  asleep = false;

  constructor(options: AcceptorLoopOptions) {
    this.#options = options;
  }

  /** Notes that a socket has bytes or that the doorbell was rung. A turn must follow soon. */
  wake(): void {
    this.#options.pollPolicy.worked();
    if (!this.asleep) return;
    this.asleep = false;
    this.#options.doorbell.cancel();
  }

  /** Advances to the next point. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a method for each action costs 7 to 20 ns a turn
  next(): Point {
    const { core, doorbell, counters, pollPolicy, surroundings } = this.#options;
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
          if (this.#looks < 0) this.#looks = pollPolicy.looks(core);
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
          const waited = core.waitsForLog;
          core.flush();
          core.publish(this.#ringShard);
          this.#released = waited && !core.waitsForLog;
          this.#action = Action.Decide;
          break;
        }
        case Action.Decide:
          this.#action = this.#goesOn() ? Action.Publish : Action.Announce;
          // Before a sleep the sockets take their turn with it, so that one system call does both.
          if (this.#action === Action.Publish) this.sockets?.turn();
          if (this.sockets !== undefined) {
            if (this.#action === Action.Publish && ++this.#passes < PASSES_PER_TURN) break;
            this.#passes = 0;
          }
          if (this.#action === Action.Publish) return Point.Turned;
          break;
        case Action.Announce:
          core.pendingReplies.giveUp();
          doorbell.prepare();
          this.asleep = true;
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
      if (surroundings.isHeldUp?.() === true) return Point.HeldUp;
    }
  }

  /** Returns whether there is more to do, or soon will be. */
  #goesOn(): boolean {
    const { core, pollPolicy } = this.#options;
    if (this.#taken > 0 || this.#released) pollPolicy.worked();
    return core.hasWork || this.#residentHasWork() || pollPolicy.turnsAgain(core);
  }

  /** Looks for work one last time before the sleep. Returns whether there is any. */
  #looksOnceMore(): boolean {
    const { core, counters, surroundings } = this.#options;
    let dueAtMs = this.log?.nextDueAtMs ?? Number.POSITIVE_INFINITY;
    for (const resident of this.residents) dueAtMs = Math.min(dueAtMs, resident.nextDueAtMs);
    this.wakeAtMs = dueAtMs;
    const isDue = dueAtMs <= surroundings.nowMs();
    const isAnswered = core.hasAnswers || (core.waitsForLog && core.hasDurable);
    if (isDue || isAnswered || core.hasRoomAgain || this.#residentHasWork()) {
      this.wake();
      this.#action = Action.Publish;
      // Due timers may put off the sleep for a second, with part of their work in each pass, so the
      // sockets need a turn.
      if (isDue) this.sockets?.turn();
      return true;
    }
    counters.slept();
    this.#action = Action.Sleep;
    return false;
  }

  /**
   * Advances one resident to its next point. Returns false when no resident has more to do in this
   * pass.
   */
  #turnResident(): boolean {
    let resident = this.residents[this.#resident];
    while (resident !== undefined && (this.#residentTurns === RESIDENT_TURNS || !this.#hasTurn(resident))) {
      this.#residentTurns = 0;
      resident = this.residents[++this.#resident];
    }
    if (resident === undefined) return false;
    const point = resident.next();
    if (point === Point.Turned) {
      if (this.#residentTurns++ === 0) this.#residentSinceMs = resident.begunAtMs;
      this.#residentTook += resident.taken;
    }
    // The log takes no more records and the process is about to end, so timers no longer matter.
    if (point === Point.Ended) this.residents.length = 0;
    return true;
  }

  #hasTurn(resident: ResidentShard): boolean {
    if (resident.isInTurn) return true;
    const { surroundings } = this.#options;
    if (this.#residentTurns === 0) return resident.hasWork || resident.nextDueAtMs <= surroundings.nowMs();
    return resident.hasCommands && surroundings.nowMs() - this.#residentSinceMs < RESIDENT_MS;
  }

  /**
   * Returns whether the log advances in this pass. It does so once, because replies leave in the
   * middle of its turn.
   */
  #logHasTurn(log: ColocatedRole): boolean {
    if (log.isInTurn) return true;
    const nowMs = this.#options.surroundings.nowMs();
    if (!log.hasWork) return log.nextDueAtMs <= nowMs;
    if (this.#gathered === 0) this.#gathersSinceMs = nowMs;
    const gathersOn = this.#gathered < GATHER_PASSES && nowMs - this.#gathersSinceMs < GATHER_MS;
    if (this.#residentTook > CROWD_MESSAGES && gathersOn) {
      this.#gathered++;
      return false;
    }
    this.#gathered = 0;
    return true;
  }

  #residentHasWork(): boolean {
    for (const resident of this.residents) if (resident.hasWork) return true;
    return this.log !== undefined && (this.log.isInTurn || this.log.hasWork);
  }

  readonly #ringShard = (shard: number): void => {
    const { shards, counters } = this.#options;
    if (shards[shard]!.ring()) counters.woke();
  };
}

// The acceptors of one thread as a single core, so that the loop performs each step for all of
// them.

/** Returns the acceptor itself if there is only one, otherwise a group of them. */
export function acceptorGroup(cores: readonly AcceptorCore[]): LoopCore {
  return cores.length === 1 ? cores[0]! : new AcceptorGroup(cores);
}

class AcceptorGroup implements LoopCore {
  readonly pendingReplies: LoopCore["pendingReplies"];
  readonly #cores: readonly AcceptorCore[];

  constructor(cores: readonly AcceptorCore[]) {
    this.#cores = cores;
    this.pendingReplies = {
      get expecting() {
        return cores.reduce((sum, { pendingReplies }) => sum + pendingReplies.expecting, 0);
      },
      get asking() {
        return cores.reduce((sum, { pendingReplies }) => sum + pendingReplies.asking, 0);
      },
      giveUp() {
        for (const { pendingReplies } of cores) pendingReplies.giveUp();
      },
    };
  }

  publish(onPublished: (shard: number) => void): void {
    for (const core of this.#cores) core.publish(onPublished);
  }

  takeAnswers(onWriterWaits: (shard: number) => void): number {
    let taken = 0;
    for (const core of this.#cores) taken += core.takeAnswers(onWriterWaits);
    return taken;
  }

  flush(): void {
    for (const core of this.#cores) core.flush();
  }

  wantRoom(): void {
    for (const core of this.#cores) core.wantRoom();
  }

  get hasWork(): boolean {
    return this.#cores.some(({ hasWork }) => hasWork);
  }

  get hasAnswers(): boolean {
    return this.#cores.some(({ hasAnswers }) => hasAnswers);
  }

  get waitsForLog(): boolean {
    return this.#cores.some(({ waitsForLog }) => waitsForLog);
  }

  get hasDurable(): boolean {
    return this.#cores.some(({ hasDurable }) => hasDurable);
  }

  get hasRoomAgain(): boolean {
    return this.#cores.some(({ hasRoomAgain }) => hasRoomAgain);
  }
}
