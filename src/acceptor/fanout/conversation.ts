// A command that takes more than one message. It runs alone on its connection until it is answered.

import type { Request, Span } from "../../protocol/request.ts";

// A queue that lets one waiter proceed at a time.
//
// Batches over several shards use it while they choose their jobs. Otherwise all batches of an
// acceptor would choose the same best jobs, all but one in vain: with fifty workers, nearly all
// work was done fifty times. With the queue, the jobs of one batch are gone before the next one
// asks.
//
// Lists of jobs over all shards use another one, since each takes memory.

export interface Waiter {
  /** Called when the waiter's turn begins. It lasts until the waiter leaves. */
  onTurn(): void;
}

export class SerialQueue {
  readonly #line = new Set<Waiter>();

  /** Joins the queue; `onTurn` is called now or later. The waiter whose turn it is keeps it. */
  enter(waiter: Waiter): void {
    this.#line.add(waiter);
    if (this.#first() === waiter) waiter.onTurn();
  }

  /** Leaves the queue, if it is there, whether it had its turn or not. */
  leave(waiter: Waiter): void {
    const had = this.#first() === waiter;
    if (!this.#line.delete(waiter) || !had) return;
    this.#first()?.onTurn();
  }

  #first(): Waiter | undefined {
    const [first] = this.#line;
    return first;
  }
}

// The operations that a conversation may perform on its connection.

export interface ConversationHost {
  /**
   * Returns the connection's message object. Fill it in and post it before asking for the next one.
   */
  message(op: number): Request;
  /** Sends a message that gets through however full the ring is. */
  post(shard: number, message: Request): void;
  /** The largest payload of one message to a shard. */
  readonly payloadBytesMax: number;
  /**
   * Holds replies from here on until the shard's record is as far in the log as replies require.
   */
  holdFor(shard: number, recordNumber: number): void;
  /** Ends the conversation, with a reply unless the output already contains it. */
  finishConversation(reply: Uint8Array | undefined): void;
  /** Ends the conversation with OK and a text. */
  finishWithText(text: string): void;

  /** Whether the client has read enough for the next piece of a long reply. */
  readonly mayTakeMore: boolean;
  /** Appends `bytes[0, length)` of a long reply. */
  appendPiece(bytes: Uint8Array, length: number, first: boolean): void;

  nowMs(): number;
  /**
   * Whether an acceptor may know of the end of a connection that has not reached the shards, or
   * find one when it reads its sockets: another one, or this one if it reads ends late.
   */
  readonly barrierHelps: boolean;
  /** Opens a wait in the claim word. Returns its number. */
  openWait(): number;
  /** Ends the wait. Returns false if a shard already has. */
  claimWait(number: number): boolean;
}

/** A shard's answer to the acceptor. Valid only during the call. */
export interface Signal {
  readonly shard: number;
  /** A ResponseKind. */
  readonly kind: number;
  /** A set of ResponseFlag bits. */
  readonly flags: number;
  /** The view of the kind names these two: see message/response.ts. */
  readonly value: number;
  readonly pri: number;
  /**
   * The soonest deadline among the jobs that the connection holds on that shard, in monotonic ms.
   */
  readonly soonestMs: number;
  /** If the flags include Durable: the shard's record that the resulting reply waits for. */
  readonly recordNumber: number;
  /** The whole payload, starting with the soonest deadline. */
  readonly payload: Span;
}

export interface Conversation {
  /** Sends the first messages, if the constructor has not. */
  begin?(): void;
  onSignal(signal: Signal): void;
  /** Called after the last part of a shard's reply, whose bytes are in the output already. */
  onReply(shard: number): void;
  /** Takes part of a shard's list of tubes. */
  onTubes?(shard: number, names: Span): void;
  /** Takes part of the jobs of a batch that is assembled here. */
  onGathered?(shard: number, flags: number, bytes: Span): void;
  /** Called when the client has sent more bytes. */
  onInput?(): void;
  /** Called when the client may have read enough for a long reply to continue. */
  onRoom?(): void;
  /** Called when the connection is gone. */
  onClosed?(): void;
  /** Called when the client has closed its sending side. */
  onHalfClose?(): void;
}
