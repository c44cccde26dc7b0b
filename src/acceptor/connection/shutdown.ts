// The end of one connection: half-closed, ending, forgotten by its shards, closed.
//
// A client that sees the end may rely on its effects on every acceptor. So the end is sent only
// after the shards have released what the connection held and no gauge counts it. Commands in
// flight are answered first, since the client may only have half-closed. Once it is ending, only
// Credit and Close may be posted: a shard would take anything else for a new connection.

import { END_REASONS, type EndReason } from "../../message/acceptor-counts.ts";
import { RequestFlag, RequestOp } from "../../message/request.ts";
import { Counter } from "../../message/topology.ts";
import type { ClientState } from "../migration/client-state.ts";
import type { ConnectionFacts } from "../state/connection-facts.ts";
import type { InputLimit } from "../state/input-limit.ts";
import type { RunQueueEntry } from "../state/run-queues.ts";
import type { LineReader } from "../stream/line-reader.ts";
import type { Transport } from "../stream/transport.ts";
import type { Conversations } from "./conversations.ts";
import type { AcceptorParts, Replies } from "./replies.ts";

/** The connection that ends, with the parts that are involved. */
export interface EndingConnection extends RunQueueEntry {
  readonly acceptor: AcceptorParts;
  readonly client: ClientState;
  readonly replies: Replies;
  readonly conversations: Conversations;
  readonly reader: LineReader;
  readonly inputLimit: InputLimit;
  readonly transport: Transport;
  readonly facts: ConnectionFacts;
  /** Gives up a body that is partly in an arena. */
  abandonBody(): void;
}

export class Shutdown {
  /** Set once the socket moves no more bytes. The slot lives until every shard has forgotten it. */
  isDead = false;
  /** Closed messages still to come. */
  closesLeft = 0;
  readonly #connection: EndingConnection;
  #reason: EndReason | undefined;
  /** The connection ends without answering its commands in flight. */
  #isCut = false;
  /** The transport has been told to close. */
  #isFinished = false;
  /** The connection is about to migrate: it takes no input and does not end. */
  #isLeaving = false;
  /** Set if the connection was told to end in the meantime. */
  #endsAfterLeaving: EndReason | undefined;

  constructor(connection: EndingConnection) {
    this.#connection = connection;
  }

  /** Handles the end of the client's stream. */
  halfClose(): void {
    const { replies } = this.#connection;
    if (replies.isHalfClosed) return;
    replies.isHalfClosed = true;
    this.#reason ??= "client";
    const { reservesUnderWay, shard } = replies;
    if (reservesUnderWay > 0) replies.post(shard, replies.message(RequestOp.HalfClose));
    replies.conversation?.onHalfClose?.();
  }

  /**
   * Returns whether all commands of a half-closed client are with their shard, so that the Close
   * may follow. It has to wait while jobs move: a command may follow its job to a shard that would
   * see the Close first, or never.
   */
  get mayFollow(): boolean {
    const { acceptor, replies, reader } = this.#connection;
    if (!replies.isHalfClosed || replies.conversation !== undefined) return false;
    return replies.underWay === 0 || (reader.bufferedBytes === 0 && !acceptor.places.jobsMove);
  }

  /** Takes no more input, before a graceful end. Returns false while the connection migrates. */
  prepare(reason: EndReason): boolean {
    if (this.#isLeaving) {
      this.#endsAfterLeaving = reason;
      return false;
    }
    this.#reason ??= reason;
    this.#connection.reader.stop();
    return true;
  }

  /** Ends the connection: it takes no more commands. */
  end(reason: EndReason = "error"): true {
    const connection = this.#connection;
    const { acceptor, replies, reader, inputLimit } = connection;
    if (replies.isEnding) return true;
    replies.isEnding = true;
    if (!replies.isDeaf) this.#dropUnsent();
    const why = this.#reason ?? reason;
    replies.add(Counter.Closed + END_REASONS.indexOf(why), 1);
    acceptor.closed?.note(connection.facts, why, acceptor.nowMs());
    reader.stop();
    connection.abandonBody();
    inputLimit.end();
    if (replies.gatheredBytes > 0) acceptor.runQueues.markDirty(connection);
    this.#postCloses();
    return true;
  }

  /**
   * Tells every shard that knows the connection to release what it holds and to forget it. This
   * happens in the turn in which the end is read, so that the Close precedes what other clients
   * send afterwards.
   */
  #postCloses(): void {
    const { acceptor, client, replies } = this.#connection;
    for (let shard = 0; shard < acceptor.shards; shard++) {
      if (!client.touched.has(shard)) continue;
      this.closesLeft++;
      this.#postClose(shard, !replies.isDeaf);
    }
    // Closed counts as an expected answer: the client may be waiting for the end of the connection.
    acceptor.pendingReplies.expect(replies);
  }

  #postClose(shard: number, isOrderly: boolean): void {
    const { replies } = this.#connection;
    const close = replies.message(RequestOp.Close);
    close.flags =
      (isOrderly ? RequestFlag.Orderly : 0) | (this.#reason === "stop" ? RequestFlag.Stopping : 0);
    replies.post(shard, close);
  }

  /**
   * Stops counting the connection: all shards have released what it held, so its end may be sent.
   */
  onForgotten(): void {
    const { client, replies } = this.#connection;
    if (client.isProducer) replies.add(Counter.Producers, -1);
    if (client.isWorker) replies.add(Counter.Workers, -1);
  }

  /** Closes the transport once the shards have forgotten it and all output is handed over. */
  finish(): void {
    const { replies, transport } = this.#connection;
    if (this.#isFinished || this.isDead || this.closesLeft > 0 || replies.waitsForLog) return;
    this.#isFinished = true;
    transport.end();
  }

  /** Handles a socket that moves no more bytes: no client is left to answer. */
  onClosed(): void {
    this.depart();
    this.#connection.replies.clear();
    this.#dropUnderWay();
    this.end();
  }

  /** Notes that this acceptor has no socket for the connection any more. */
  depart(): void {
    this.isDead = true;
    this.#connection.replies.isDeaf = true;
    this.#dropUnsent();
  }

  /** Ends the connection at once: see FilteredConnection. */
  cut(reply: Uint8Array): void {
    if (this.isDead || this.#isCut) return;
    const { replies } = this.#connection;
    this.#isCut = true;
    replies.isDeaf = true;
    this.#dropUnsent();
    this.#dropUnderWay();
    if (replies.isEnding) return;
    if (!replies.isInReply) replies.say(reply, 0, reply.length);
    this.end("auth");
  }

  /** Abandons the commands in flight: nothing more is reported about them. */
  #dropUnderWay(): void {
    const { replies, conversations } = this.#connection;
    conversations.abandon();
    // A Close that waits behind a long reply would wait forever.
    const { underWay, shard } = replies;
    if (replies.isEnding && underWay > 0) this.#postClose(shard, false);
  }

  /** Forgets a change by hand that no shard has: its body is incomplete. */
  #dropUnsent(): void {
    const { replies } = this.#connection;
    if (replies.isIdle) replies.byHand = undefined;
  }

  // --- while the connection migrates -------------------------------------------------------------

  leave(): void {
    this.#isLeaving = true;
  }

  /** Cancels the migration. Returns the reason if the connection was told to end meanwhile. */
  stay(): EndReason | undefined {
    this.#isLeaving = false;
    return this.#endsAfterLeaving;
  }

  get isToEnd(): boolean {
    return this.#endsAfterLeaving !== undefined;
  }
}
