// The interface between a connection and the filter of its lines.

import type { EndReason } from "../../message/end-reason.ts";
import type { LineHandler } from "../input/line-reader.ts";
import type { TubeRef } from "../state/tube-ref.ts";

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
