// A live view of the server: by an event stream, or by polling if no stream is available. It pauses
// while the page is hidden.

/** State of the connection to the server. */
export interface Link {
  /** Time when the connection was lost, wall-clock ms; 0 if it is fine. */
  readonly lostSinceMs: number;
  readonly isFrozen: boolean;
}

const POLL_MS = 3000;
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
  #timer = 0;
  #hiddenTimer = 0;
  lostSinceMs = 0;
  isFrozen = false;

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
    source.addEventListener("view", (event) =>
      this.#came(query, JSON.parse((event as MessageEvent<string>).data)),
    );
    source.addEventListener("error", () => {
      if (this.#source !== source) return;
      const isRefused = source.readyState === EventSource.CLOSED;
      this.#close();
      // The stream was refused: either all streams are in use, or the user may not see the view. A
      // poll finds out.
      if (isRefused) void this.#poll(query);
      else {
        this.#lost();
        this.#timer = window.setTimeout(() => this.#open(), RETRY_MS);
      }
    });
  }

  #close(): void {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = undefined;
  }

  #came(query: string, view: unknown): void {
    if (query !== this.#query) return;
    this.lostSinceMs = 0;
    // While frozen, a new page still shows its first view.
    if (this.isFrozen && this.#seen === query) this.#onLink();
    else this.#onView(view);
    this.#seen = query;
  }

  #lost(): void {
    if (this.lostSinceMs === 0) this.lostSinceMs = Date.now();
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
      const response = await fetch(`v1/events?${query}`);
      if (response.status === 401 || response.status === 403) {
        const { detail } = (await response.json()) as { detail: string };
        if (query === this.#query) this.#refused(response.status, detail);
        return;
      }
      if (!response.ok) throw new Error(`${response.status}`);
      this.#came(query, await response.json());
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
