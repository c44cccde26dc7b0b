// The filter of connections that are closed when idle: notes their last activity.

import type { LineHandler } from "../input/line-reader.ts";
import type { ConnectionFilter, FilteredConnection } from "./filtered-connection.ts";
import { ForwardingHandler } from "./forwarding-handler.ts";

export class IdleFilter extends ForwardingHandler implements ConnectionFilter {
  readonly #behind: ConnectionFilter | undefined;
  readonly #nowMs: () => number;
  #connection!: FilteredConnection;
  readonly #onGuard: (filter: IdleFilter) => void;
  #activeAtMs: number;

  /**
   * `behind` is another filter of the same connection. `onGuard` is called when the filter is
   * installed.
   */
  constructor(
    behind: ConnectionFilter | undefined,
    nowMs: () => number,
    onGuard: (filter: IdleFilter) => void,
  ) {
    super();
    this.#onGuard = onGuard;
    this.#behind = behind;
    this.#nowMs = nowMs;
    this.#activeAtMs = nowMs();
  }

  guard(connection: FilteredConnection, lines: LineHandler): LineHandler {
    this.#connection = connection;
    this.inner = this.#behind?.guard(connection, lines) ?? lines;
    this.#onGuard(this);
    return this;
  }

  /**
   * Returns the time since which the client has sent no command, waited for nothing and held no
   * job. Accurate to the interval between calls.
   */
  idleSinceMs(): number {
    if (!this.#connection.isQuiet) this.#activeAtMs = this.#nowMs();
    return this.#activeAtMs;
  }

  /** Ends the connection after its commands in flight are answered. */
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
