// Calendar of timed events on the servers of a differential test, so that no command is sent at
// such a moment.

interface ComingEvent {
  /** The moment on either server lies between these two, in performance.now() milliseconds. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly kind: "ttr" | "margin" | "other";
  /** Client that holds the job, for `ttr`. */
  readonly owner: number;
  readonly stillMatters: () => boolean;
  /** Called when it has happened. */
  readonly passed: () => void;
}

/** Events closer together than this could happen in another order on the other server. */
const APART_MS = 90;
/** Nothing is sent from so long before an event … */
const BEFORE_MS = 25;
/** … until so long after it. */
const AFTER_MS = 40;

export class EventCalendar {
  #events: ComingEvent[] = [];

  add(event: ComingEvent): void {
    this.#events.push(event);
    this.#events.sort((left, right) => left.fromMs - right.fromMs);
  }

  collidesWith(fromMs: number, toMs: number): boolean {
    return this.#events.some(
      (event) => event.fromMs - APART_MS < toMs && fromMs < event.toMs + APART_MS && event.stillMatters(),
    );
  }

  /** An unexpected event has happened: a step took too long. */
  isOverdue(nowMs: number): boolean {
    return this.#events.some((event) => event.fromMs < nowMs && event.stillMatters());
  }

  /**
   * The next event, if it is so near that nothing that takes `stepMs` may be sent before it is
   * over.
   */
  takeImminent(
    nowMs: number,
    stepMs: number,
  ): { readonly event: ComingEvent; readonly overAtMs: number } | undefined {
    while (this.#events[0] !== undefined && !this.#events[0].stillMatters()) this.#events.shift();
    const event = this.#events[0];
    if (event === undefined || event.fromMs - BEFORE_MS - stepMs > nowMs) return undefined;
    this.#events.shift();
    return { event, overAtMs: event.toMs + AFTER_MS };
  }
}
