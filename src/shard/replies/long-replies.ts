// The replies of a shard that are too long for one message: they go out in pieces between other
// commands, as their clients read.

import { CR, LF } from "../../base/ascii.ts";
import { assert } from "../../base/assert.ts";
import { copyBytes } from "../../base/bytes.ts";
import { EMPTY_BODY } from "../../engine/jobs/body-arena.ts";
import { ReplyCredit } from "../../message/reply-credit.ts";
import { ResponseFlag, ResponseKind } from "../../message/response.ts";
import type { PartsCursor } from "../sessions/job-parts.ts";
import type { LongBatch, LongReply, ShardSession } from "../sessions/shard-session.ts";
import type { ReplyPort } from "./reply-port.ts";
import { ShortReplies } from "./short-replies.ts";

/** Bytes of a long reply in one message. */
const PIECE_BYTES_MAX = 32 * 1024;
/** The same for replies that refer to the arena. */
const STORED_PIECE_BYTES_MAX = 1024 * 1024;

export class LongReplies extends ShortReplies {
  /**
   * By acceptor, the long replies whose clients have read enough for the next piece, round robin.
   * No turn looks at the others: any number of clients may not read.
   */
  readonly #ready: Set<LongReply | LongBatch>[] = [];
  /** Number of these. Each turn reads it. */
  longReady = 0;

  constructor(...parameters: ConstructorParameters<typeof ShortReplies>) {
    super(...parameters);
    for (let acceptor = 0; acceptor < this.ports.length; acceptor++) this.#ready.push(new Set());
  }

  protected beginLongBatch(session: ShardSession, parts: PartsCursor, isGathered: boolean): void {
    assert(session.longReply === undefined, "a session reads one reply at a time");
    const reply: LongBatch = {
      session,
      parts,
      isGathered,
      flags: isGathered ? 0 : this.durable(),
      recordNumber: this.records.lastNumber,
      onRead: () => this.#noteReading(reply),
    };
    session.longReply = reply;
    assert(parts.leftBytes > 0, "a long batch has bytes");
    this.#noteReading(reply);
  }

