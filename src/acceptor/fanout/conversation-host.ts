// What a conversation may do with its connection.

import type { Request } from "../../protocol/request.ts";

export interface ConversationHost {
  /** A message of the connection, to be filled in and posted before the next one is asked for. */
  message(op: number): Request;
  /** Sends a message, which finds its way however full the ring is. */
  post(shard: number, message: Request): void;
  /** Largest payload of one message to a shard. */
  readonly payloadBytesMax: number;
  /** What is answered from here on does not leave before a record of a shard is as far in the log as replies wait for. */
  holdFor(shard: number, recordNumber: number): void;
  /** Ends the conversation, with a reply if its reply is not in the output already. */
  finishConversation(reply: Uint8Array | undefined): void;
  /** Ends it with OK and a text. */
  finishWithText(text: string): void;

  /** Whether the client has read so much that a piece of a long list may follow. */
  readonly mayTakeMore: boolean;
  /** `bytes[0, length)` of a list. */
  appendPiece(bytes: Uint8Array, length: number, first: boolean): void;

  nowMs(): number;
  /** Whether ends of connections may be on their way at other acceptors. */
  readonly hasOtherAcceptors: boolean;
  /** Opens a wait in the claim word; returns its number. */
  openWait(): number;
  /** Ends the wait; false if a shard already has. */
  claimWait(number: number): boolean;
}
