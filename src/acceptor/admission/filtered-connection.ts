// What stands between a connection and its lines where a listener lets in not everybody.

import type { EndReason } from "../../message/end-reason.ts";
import type { LineHandler } from "../input/line-reader.ts";
import type { TubeRef } from "../state/tube-ref.ts";

/** A connection, as its gate sees it. */
export interface FilteredConnection extends LineHandler {
  readonly usedTube: string;
  readonly watchedTubes: readonly TubeRef[];
  /** It waits for nothing, and holds no job. */
  readonly isQuiet: boolean;
  /** All that it has asked is answered, and the replies are with its transport. */
  readonly isAnswered: boolean;
  /** Answers a line in its place among the replies; false if the line has to wait. */
  refuse(reply: Uint8Array): boolean;
  /** The body that follows is dropped, and answered with `reply`. */
  refuseBody(bodyBytes: number, reply: Uint8Array): void;
  /** Answers a line, and ends the connection; false if the line has to wait. */
  refuseAndEnd(reply: Uint8Array): boolean;
  /** The line that has to wait does so for its gate: the connection does not end before `goOn`. */
  holdOn(): void;
  /** The line that had to wait is told again. */
  goOn(): void;
  /**
   * Ends it at once: nothing that is under way is answered any more, and jobs on their way to it go back with those that it holds.
   * `reply` is the last that it is told, unless a reply is half sent.
   */
  cut(reply: Uint8Array): void;
  /** Takes no more, answers what is under way, and ends. */
  endWhenIdle(reason: EndReason): void;
}

export interface Gate {
  /** Who takes the lines of the connection in its place. Called once, while the connection is made. */
  guard(connection: FilteredConnection): LineHandler;
}
