// The conversation of one connection: a command that takes several messages, from its beginning to
// its reply. A redirected command becomes one, too.

import { RequestOp } from "../../message/request.ts";
import {
  DELETED_HEADER_BYTES,
  REDIRECTED_HEADER_BYTES,
  RedirectedView,
  ResponseKind,
} from "../../message/response.ts";
import { Op } from "../../protocol/commands.ts";
import { Reply, textReply } from "../../protocol/reply.ts";
import { Request, type Span } from "../../protocol/request.ts";
import type { Conversation, ConversationHost, Signal } from "../fanout/conversation.ts";
import { type BegunBatch, DeleteBatch } from "../fanout/delete-batch.ts";
import { FindJob } from "../fanout/find-job.ts";
import type { RunQueueEntry } from "../state/run-queues.ts";
import type { AcceptorParts, Replies } from "./replies.ts";

// Rebuilds a redirected command from the shard's message.

/** Returns the command, with its own copies of all bytes. */
function redirectedRequest(signal: Signal): Request {
  const { payload } = signal;
  const { bytes, start } = payload;
  const view = new DataView(bytes.buffer, bytes.byteOffset + start);
  const word = view.getUint32(8, true);
  const request = new Request().begin(word & 0xff);
  request.id = RedirectedView.id(signal);
  request.pri = RedirectedView.pri(signal);
  request.delaySeconds = view.getUint32(12, true);
  const optionsAt = start + REDIRECTED_HEADER_BYTES;
  const optionsEnd = optionsAt + (word >>> 8);
  request.options.set(bytes.slice(optionsAt, optionsEnd), 0, optionsEnd - optionsAt);
  if (request.op === Op.DeleteBatch) {
    const idsAt = optionsEnd + DELETED_HEADER_BYTES + view.getUint32(optionsEnd - start + 4, true);
    request.ids.set(bytes.slice(idsAt, payload.end), 0, payload.end - idsAt);
  } else request.body.set(bytes.slice(optionsEnd, payload.end), 0, payload.end - optionsEnd);
  return request;
}

/** Returns the part of a delete-batch that the shard has already done. */
function begunBatch({ shard, payload }: Signal): BegunBatch {
  const { bytes, start } = payload;
  const at = start + REDIRECTED_HEADER_BYTES;
  const view = new DataView(bytes.buffer, bytes.byteOffset + at);
  const resultsAt = at + DELETED_HEADER_BYTES;
  const results = bytes.slice(resultsAt, resultsAt + view.getUint32(4, true));
  return { shard, recordNumber: view.getUint32(0, true), results };
}

const NOWHERE = -1;

export class Conversations implements ConversationHost {
  readonly #acceptor: AcceptorParts;
  readonly #replies: Replies;
  /** The connection, as the queues of the acceptor see it. */
  readonly #connection: RunQueueEntry;
  #waitNumber = 0;
  /** The shard that waits until another shard has executed a redirected command. */
  #redirected = NOWHERE;

  constructor(acceptor: AcceptorParts, replies: Replies, connection: RunQueueEntry) {
    this.#acceptor = acceptor;
    this.#replies = replies;
    this.#connection = connection;
  }

  /** Starts a command that takes several messages. */
  begin(conversation: Conversation): true {
    this.#replies.conversation = conversation;
    this.#acceptor.pendingReplies.expect(this.#replies);
    conversation.begin?.();
    return true;
  }

