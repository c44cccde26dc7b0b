// How a thread without work waits: how long it looks for more before it sleeps, and when it does not look at all.
//
// A sleeping thread takes 20 to 50 us to wake, a spinning one under 1 us; but a spin burns a core that a busy machine
// needs. So a spin is short, and must pay. What was measured is in src/README.md, "Waking and polling". Here is all that
// is decided; the loops ask, and a simulation answers with draws.

/** Longest spin of a shard, ms. */
const SPIN_MS = 0.1;
/** Looks at the rings between two readings of the clock. */
export const LOOKS_PER_CLOCK_READING = 20;
/** A turn with more messages is that of a crowd: its next batch makes up for the wake. */
const CROWD_MESSAGES = 4;

/** Longest look of an acceptor for the next command of few clients, ms. */
const LINGER_MS = 0.1;
/** While a reply waits for the disk it looks for so much longer: most syncs take less, ms. */
const DISK_MS = 0.4;
/** With more clients than this since the last sleep it does not linger: of a crowd somebody's bytes are always there. */
const FEW_CLIENTS = 2;
/** Turns without an answer before it waits for the doorbell in its event loop; where threads outnumber cores. */
const EMPTY_TURNS_MAX = 30;
const EMPTY_TURNS_MAX_CROWDED = 3;
/** With this few connections waiting for an answer it looks for it on the spot, instead of at the sockets. */
const FEW_CONNECTIONS = 2;
/** How often it looks: about 10 us in all. */
const LOOKS_ON_THE_SPOT = 200;

/** Two readings of the clock in a row this far apart mean that the thread was off its core, ms. */
const PREEMPTED_MS = 0.2;
/** After a spin in vain the next ones are left out, this many at first, doubling up to the most. */
const LEFT_OUT_MIN = 1;
const LEFT_OUT_MAX = 16;

/** Longest sleep of a thread, so that a timer far away needs no exact arithmetic, ms. */
export const SLEEP_MS_MAX = 3_600_000;
/** How long a shard in the middle of a command sleeps for room in the ring to the log before it looks again, ms. */
export const ROOM_SLEEP_MS = 100;
/** With io_uring the longest sleep, for what the event loop does by time and not by descriptor, ms. */
export const EVENT_LOOP_SLEEP_MS_MAX = 500;

/** Cores, and the threads that share them. */
export interface Load {
  readonly cores: number;
  /** Threads that serve. */
  readonly threads: number;
  /** It counts where threads are compared with cores, because replies wait for it. */
  readonly hasLog: boolean;
}

/** How the threads of a server wait. */
export interface Waiting {
  /** Longest spin of a shard, ms; 0 for none. */
  readonly spinMs: number;
  /** Longest look of an acceptor when few clients ask, ms; 0 for none. */
  readonly lingerMs: number;
  /** Whether threads outnumber the cores. */
  readonly isCrowded: boolean;
}

/** A core must be left for the client: two threads that spin on two cores keep it from running. */
export function waitingOf({ cores, threads, hasLog }: Load): Waiting {
  return {
    spinMs: cores > threads ? SPIN_MS : 0,
    lingerMs: cores >= threads ? LINGER_MS : 0,
    isCrowded: cores < threads + (hasLog ? 1 : 0),
  };
}

/** Whether a thread without work may spin, learned from whether earlier spins paid. */
class SpinBudget {
  #leftOut = 0;
  #penalty = LEFT_OUT_MIN;

  /** Asked once before each spin: false leaves it out. */
  mayBegin(): boolean {
    if (this.#leftOut === 0) return true;
    this.#leftOut--;
    return false;
  }

  /** Work came during the spin. */
  paid(): void {
    this.#penalty = LEFT_OUT_MIN;
  }

  /** It did not, or the thread lost its core. */
  wasInVain(): void {
    this.#leftOut = this.#penalty;
    this.#penalty = Math.min(this.#penalty * 2, LEFT_OUT_MAX);
  }

  /** Leaves out the next spin, because it would not pay. */
  leaveOutNext(): void {
    this.#leftOut = Math.max(this.#leftOut, 1);
  }
}

/** How long a thread without an event loop spins before it sleeps. */
export interface Spin {
  /** The thread took `messages` in a turn, or has something else to do. */
  worked(messages: number): void;
  /** There is nothing more after a turn that began at `turnAtMs`: true if the thread should spin. */
  begins(turnAtMs: number, dueAtMs: number): boolean;
  /** Some looks were in vain: true if it should look again. */
  goesOn(): boolean;
  /** A look found work. */
  paid(): void;
}

export class IdleSpin implements Spin {
  readonly #longestMs: number;
  readonly #nowMs: () => number;
  readonly #budget = new SpinBudget();
  #untilMs = 0;
  #lookedAtMs = 0;

