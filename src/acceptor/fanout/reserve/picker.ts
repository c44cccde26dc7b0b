// What a reserve over several shards takes of what is ready there: see shared-reserve.ts.

import type { Request, Span } from "../../../protocol/request.ts";
import type { SerialQueue } from "../../state/serial-queue.ts";
import type { Signal } from "../conversation.ts";

/** What is to be done after an answer of a shard that was asked to give jobs. */
export const Next = {
  /** Wait for more answers, or for the end. */
  GoOn: 0,
  /** Choose anew among what is known. */
  Choose: 1,
  /** Ask all shards anew. */
  Collect: 2,
} as const;
export type Next = (typeof Next)[keyof typeof Next];

export interface Picker {
  /** Where it waits for its turn before shards are asked, if it has to. */
  readonly turnstile?: SerialQueue;
  /** RequestFlags of a wait for one job. */
  readonly waitFlags: number;
  /** Makes a message the question to a shard what it has, which stays where it is. */
  ask(message: Request): void;
  /** A shard's answer to that. */
  note(signal: Signal): void;
  /** Has shards give the best of what they have named; false if there is nothing. */
  take(): boolean;
  /** A shard's answer to that, if it is not a reply for the client. */
  onRefusal(signal: Signal): Next;
  /** Jobs for the acceptor to put together, or a part of them. */
  onGathered?(shard: number, flags: number, bytes: Span): Next;
  onRoom?(): void;
  onClosed?(): void;
}
