// Delay of refusals for clients without a valid token. A refusal takes one turn of the loop. A
// valid request takes several, because it also waits for its shard. A client that repeats its
// request after each refusal would therefore get more turns than others with valid tokens.

import type { ServerResponse } from "node:http";
import { RequestRate } from "../limits/request-rate.ts";

/** Refusals of an address and second that are sent at once. */
const AT_ONCE_PER_SECOND = 50;
/** Delay of each further one, in ms. */
const LATER_MS = 1000;

export class SlowRefusals {
  readonly #atOnce = new RequestRate(AT_ONCE_PER_SECOND);
  readonly #nowMs: () => number;
  /** The ends of the delays in progress. */
  readonly #waiting = new Set<() => void>();
  #hasEnded = false;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Resolves when a refusal may be sent to the address, or when its client has disconnected. */
  async wait(address: string, answer: ServerResponse): Promise<void> {
    if (this.#hasEnded || answer.destroyed || this.#atOnce.take(address, this.#nowMs())) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(end);
        resolve();
      };
      const timer = setTimeout(end, LATER_MS);
      this.#waiting.add(end);
      answer.on("close", end);
    });
  }

  /** Ends all delays for good, because the server stops. */
  end(): void {
    this.#hasEnded = true;
    for (const end of this.#waiting) end();
  }
}
