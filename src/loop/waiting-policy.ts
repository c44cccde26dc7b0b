// Waiting policies of threads without work: how long they poll before they sleep, and when they
// don't poll at all.
//
// A sleeping thread takes 20 to 50 us to wake, a spinning one less than 1 us. But a spin occupies a
// core that a busy machine needs, so spins are short and have to pay. docs/architecture/loops.md,
// "Sleeping and waking", has the measurements. All decisions are made here: the loops ask, and a
// simulation answers at random.

/** Longest spin of a shard, in ms. */
const SPIN_MS = 0.1;
/** Checks of the rings between two clock readings. */
export const LOOKS_PER_CLOCK_READING = 20;
/**
 * Beyond this many messages in a turn, there is a crowd of clients, whose next batch makes up for
 * the wake-up.
 */
const CROWD_MESSAGES = 4;

/** How long an acceptor with few clients polls for the next command, in ms. */
const LINGER_MS = 0.1;
/** Additional polling while a reply waits for the disk, in ms: most syncs take less. */
const DISK_MS = 0.4;
/**
 * With more active clients than this since the last sleep, an acceptor does not linger: in a crowd
 * some client always has bytes.
 */
const FEW_CLIENTS = 2;
/**
 * Turns without an answer before the acceptor waits for the doorbell in its event loop; and the
 * same if threads outnumber cores.
 */
const EMPTY_TURNS_MAX = 30;
const EMPTY_TURNS_MAX_CROWDED = 3;
/**
 * With this few connections waiting for an answer, the acceptor polls the rings on the spot instead
 * of reading sockets.
 */
const FEW_CONNECTIONS = 2;
/** The number of such polls: about 10 us in all. */
const LOOKS_ON_THE_SPOT = 200;

/** Two consecutive clock readings this far apart mean that the thread was preempted, in ms. */
const PREEMPTED_MS = 0.2;
/** Spins skipped after a futile one: this many at first, doubling up to the maximum. */
const SKIPPED_MIN = 1;
const SKIPPED_MAX = 16;

/** Longest sleep of a thread, in ms, so that distant timers need no exact arithmetic. */
export const SLEEP_MS_MAX = 3_600_000;
/**
 * How long a shard in the middle of a command sleeps for room in the ring to the log before it
 * checks again, in ms.
 */
export const ROOM_SLEEP_MS = 100;
/**
 * Longest sleep with io_uring, in ms: the event loop has work that is due by time and shows in no
 * descriptor.
 */
export const EVENT_LOOP_SLEEP_MS_MAX = 500;

/** The cores, and the threads that share them. */
interface Load {
  readonly cores: number;
  /** Threads that serve. */
  readonly threads: number;
  /**
   * Whether there is a log. Its thread counts in the comparison with cores, because replies wait
   * for it.
   */
  readonly hasLog: boolean;
}

/** How the threads of a server wait. */
export interface WaitSettings {
  /** Longest spin of a shard, in ms; 0 for none. */
  readonly spinMs: number;
  /** How long an acceptor with few active clients polls, in ms; 0 for none. */
  readonly lingerMs: number;
  /** Whether threads outnumber the cores. */
  readonly isCrowded: boolean;
}

/**
 * Returns how the threads wait. One core must stay free for the client: two threads that spin on
 * two cores keep it from running.
 */
export function waitingOf({ cores, threads, hasLog }: Load): WaitSettings {
  return {
    spinMs: cores > threads ? SPIN_MS : 0,
    lingerMs: cores >= threads ? LINGER_MS : 0,
    isCrowded: cores < threads + (hasLog ? 1 : 0),
  };
}

/** Decides whether a thread without work may spin, based on whether earlier spins paid. */
class SpinBudget {
  #toSkip = 0;
  #penalty = SKIPPED_MIN;

  /** Called once before each spin. False skips it. */
  mayBegin(): boolean {
    if (this.#toSkip === 0) return true;
    this.#toSkip--;
    return false;
  }

  /** Notes that work arrived during the spin. */
  paid(): void {
    this.#penalty = SKIPPED_MIN;
  }

  /** Notes that no work arrived or that the thread was preempted. */
  failed(): void {
    this.#toSkip = this.#penalty;
    this.#penalty = Math.min(this.#penalty * 2, SKIPPED_MAX);
  }

  /** Skips the next spin, because it would not pay. */
  skipNext(): void {
    this.#toSkip = Math.max(this.#toSkip, 1);
  }
}

/** The spin of a thread without an event loop, before it sleeps. */
export interface Spin {
  /** Notes that the thread took `messages` in a turn or has other work. */
  worked(messages: number): void;
  /** Returns whether to spin, when no work is left after a turn that began at `turnAtMs`. */
  begins(turnAtMs: number, dueAtMs: number): boolean;
  /** Returns whether to continue after some futile checks. */
  goesOn(): boolean;
  /** Notes that a check found work. */
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
    if (messages > CROWD_MESSAGES) this.#budget.skipNext();
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
      this.#budget.failed();
      return false;
    }
    this.#lookedAtMs = nowMs;
    return true;
  }

  paid(): void {
    this.#budget.paid();
  }
}

