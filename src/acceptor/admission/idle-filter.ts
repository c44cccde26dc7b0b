// Notes when a connection last did something, where idle ones are closed.

import type { LineHandler } from "../input/line-reader.ts";
import type { FilteredConnection, Gate } from "./filtered-connection.ts";
import { ForwardingHandler } from "./forwarding-handler.ts";

export class IdleFilter extends ForwardingHandler implements Gate {
  readonly #behind: Gate | undefined;
  readonly #nowMs: () => number;
  #connection!: FilteredConnection;
  readonly #onGuard: (gate: IdleFilter) => void;
  #activeAtMs: number;

  /** `behind` is another gate of the same connection; `onGuard` hears that there is one. */
  constructor(behind: Gate | undefined, nowMs: () => number, onGuard: (gate: IdleFilter) => void) {
    super();
    this.#onGuard = onGuard;
    this.#behind = behind;
    this.#nowMs = nowMs;
    this.#activeAtMs = nowMs();
  }

  guard(connection: FilteredConnection): LineHandler {
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