  /** Spins for `longestMs` at most; never if that is 0. */
  constructor(longestMs: number, nowMs: () => number) {
    this.#longestMs = longestMs;
    this.#nowMs = nowMs;
  }

  worked(messages: number): void {
    if (messages > CROWD_MESSAGES) this.#budget.leaveOutNext();
  }

  begins(turnAtMs: number, dueAtMs: number): boolean {
    if (this.#longestMs === 0 || !this.#budget.mayBegin()) return false;
    this.#untilMs = Math.min(turnAtMs + this.#longestMs, dueAtMs);
    this.#lookedAtMs = this.#nowMs();
    return true;
  }

  goesOn(): boolean {
    const nowMs = this.#nowMs();
    if (nowMs - this.#lookedAtMs > PREEMPTED_MS || nowMs >= this.#untilMs) {
      this.#budget.wasInVain();
      return false;
    }
    this.#lookedAtMs = nowMs;
    return true;
  }

  paid(): void {
    this.#budget.paid();
  }
}

/** What an acceptor's waiting depends on. */
export interface Asked {
  /** Connections whose answer may come any moment. */
  readonly expecting: number;
  /** Connections that have sent a command since the last sleep. */
  readonly asking: number;
  /** Whether replies wait for the log. */
  readonly hasHeld: boolean;
}

/** How long an acceptor turns without work before it sleeps. */
export interface PollPolicy {
  /** Something has come from a socket, a shard or the log. */
  worked(): void;
  /** How often it should look for an answer on the spot before it takes those that are there. */
  looks(asked: Asked): number;
  /** There is no work in this turn: true if another turn should follow nevertheless. */
  turnsAgain(asked: Asked): boolean;
}

export class AcceptorPatience implements PollPolicy {
  readonly #isCrowded: boolean;
  readonly #lingerMs: number;
  readonly #nowMs: () => number;
  readonly #linger: IdlePoll;
  readonly #hasOwnShards: boolean;
  #emptyTurns = 0;

  /** With `hasOwnShards` all shards live in the acceptor's thread: no answer of theirs comes while it waits. */
  constructor({ isCrowded, lingerMs }: Waiting, nowMs: () => number, hasOwnShards = false) {
    this.#hasOwnShards = hasOwnShards;
    this.#isCrowded = isCrowded;
    this.#lingerMs = lingerMs;
    this.#nowMs = nowMs;
    this.#linger = new IdlePoll(lingerMs);
  }

  worked(): void {
    this.#emptyTurns = 0;
    this.#linger.worked();
  }

  looks(asked: Asked): number {
    const { expecting } = asked;
    if (!this.#mayBeAnswered(asked)) return 0;
    return expecting > 0 && expecting <= FEW_CONNECTIONS ? LOOKS_ON_THE_SPOT : 0;
  }

  turnsAgain(asked: Asked): boolean {
    const lingers = this.#lingerMs > 0 && asked.asking > 0 && asked.asking <= FEW_CLIENTS;
    // Turning in vain takes the core from those that it waits for, if there are too few cores.
    const emptyTurnsMax = this.#isCrowded && !lingers ? EMPTY_TURNS_MAX_CROWDED : EMPTY_TURNS_MAX;
    if (asked.expecting > 0 && this.#mayBeAnswered(asked) && this.#emptyTurns++ < emptyTurnsMax) return true;
    return lingers && this.#linger.again(this.#nowMs(), asked.hasHeld ? DISK_MS : 0);
  }

  /** Whether something that clients wait for may come from another thread. */
  #mayBeAnswered({ hasHeld }: Asked): boolean {
    return !this.#hasOwnShards || hasHeld;
  }
}

/** Whether an acceptor without work looks at sockets and rings a little longer: each sleep of one or two clients' acceptor
 * costs a wake-up on the way of every command. */
export class IdlePoll {
  readonly #longestMs: number;
  readonly #budget = new SpinBudget();
  /** End of the lingering under way, 0 for none. */
  #untilMs = 0;
  #lookedAtMs = 0;

  constructor(longestMs: number) {
    this.#longestMs = longestMs;
  }

  /** There is work. */
  worked(): void {
    if (this.#untilMs === 0) return;
    this.#untilMs = 0;
    this.#budget.paid();
  }

  /** There is none in this turn: true if the thread should look again. Lingers for up to `moreMs` longer than usual. */
  again(nowMs: number, moreMs = 0): boolean {
    if (this.#longestMs === 0) return false;
    if (this.#untilMs === 0) {
      if (!this.#budget.mayBegin()) return false;
      this.#untilMs = nowMs + this.#longestMs;
    } else if (nowMs >= this.#untilMs + moreMs || nowMs - this.#lookedAtMs > PREEMPTED_MS) {
      this.#untilMs = 0;
      this.#budget.wasInVain();
      return false;
    }
    this.#lookedAtMs = nowMs;
    return true;
  }
}
