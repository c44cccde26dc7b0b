// A live view of the server, by an event stream, or by polling if no stream is available, and the
// other data that a page fetches. Both pause while the page is hidden.

import { ANSWER_MS, answerOf, detailOf } from "./parts/request.ts";

const POLL_MS = 3000;
const FETCH_EACH_MS = 3000;
const HIDDEN_CLOSE_MS = 5000;
/** Interval of attempts to reconnect. */
export const RETRY_MS = 2000;

export class Live {
  readonly #onView: (view: unknown) => void;
  readonly #onLink: () => void;
  readonly #onRefused: (status: number, detail: string) => void;
  #query = "";
  /** Query of the last received view. */
  #seen = "";
  #source: EventSource | undefined;
  /** Timer of the next attempt; while a stream is open, of its silence. */
  #timer = 0;
  #hiddenTimer = 0;
  /** Time of the last received view, wall-clock ms. */
  #cameAtMs = 0;
  /** When the connection to the server was lost, wall-clock ms; 0 while there is one. */
  lostSinceMs = 0;
  /** Why the server answers, but doesn't send the view; empty if it sends it. */
  unsent = "";
  isFrozen = false;

  /** Whether the last view is out of date. */
  get isOld(): boolean {
    return this.lostSinceMs > 0 || this.unsent !== "";
  }

  /**
   * `onRefused` is called if the user may not see the view (403) or the session has ended (401).
   */
  constructor(
    onView: (view: unknown) => void,
    onLink: () => void,
    onRefused: (status: number, detail: string) => void,
  ) {
    this.#onView = onView;
    this.#onLink = onLink;
    this.#onRefused = onRefused;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.#hiddenTimer);
      if (document.hidden) this.#hiddenTimer = window.setTimeout(() => this.#close(), HIDDEN_CLOSE_MS);
      else if (this.#source === undefined && this.#query !== "") this.#open();
    });
  }

  /** Shows the view of this query from now on. */
  look(query: string): void {
    if (query === this.#query) return;
    this.#query = query;
    this.unsent = "";
    this.#close();
    this.#open();
  }

  /** Stops all updates. */
  stop(): void {
    this.#query = "";
    this.#close();
  }

  freeze(isFrozen: boolean): void {
    this.isFrozen = isFrozen;
    this.#onLink();
  }

  #open(): void {
    this.#close();
    const query = this.#query;
    const source = new EventSource(`v1/events?${query}`);
    this.#source = source;
    const lose = (): void => {
      this.#close();
      this.#lost();
      this.#timer = window.setTimeout(() => this.#open(), RETRY_MS);
    };
    // A server that hangs keeps its connections open.
    const watch = (): void => {
      clearTimeout(this.#timer);
      this.#timer = window.setTimeout(lose, ANSWER_MS);
    };
    watch();
    source.addEventListener("view", (event) => {
      if (this.#source !== source) return;
      watch();
      this.#came(query, JSON.parse((event as MessageEvent<string>).data));
    });
    source.addEventListener("unsent", (event) => {
      if (this.#source !== source) return;
      watch();
      this.lostSinceMs = 0;
      this.unsent = (JSON.parse((event as MessageEvent<string>).data) as { detail: string }).detail;
      this.#onLink();
    });
    source.addEventListener("error", () => {
      if (this.#source !== source) return;
      if (source.readyState !== EventSource.CLOSED) return lose();
      // The stream was refused: either all streams are in use, or the user may not see the view. A
      // poll finds out.
      this.#close();
      void this.#poll(query);
    });
  }

  #close(): void {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = undefined;
  }

  #came(query: string, view: unknown): void {
    if (query !== this.#query) return;
    this.#cameAtMs = Date.now();
    this.lostSinceMs = 0;
    this.unsent = "";
    // While frozen, a new page still shows its first view.
    if (this.isFrozen && this.#seen === query) this.#onLink();
    else this.#onView(view);
    this.#seen = query;
  }

  #lost(): void {
    this.unsent = "";
    if (this.lostSinceMs === 0) this.lostSinceMs = this.#cameAtMs || Date.now();
    this.#onLink();
  }

  #refused(status: number, detail: string): void {
    this.stop();
    this.lostSinceMs = 0;
    this.#onRefused(status, detail);
  }

  /** Polls sequentially: each request waits for the previous response. */
  async #poll(query: string): Promise<void> {
    if (query !== this.#query || this.#source !== undefined) return;
    let waitMs = POLL_MS;
    try {
      const { status, content } = await answerOf(`v1/events?${query}`);
      if (REFUSALS.includes(status)) {
        if (query === this.#query) this.#refused(status, detailOf(content, status));
        return;
      }
      if (status !== 200) throw new Error(`${status}`);
      this.#came(query, content);
    } catch {
      waitMs = RETRY_MS;
      this.#lost();
    }
    if (query === this.#query && this.#source === undefined)
      this.#timer = window.setTimeout(() => {
        // After a lost connection, try a stream again.
        if (waitMs === RETRY_MS) this.#open();
        else void this.#poll(query);
      }, waitMs);
  }
}

/** Answers that no further attempt changes: the link is wrong, or the user may not see the view. */
const REFUSALS: readonly number[] = [400, 401, 403, 404, 414, 431];

const never = (): boolean => false;

/** Data that a page fetches besides its view, every few seconds or once. */
export class Fetched {
  /** A problem if the request was refused. */
  content: unknown;
  /** URL of the request that the content answers. */
  from = "";
  /** Why the last request was not answered; empty if it was. */
  fault = "";
  readonly #isFrozen: () => boolean;
  readonly #onCame: () => void;
  readonly #onLeave: () => void;
  #isLast: (content: unknown) => boolean = never;
  #timer = 0;
  #request: AbortController | undefined;

  /** `onLeave` is called if the session has ended. */
  constructor(isFrozen: () => boolean, onCame: () => void, onLeave: () => void) {
    this.#isFrozen = isFrozen;
    this.#onCame = onCame;
    this.#onLeave = onLeave;
  }

  /**
   * Fetches from this URL from now on, or nothing, until an answer is the last one. It ignores
   * answers to earlier requests, which may lack a change.
   */
  look(url: string | undefined, isLast: (content: unknown) => boolean = never): void {
    clearTimeout(this.#timer);
    this.#request?.abort();
    if (url?.split("?")[0] !== this.from.split("?")[0]) {
      this.content = undefined;
      this.from = "";
    }
    this.fault = "";
    this.#isLast = isLast;
    if (url !== undefined) void this.#renew(url);
  }

  async #renew(url: string): Promise<void> {
    const request = new AbortController();
    this.#request = request;
    let isOver = false;
    if (!document.hidden && (this.from !== url || !this.#isFrozen())) {
      try {
        const { status, content } = await answerOf(url, { signal: request.signal });
        if (request.signal.aborted) return;
        if (status === 401) return this.#onLeave();
        this.content = content;
        this.from = url;
        this.fault = "";
        // A server that is starting will know more.
        isOver = status < 500 && this.#isLast(content);
      } catch (error) {
        if (request.signal.aborted) return;
        this.fault = (error as Error).message;
      }
      this.#onCame();
    }
    if (!isOver) this.#timer = window.setTimeout(() => void this.#renew(url), FETCH_EACH_MS);
  }
}
