// The interface between a connection and the filter of its lines.

import type { EndReason } from "../../message/acceptor-counts.ts";
import type { TubeRef } from "../state/watch-list.ts";
import type { LineHandler } from "../stream/line-reader.ts";

/** A connection, as its filter sees it. */
export interface FilteredConnection {
  /** Notes the name of the client's token, for the audit, and whether it sees the texts of jobs. */
  belongsTo(owner: string | undefined, seesTexts: boolean): void;
  readonly usedTube: string;
  readonly watchedTubes: readonly TubeRef[];
  /** Whether the connection waits for nothing and holds no job. */
  readonly isQuiet: boolean;
  /** Whether every command is answered and the replies are handed to the transport. */
  readonly isAnswered: boolean;
  /** Answers a line in its place among the replies. Returns false if the line has to wait. */
  refuse(reply: Uint8Array): boolean;
  /** Drops the body that follows and answers with `reply`. */
  refuseBody(bodyBytes: number, reply: Uint8Array): void;
  /** Answers a line and closes the connection. Returns false if the line has to wait. */
  refuseAndEnd(reply: Uint8Array): boolean;
  /** Suspends the current line for the filter. The connection does not end before `goOn`. */
  holdOn(): void;
  /** Passes the suspended line to the filter again. */
  goOn(): void;
  /**
   * Ends the connection at once. Commands in flight get no answer; jobs on their way to the client
   * are released together with those it holds. `reply` is the last line sent, unless a reply is
   * half sent.
   */
  cut(reply: Uint8Array): void;
  /** Takes no more commands, answers those in flight, then ends. */
  endWhenIdle(reason: EndReason): void;
}

export interface ConnectionFilter {
  /**
   * Returns the handler that takes the connection's lines in the place of `lines`. Called once,
   * while the connection is being created.
   */
  guard(connection: FilteredConnection, lines: LineHandler): LineHandler;
}

// Base class of filters: forwards every call.

export class ForwardingHandler implements LineHandler {
  /** The handler to forward to. It is set before the first line. */
  protected inner!: LineHandler;

  get mayTakeLine(): boolean {
    return this.inner.mayTakeLine;
  }

  lineBytesMax(bytes: Uint8Array, start: number, end: number): number {
    return this.inner.lineBytesMax(bytes, start, end);
  }

  onLine(bytes: Uint8Array, start: number, end: number, again: boolean): boolean {
    return this.inner.onLine(bytes, start, end, again);
  }

  onBadLine(): boolean {
    return this.inner.onBadLine();
  }

  onBody(bytes: Uint8Array, start: number, end: number, endsWell: boolean): boolean {
    return this.inner.onBody(bytes, start, end, endsWell);
  }

  onPiece(bytes: Uint8Array, start: number, end: number): number {
    return this.inner.onPiece(bytes, start, end);
  }

  onLastPiece(endsWell: boolean): boolean {
    return this.inner.onLastPiece(endsWell);
  }

  onDropped(): boolean {
    return this.inner.onDropped();
  }

  onTurnOver(): void {
    this.inner.onTurnOver();
  }
}

// The filter of connections that are closed when idle: notes their last activity.

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