/** The state of an acceptor that its waiting depends on. */
export interface AcceptorActivity {
  readonly pendingReplies: {
    /** Connections whose answer may come at any moment. */
    readonly expecting: number;
    /** Connections that have sent a command since the last sleep. */
    readonly asking: number;
  };
  /** Whether replies wait for the log. */
  readonly waitsForLog: boolean;
}

/** How long an acceptor keeps turning without work before it sleeps. */
export interface PollPolicy {
  /** Notes that a socket, a shard or the log has brought work. */
  worked(): void;
  /** Returns how often to poll for an answer on the spot before taking answers. */
  looks(activity: AcceptorActivity): number;
  /** Returns whether another turn should follow, although this one has no work. */
  turnsAgain(activity: AcceptorActivity): boolean;
}

export class AcceptorPollPolicy implements PollPolicy {
  readonly #isCrowded: boolean;
  readonly #lingerMs: number;
  readonly #nowMs: () => number;
  readonly #linger: IdlePoll;
  readonly #hasOwnShards: boolean;
  #emptyTurns = 0;

  /**
   * `hasOwnShards` means that all shards run in the acceptor's thread, so none of their answers
   * arrives while it waits.
   */
  constructor({ isCrowded, lingerMs }: WaitSettings, nowMs: () => number, hasOwnShards = false) {
    this.#hasOwnShards = hasOwnShards;
    this.#isCrowded = isCrowded;
    this.#lingerMs = lingerMs;
    this.#nowMs = nowMs;
    this.#linger = new IdlePoll(lingerMs);
  }

  worked(): void {
    this.#emptyTurns = 0;
    if (this.#linger.untilMs > 0) this.#linger.worked();
  }

  looks(activity: AcceptorActivity): number {
    // All shards are here, and none of them waits for another thread.
    if (this.#hasOwnShards && !activity.waitsForLog) return 0;
    const { expecting } = activity.pendingReplies;
    return expecting > 0 && expecting <= FEW_CONNECTIONS ? LOOKS_ON_THE_SPOT : 0;
  }

  turnsAgain(activity: AcceptorActivity): boolean {
    const { expecting, asking } = activity.pendingReplies;
    const lingers = this.#lingerMs > 0 && asking > 0 && asking <= FEW_CLIENTS;
    // With too few cores, futile turns take the core from the threads that the acceptor waits for.
    const emptyTurnsMax = this.#isCrowded && !lingers ? EMPTY_TURNS_MAX_CROWDED : EMPTY_TURNS_MAX;
    const mayBeAnswered = expecting > 0 && (!this.#hasOwnShards || activity.waitsForLog);
    if (mayBeAnswered && this.#emptyTurns++ < emptyTurnsMax) return true;
    return lingers && this.#linger.again(this.#nowMs(), activity.waitsForLog ? DISK_MS : 0);
  }
}

/**
 * Decides whether an acceptor without work polls a little longer: with one or two clients, each
 * sleep adds a wake-up to the latency of every command.
 */
export class IdlePoll {
  readonly #longestMs: number;
  readonly #budget = new SpinBudget();
  /** End of the current polling; 0 if there is none. */
  untilMs = 0;
  #lookedAtMs = 0;

  constructor(longestMs: number) {
    this.#longestMs = longestMs;
  }

  /** Ends the polling, because there is work. */
  worked(): void {
    this.untilMs = 0;
    this.#budget.paid();
  }

  /**
   * Returns whether to poll again after a turn without work. Polls for up to `moreMs` longer than
   * usual.
   */
  again(nowMs: number, moreMs = 0): boolean {
    if (this.#longestMs === 0) return false;
    if (this.untilMs === 0) {
      if (!this.#budget.mayBegin()) return false;
      this.untilMs = nowMs + this.#longestMs;
    } else if (nowMs >= this.untilMs + moreMs || nowMs - this.#lookedAtMs > PREEMPTED_MS) {
      this.untilMs = 0;
      this.#budget.failed();
      return false;
    }
    this.#lookedAtMs = nowMs;
    return true;
  }
}
