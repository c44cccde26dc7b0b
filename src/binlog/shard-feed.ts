// Sends the jobs of a recovered log to one shard.

import type { MessagePort } from "node:worker_threads";
import { assert } from "../base/assert.ts";

/** Number of batches that a shard may have waiting while the next segment is read. */
const BATCHES_AHEAD = 2;

/** Keeps a few batches ahead of the shard's loading. */
export class ShardFeed {
  readonly #port: MessagePort;
  #ahead = 0;
  #onLoaded: (() => void) | undefined;

  /** `warn` is called with the shard's warnings for the operator. */
  constructor(port: MessagePort, warn: (warning: string) => void) {
    this.#port = port;
    port.on("message", (message: "loaded" | { readonly warnings: readonly string[] }) => {
      if (message !== "loaded") for (const warning of message.warnings) warn(warning);
      this.#ahead--;
      assert(this.#ahead >= 0, "a shard loads no more than it was sent");
      this.#onLoaded?.();
    });
  }

  async send(batch: { bytes: Uint8Array; offsets: Uint32Array }): Promise<void> {
    assert(batch.offsets.length > 0, "a batch has jobs");
    this.#ahead++;
    this.#port.postMessage(batch);
    await this.#until(BATCHES_AHEAD);
  }

  async end(): Promise<void> {
    this.#ahead++;
    this.#port.postMessage("end");
    await this.#until(0);
    assert(this.#ahead === 0, "a shard has loaded everything at the end");
    this.#port.close();
  }

  async #until(ahead: number): Promise<void> {
    while (this.#ahead > ahead) {
      await new Promise<void>((resolve) => {
        this.#onLoaded = resolve;
      });
    }
  }
}
