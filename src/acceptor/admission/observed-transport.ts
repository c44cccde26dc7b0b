// A transport that observes the replies on their way to the client. The observed state belongs to
// its thread, so the connection cannot migrate: there is no `departure`.

import type { Transport } from "../replies/transport.ts";

export class ObservedTransport implements Transport {
  readonly #inner: Transport;
  readonly #observe: (bytes: Uint8Array, length: number) => void;

  constructor(inner: Transport, observe: (bytes: Uint8Array, length: number) => void) {
    this.#inner = inner;
    this.#observe = observe;
  }

  send(buffer: Uint8Array, length: number): boolean {
    this.#observe(buffer, length);
    return this.#inner.send(buffer, length);
  }

  get pendingBytes(): number {
    return this.#inner.pendingBytes;
  }

  get descriptor(): number {
    return this.#inner.descriptor;
  }

  pause(): void {
    this.#inner.pause();
  }

  resume(): void {
    this.#inner.resume();
  }

  end(): void {
    this.#inner.end();
  }

  destroy(): void {
    this.#inner.destroy();
  }
}
