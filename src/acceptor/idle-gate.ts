// Notes when a connection last did something, where idle ones are closed.

import { ForwardingHandler } from "./forwarding-handler.ts";
import type { Gate, GatedConnection } from "./gated-connection.ts";
import type { LineHandler } from "./line-reader.ts";

export class IdleGate extends ForwardingHandler implements Gate {
  readonly #behind: Gate | undefined;
  readonly #nowMs: () => number;
  #connection!: GatedConnection;
  readonly #onGuard: (gate: IdleGate) => void;
  #activeAtMs: number;

  /** `behind` is another gate of the same connection; `onGuard` hears that there is one. */
  constructor(behind: Gate | undefined, nowMs: () => number, onGuard: (gate: IdleGate) => void) {
    super();
    this.#onGuard = onGuard;
    this.#behind = behind;
    this.#nowMs = nowMs;
    this.#activeAtMs = nowMs();
  }

  guard(connection: GatedConnection): LineHandler {
    this.#connection = connection;
    this.inner = this.#behind?.guard(connection) ?? connection;
    this.#onGuard(this);
    return this;
  }

  /** Since when it neither sent a command, nor waited for anything, nor held a job; asked now and then. */
  idleSinceMs(): number {
    if (!this.#connection.isQuiet) this.#activeAtMs = this.#nowMs();
    return this.#activeAtMs;
  }

  /** What it has under way is answered before. */
  end(): void {
    this.#connection.endWhenIdle("idle");
  }

  override onLine(bytes: Uint8Array, start: number, end: number, again: boolean): boolean {
    this.#activeAtMs = this.#nowMs();
    return super.onLine(bytes, start, end, again);
  }

  override onPiece(bytes: Uint8Array, start: number, end: number): number {
    this.#activeAtMs = this.#nowMs();
    return super.onPiece(bytes, start, end);
  }
}