  #sendBatchPiece({ session, parts, isGathered, flags, recordNumber }: LongBatch): boolean {
    const port = this.ports[session.acceptor]!;
    const bytes = Math.min(PIECE_BYTES_MAX, port.payloadBytesMax, parts.leftBytes);
    const isLast = bytes === parts.leftBytes;
    assert(bytes > 0, "a piece of a batch has bytes");
    const pieceFlags = flags | (isLast ? 0 : ResponseFlag.More);
    if (isGathered)
      port.beginSignal(ResponseKind.Gathered, pieceFlags | session.holdsFlag, session.connectionSlot, bytes);
    else this.beginPiece(session, pieceFlags, bytes, recordNumber);
    parts.copy(port.target, port.at, bytes);
    return isLast;
  }

  protected beginLong(
    session: ShardSession,
    head: Uint8Array,
    body: number,
    bodyBytes: number,
    flags: number,
  ): void {
    assert(session.longReply === undefined, "a session reads one reply at a time");
    assert(head.length > 0 && bodyBytes >= 0, "a long reply has a first line and a body");
    this.engine.bodies.pin(body);
    const reply: LongReply = {
      session,
      body,
      bodyBytes,
      head,
      // The flag is set now, because the pieces are sent between other commands.
      flags: flags | this.durable(),
      recordNumber: this.records.lastNumber,
      onRead: () => this.#noteReading(reply),
      sentBytes: 0,
    };
    session.longReply = reply;
    this.#noteReading(reply);
  }

  /** Lines up a reply whose client has read enough for the next piece. */
  #noteReading(reply: LongReply | LongBatch): void {
    const ready = this.#ready[reply.session.acceptor]!;
    assert(reply.session.longReply === reply, "a long reply is that of its session");
    if (!mayGoOn(reply) || ready.has(reply)) return;
    ready.add(reply);
    this.longReady++;
  }

  #leaveLine(reply: LongReply | LongBatch): void {
    if (this.#ready[reply.session.acceptor]!.delete(reply)) this.longReady--;
    assert(this.longReady >= 0, "long replies in line are counted");
  }

  /** Whether a long reply could continue now. */
  get longHasWork(): boolean {
    return this.#ready.some((ready, acceptor) => ready.size > 0 && this.#hasRoom(this.ports[acceptor]!));
  }

  /** Asks for room for the long replies whose clients have read enough. */
  wantRoomForLong(): void {
    for (const [acceptor, ready] of this.#ready.entries())
      if (ready.size > 0) this.ports[acceptor]!.ring.wantRoom();
  }

  /** Sends pieces round robin. Returns a session whose reply is complete, until there is none. */
  pumpLong(): ShardSession | undefined {
    for (const [acceptor, ready] of this.#ready.entries()) {
      const port = this.ports[acceptor]!;
      let left = ready.size;
      for (const reply of ready) {
        if (left-- === 0 || !this.#hasRoom(port)) break;
        this.#leaveLine(reply);
        if (!this.#sendPiece(reply)) {
          this.#noteReading(reply);
          continue;
        }
        assert(reply.session.longReply === reply, "a long reply belongs to its session");
        this.#unpin(reply);
        reply.session.longReply = undefined;
        return reply.session;
      }
    }
    return undefined;
  }

  /** Gives up the long reply of a session that ends. */
  abandonLong(session: ShardSession): void {
    const reply = session.longReply;
    if (reply === undefined) return;
    this.#leaveLine(reply);
    this.#unpin(reply);
    session.longReply = undefined;
  }

  #unpin(reply: LongReply | LongBatch): void {
    if (reply.parts === undefined) this.engine.bodies.unpin(reply.body);
    else reply.parts.end();
  }

  /**
   * Returns whether a piece of a long reply or list has room: half of the ring is for other
   * replies.
   */
  hasRoomForPiece(session: ShardSession): boolean {
    return this.#hasRoom(this.ports[session.acceptor]!);
  }

  #hasRoom(port: ReplyPort): boolean {
    return port.ring.used <= port.ring.messageBytesMax && !port.blocked && !port.storedIsFull;
  }

  /** Sends one piece. Returns true if it was the last. */
  #sendPiece(reply: LongReply | LongBatch): boolean {
    assert(!reply.session.ended, "no pieces are sent to a client that is gone");
    if (reply.parts !== undefined) return this.#sendBatchPiece(reply);
    const { isLocal } = this.ports[reply.session.acceptor]!;
    return isLocal && reply.bodyBytes >= this.storedBytesMin
      ? this.#sendStoredPiece(reply)
      : this.#sendBodyPiece(reply);
  }

  #sendBodyPiece(reply: LongReply): boolean {
    const port = this.ports[reply.session.acceptor]!;
    const headBytes = reply.head.length;
    const totalBytes = headBytes + reply.bodyBytes + 2;
    const pieceBytes = Math.min(PIECE_BYTES_MAX, port.payloadBytesMax, totalBytes - reply.sentBytes);
    assert(pieceBytes > 0, "a piece of a reply has bytes");
    const last = reply.sentBytes + pieceBytes === totalBytes;
    const flags = reply.flags | (last ? 0 : ResponseFlag.More);
    this.beginPiece(reply.session, flags, pieceBytes, reply.recordNumber);
    let done = 0;
    while (done < pieceBytes) {
      const position = reply.sentBytes + done;
      const at = port.at + done;
      const remaining = pieceBytes - done;
      if (position < headBytes) {
        const part = Math.min(remaining, headBytes - position);
        copyBytes(port.target, at, reply.head, position, part);
        done += part;
      } else if (position < headBytes + reply.bodyBytes) {
        const part = Math.min(remaining, headBytes + reply.bodyBytes - position);
        if (reply.body !== EMPTY_BODY)
          this.engine.bodies.read(reply.body, position - headBytes, port.target, at, part);
        done += part;
      } else {
        port.target[at] = position === totalBytes - 1 ? LF : CR;
        done++;
      }
    }
    reply.sentBytes += pieceBytes;
    assert(
      done === pieceBytes && reply.sentBytes <= totalBytes,
      "a piece is written whole and within its reply",
    );
    return last;
  }

  /** Sends a piece from the arena: the head goes with the first piece, CR LF with the last. */
  #sendStoredPiece(reply: LongReply): boolean {
    assert(
      reply.sentBytes === 0 || reply.sentBytes >= reply.head.length,
      "the first piece has the whole head",
    );
    const { head, body, bodyBytes } = reply;
    const headBytes = reply.sentBytes === 0 ? head.length : 0;
    const offset = reply.sentBytes === 0 ? 0 : reply.sentBytes - head.length;
    const length = Math.min(STORED_PIECE_BYTES_MAX, bodyBytes - offset);
    assert(offset >= 0 && length >= 0, "a piece begins within its body");
    const isLast = offset + length === bodyBytes;
    const flags = reply.flags | (isLast ? 0 : ResponseFlag.More);
    const part = { handle: body, offset, length, isLast, headBytes };
    const port = this.beginStored(reply.session, flags, reply.recordNumber, part);
    copyBytes(port.target, port.at, head, 0, headBytes);
    reply.sentBytes += headBytes + length;
    return isLast;
  }
}

function mayGoOn(reply: LongReply | LongBatch): boolean {
  if (reply.parts !== undefined && reply.isGathered) return true;
  return reply.session.unreadBytes < ReplyCredit.LongUnreadBytesMax;
}