  /** Finds the job of a command and executes the command on the job's shard. */
  find(request: Request): true {
    return this.begin(new FindJob(this, this.#acceptor.places, request));
  }

  /** Takes an answer addressed to the acceptor itself. */
  onSignal(signal: Signal): void {
    this.#replies.noteHolding(signal.shard, signal.flags);
    if (signal.kind === ResponseKind.Redirected) {
      if (this.#replies.isEnding) this.#giveUp(signal.shard);
      else this.#follow(signal);
    } else if (signal.kind === ResponseKind.Replaced) this.#replies.noteReplaced(signal.payload);
    else this.#replies.conversation?.onSignal(signal);
  }

  onGathered(shard: number, flags: number, bytes: Span): void {
    this.#replies.noteHolding(shard, flags);
    this.#replies.conversation?.onGathered?.(shard, flags, bytes);
  }

  // --- redirected commands -----------------------------------------------------------------------

  /** Whether the conversation executes a redirected command. */
  get isRedirected(): boolean {
    return this.#redirected !== NOWHERE;
  }

  /**
   * Handles a redirect: the shard no longer has the job of the oldest command in flight and holds
   * back the commands after it. A conversation finds the job and answers the command.
   */
  #follow(signal: Signal): void {
    this.#redirected = signal.shard;
    this.#replies.sample = undefined;
    this.#replies.beginMeter(0);
    const request = redirectedRequest(signal);
    if (request.op !== Op.DeleteBatch) {
      this.find(request);
      return;
    }
    const { places } = this.#acceptor;
    this.begin(new DeleteBatch(this, places, request.body, begunBatch(signal)));
  }

  /**
   * Answers NOT_FOUND to a redirected command whose client has already ended. This happens only at
   * the first transfer, when acceptors did not know yet that jobs move. Shards must get no more
   * messages about the connection.
   */
  #giveUp(shard: number): void {
    this.#redirected = shard;
    this.finishConversation(Reply.notFound);
  }

  /** Ends a redirect: its shard may continue with the commands that it holds back. */
  #endRedirect(shard: number): void {
    this.#redirected = NOWHERE;
    const replies = this.#replies;
    const unreadBytes = replies.unsentBytes;
    const goOn = this.message(RequestOp.GoOn);
    goOn.meterBytes = unreadBytes;
    replies.beginMeter(unreadBytes);
    replies.post(shard, goOn);
    if (replies.noteAnswered()) {
      replies.abortable = 0;
      this.#acceptor.pendingReplies.expectNothing(replies);
    } else this.#acceptor.pendingReplies.expect(replies);
  }

  // --- the interface of a conversation -----------------------------------------------------------

  message(op: number): Request {
    return this.#acceptor.links.message(op);
  }

  post(shard: number, message: Request): void {
    this.#replies.post(shard, message);
  }

  get payloadBytesMax(): number {
    return this.#acceptor.links.payloadBytesMax;
  }

  get barrierHelps(): boolean {
    return this.#acceptor.barrierHelps;
  }

  get mayTakeMore(): boolean {
    return this.#replies.mayTakeMore;
  }

  appendPiece(bytes: Uint8Array, length: number, first: boolean): void {
    this.#replies.say(bytes, 0, length, first);
    this.#replies.isInReply = true;
  }

  holdFor(shard: number, recordNumber: number): void {
    if (this.#replies.holdFor(shard, recordNumber)) this.#acceptor.runQueues.waitForLog(this.#connection);
  }

  finishConversation(reply: Uint8Array | undefined): void {
    const replies = this.#replies;
    replies.conversation = undefined;
    replies.isInReply = false;
    // An abortable batch may be in flight behind a redirected command.
    if (this.#redirected === NOWHERE) replies.abortable = 0;
    replies.beginMeter(0);
    this.#acceptor.pendingReplies.expectNothing(replies);
    if (reply !== undefined) replies.say(reply, 0, reply.length);
    if (this.#redirected !== NOWHERE) this.#endRedirect(this.#redirected);
    this.#acceptor.runQueues.proceedLater(this.#connection);
  }

  finishWithText(text: string): void {
    this.finishConversation(textReply(text));
  }

  nowMs(): number {
    return this.#acceptor.nowMs();
  }

  openWait(): number {
    this.#waitNumber = (this.#waitNumber + 1) & 0x7fffffff || 1;
    this.#acceptor.claims.open(this.#replies.slot, this.#waitNumber);
    return this.#waitNumber;
  }

  claimWait(number: number): boolean {
    return this.#acceptor.claims.claim(this.#replies.slot, number);
  }

  /** Drops the conversation without a reply, and ends its wait. */
  abandon(): void {
    if (this.#waitNumber !== 0) this.claimWait(this.#waitNumber);
    const { conversation } = this.#replies;
    this.#replies.conversation = undefined;
    conversation?.onClosed?.();
  }
}
