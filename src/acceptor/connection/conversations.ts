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
import type { AcceptorParts, Pipeline } from "./pipeline.ts";

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
  readonly #pipeline: Pipeline;
  /** The connection, as the queues of the acceptor see it. */
  readonly #connection: RunQueueEntry;
  #waitNumber = 0;
  /** The shard that waits until another shard has executed a redirected command. */
  #redirected = NOWHERE;

  constructor(acceptor: AcceptorParts, pipeline: Pipeline, connection: RunQueueEntry) {
    this.#acceptor = acceptor;
    this.#pipeline = pipeline;
    this.#connection = connection;
  }

  /** Starts a command that takes several messages. */
  begin(conversation: Conversation): true {
    this.#pipeline.conversation = conversation;
    this.#acceptor.pendingReplies.expect(this.#pipeline);
    conversation.begin?.();
    return true;
  }

  /** Finds the job of a command and executes the command on the job's shard. */
  find(request: Request): true {
    return this.begin(new FindJob(this, this.#acceptor.places, request));
  }

  /** Takes an answer addressed to the acceptor itself. */
  onSignal(signal: Signal): void {
    this.#pipeline.noteHolding(signal.shard, signal.flags);
    if (signal.kind === ResponseKind.Redirected) {
      if (this.#pipeline.isEnding) this.#giveUp(signal.shard);
      else this.#follow(signal);
    } else this.#pipeline.conversation?.onSignal(signal);
  }

  onGathered(shard: number, flags: number, bytes: Span): void {
    this.#pipeline.noteHolding(shard, flags);
    this.#pipeline.conversation?.onGathered?.(shard, flags, bytes);
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
    this.#pipeline.sample = undefined;
    this.#pipeline.outbox.meter.begin(0);
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
    const pipeline = this.#pipeline;
    const unreadBytes = pipeline.outbox.bytes;
    const goOn = this.message(RequestOp.GoOn);
    goOn.meterBytes = unreadBytes;
    pipeline.outbox.meter.begin(unreadBytes);
    pipeline.post(shard, goOn);
    if (pipeline.inFlight.answered()) {
      pipeline.abortable = 0;
      this.#acceptor.pendingReplies.expectNothing(pipeline);
    } else this.#acceptor.pendingReplies.expect(pipeline);
  }

  // --- the interface of a conversation -----------------------------------------------------------

  message(op: number): Request {
    return this.#acceptor.links.message(op);
  }

  post(shard: number, message: Request): void {
    this.#pipeline.post(shard, message);
  }

  get payloadBytesMax(): number {
    return this.#acceptor.links.payloadBytesMax;
  }

  get barrierHelps(): boolean {
    return this.#acceptor.barrierHelps;
  }

  get mayTakeMore(): boolean {
    return this.#pipeline.mayTakeMore;
  }

  appendPiece(bytes: Uint8Array, length: number, first: boolean): void {
    this.#pipeline.append(bytes, 0, length, first);
    this.#pipeline.isInReply = true;
  }

  holdFor(shard: number, recordNumber: number): void {
    this.#pipeline.holdFor(shard, recordNumber);
  }

  finishConversation(reply: Uint8Array | undefined): void {
    const pipeline = this.#pipeline;
    pipeline.conversation = undefined;
    pipeline.isInReply = false;
    // An abortable batch may be in flight behind a redirected command.
    if (this.#redirected === NOWHERE) pipeline.abortable = 0;
    pipeline.outbox.meter.begin(0);
    this.#acceptor.pendingReplies.expectNothing(pipeline);
    if (reply !== undefined) pipeline.append(reply, 0, reply.length);
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
    this.#acceptor.claims.open(this.#pipeline.slot, this.#waitNumber);
    return this.#waitNumber;
  }

  claimWait(number: number): boolean {
    return this.#acceptor.claims.claim(this.#pipeline.slot, number);
  }

  /** Drops the conversation without a reply, and ends its wait. */
  abandon(): void {
    if (this.#waitNumber !== 0) this.claimWait(this.#waitNumber);
    const { conversation } = this.#pipeline;
    this.#pipeline.conversation = undefined;
    conversation?.onClosed?.();
  }
}
