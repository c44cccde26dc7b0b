// The operations that a conversation may perform on its connection.

import type { Request } from "../../protocol/request.ts";

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
