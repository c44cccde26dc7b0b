// The interface of a strategy that takes jobs for a reserve over several shards: see
// shared-reserve.ts.

import type { Request, Span } from "../../../protocol/request.ts";
import type { SerialQueue } from "../../state/serial-queue.ts";
import type { Signal } from "../conversation.ts";

/** The next step after a shard that was asked to give jobs has answered. */
export const Next = {
  /** Wait for more answers or for the end. */
  GoOn: 0,
  /** Choose again among the known candidates. */
  Choose: 1,
  /** Ask all shards again. */
  Collect: 2,
} as const;
export type Next = (typeof Next)[keyof typeof Next];

export interface Picker {
  /** The queue to wait in before asking the shards, if there is one. */
  readonly queue?: SerialQueue;
  /** Called before all shards are asked. */
  begin?(): void;
  /** Turns a message into a request that a shard name its best jobs without taking them. */
  ask(message: Request): void;
  /** Takes a shard's answer to that request. */
  note(signal: Signal): void;
  /** Whether the answers show that all shards have to be asked again before a choice. */
  readonly isOutdated?: boolean;
  /** Adds to the message that makes a shard wait for one job. */
  fillWait?(message: Request): void;
  /** Asks shards for the best of their candidates. Returns false if there are none. */
  take(): boolean;
  /** Takes an answer to `take` that is not a reply for the client. */
  onRefusal(signal: Signal): Next;
  /** Takes jobs, or part of them, that the acceptor assembles. */
  onGathered?(shard: number, flags: number, bytes: Span): Next;
  onRoom?(): void;
  onClosed?(): void;
}
