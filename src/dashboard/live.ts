// Answers of the server that stay up to date, by an event stream, or by polling if no stream is
// available, and the other data that a page fetches. Both pause while the page is hidden.

import { ANSWER_MS, answerOf, detailOf } from "./parts/request.ts";

const POLL_MS = 3000;
const FETCH_EACH_MS = 3000;
const HIDDEN_CLOSE_MS = 5000;
/** Interval of attempts to reconnect. */
export const RETRY_MS = 2000;

/** What the server has answered, by path; null if there is no such thing. */
export type Answers = ReadonlyMap<string, unknown>;

interface Answer {
  readonly path: string;
  readonly status: number;
  readonly content: unknown;
}

/** Instead of an answer that is too long. */
const TOO_LONG = 413;

export class Live {
  readonly #onAnswers: (answers: Answers, at: string) => void;
  readonly #onLink: () => void;
  readonly #onRefused: (status: number, detail: string) => void;
  /** The watched paths as a query; "" for none. */
  #query = "";
  /** Query of the last received answers. */
  #seen = "";
  #answers = new Map<string, unknown>();
  /** What the server sends in place of answers, by path. */
  readonly #faults = new Map<string, Answer>();
  #source: EventSource | undefined;
  /** Timer of the next attempt; while a stream is open, of its silence. */
  #timer = 0;
  #hiddenTimer = 0;
  /** Time of the last sign of the server, wall-clock ms. */
  #cameAtMs = 0;
  /** When the connection to the server was lost, wall-clock ms; 0 while there is one. */
  lostSinceMs = 0;
  isFrozen = false;

  /** Whether the answers are out of date. */
  get isOld(): boolean {
    return this.lostSinceMs > 0 || this.unsent !== "";
  }

  /** Why the server doesn't send an answer that it has; empty if it sends all. */
  get unsent(): string {
    return this.#faultOf(({ status }) => status === TOO_LONG);
  }

  /** Why the server has no newer answer; empty if it has. */
  get fault(): string {
    return this.#faultOf(({ status }) => status >= 500);
  }

  /**
   * `onRefused` is called if the user may not see something (403) or the session has ended (401).
   */
  constructor(
    onAnswers: (answers: Answers, at: string) => void,
    onLink: () => void,
    onRefused: (status: number, detail: string) => void,
  ) {
    this.#onAnswers = onAnswers;
    this.#onLink = onLink;
    this.#onRefused = onRefused;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.#hiddenTimer);
      if (document.hidden) this.#hiddenTimer = window.setTimeout(() => this.#close(), HIDDEN_CLOSE_MS);
      else if (this.#source === undefined && this.#query !== "") this.#open();
    });
  }

  /** Watches these paths from now on. */
  look(paths: readonly string[]): void {
    const query = `${new URLSearchParams(paths.map((path) => ["get", `/${path}`]))}`;
    if (query === this.#query) return;
    this.#query = query;
    this.#answers = new Map();
    this.#faults.clear();
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

  #faultOf(isMeant: (answer: Answer) => boolean): string {
    const found = [...this.#faults.values()].find(isMeant);
    return found === undefined ? "" : detailOf(found.content, found.status);
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
    source.addEventListener("answer", (event) => {
      if (this.#source === source) this.#take(JSON.parse((event as MessageEvent<string>).data));
    });
    source.addEventListener("at", (event) => {
      if (this.#source !== source) return;
      watch();
      this.#came(query, JSON.parse((event as MessageEvent<string>).data));
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

  #take(answer: Answer): void {
    const path = answer.path.slice(1);
    this.#faults.delete(path);
    if (answer.status === TOO_LONG || answer.status >= 500) this.#faults.set(path, answer);
    else this.#answers.set(path, answer.status === 200 ? answer.content : null);
  }

  #came(query: string, at: string): void {
    if (query !== this.#query) return;
    this.#cameAtMs = Date.now();
    this.lostSinceMs = 0;
    // While frozen, a new page still shows its first answers.
    if (this.isFrozen && this.#seen === query) this.#onLink();
    else this.#onAnswers(this.#answers, at);
    this.#seen = query;
  }

  #lost(): void {
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
      if (query !== this.#query) return;
      if (REFUSALS.includes(status)) return this.#refused(status, detailOf(content, status));
      if (status !== 200) throw new Error(`${status}`);
      const { at, answers } = content as { readonly at: string; readonly answers: readonly Answer[] };
      for (const answer of answers) this.#take(answer);
      this.#came(query, at);
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

/** Answers that no further attempt changes: the link is wrong, or the user may not see it. */
const REFUSALS: readonly number[] = [400, 401, 403, 404, 414, 431];

const never = (): boolean => false;

/** Data that a page fetches besides what it watches, every few seconds or once. */
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
