// The body of one connection's put on its way to a shard: gathered and sent whole, sent in pieces,
// or written to the arena of a shard in the same thread. Refused bodies are dropped.

import { assert } from "../../base/assert.ts";
import { shardOfTube } from "../../base/bytes.ts";
import { type BodyArena, type BodyPlace, EMPTY_BODY } from "../../engine/jobs/body-arena.ts";
import { HandleBytes, RequestFlag, RequestOp } from "../../message/request.ts";
import { Counter } from "../../message/topology.ts";
import { Reply } from "../../protocol/reply.ts";
import { Request } from "../../protocol/request.ts";
import type { ClientState } from "../migration/client-state.ts";
import type { LineReader } from "../stream/line-reader.ts";
import type { AcceptorParts, Replies } from "./replies.ts";

// The body of a put on its way from the receive buffer directly into the arena of a shard in the
// same thread.

export class StoredBody {
  #bodies: BodyArena | undefined;
  #handle = 0;
  #writtenBytes = 0;
  /** Memory ran out: the rest of the body is dropped as it arrives, and the put is refused. */
  failed = false;

  /** Whether a body is in progress. */
  get active(): boolean {
    return this.#bodies !== undefined;
  }

  /** Starts a body of `bodyBytes`. Returns false if there is no memory for it. */
  begin(bodies: BodyArena, bodyBytes: number): boolean {
    try {
      this.#handle = bodies.allocate(bodyBytes);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return false;
    }
    this.#bodies = bodies;
    this.#writtenBytes = 0;
    this.failed = false;
    this.#check(bodies);
    return true;
  }

  write(bytes: Uint8Array, start: number, length: number): void {
    if (this.failed) return;
    try {
      this.#bodies!.write(this.#handle, this.#writtenBytes, bytes, start, length);
      this.#writtenBytes += length;
      this.#check(this.#bodies!);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.#bodies!.free(this.#handle);
      this.failed = true;
    }
  }

  /** Whether any of its bytes have arrived. Until then a large body has no memory. */
  get hasBegun(): boolean {
    return this.#writtenBytes > 0;
  }

  /**
   * Finds room for up to `wanted` next bytes, to be written there without `write`. Returns false if
   * there is no memory.
   */
  findRoom(wanted: number, place: BodyPlace): boolean {
    if (this.failed || !this.#bodies!.limit.allows) return false;
    try {
      this.#bodies!.findRoom(this.#handle, this.#writtenBytes, wanted, place);
      return true;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return false;
    }
  }

  /** Notes that `length` bytes were written into that room. */
  filled(length: number): void {
    this.#bodies!.filled(this.#handle, length);
    this.#writtenBytes += length;
    this.#check(this.#bodies!);
  }

  /** Gives the body up if the arena is over its limit. */
  #check(bodies: BodyArena): void {
    if (bodies.limit.allows) return;
    bodies.free(this.#handle);
    this.failed = true;
  }

  get handle(): number {
    return this.#handle;
  }

  /** Ends its part in the body, which now belongs to the shard. */
  handOver(): void {
    this.#bodies = undefined;
  }

  /** Gives up a body in progress, if there is one. */
  abandon(): void {
    if (this.#bodies !== undefined && !this.failed) this.#bodies.free(this.#handle);
    this.#bodies = undefined;
  }
}

/** Bodies up to this size are gathered and sent whole; larger ones go to their shard in pieces. */
const GATHERED_BODY_BYTES_MAX = 64 * 1024;
/** Bytes of a large body in one message. */
const PIECE_BYTES_MAX = 32 * 1024;

const handleBytes = new HandleBytes();

export class PutUpload {
  readonly #acceptor: AcceptorParts;
  readonly #client: ClientState;
  readonly #replies: Replies;
  readonly #reader: LineReader;
  /** Whether a filter has to see the pieces of a body. */
  readonly #isFiltered: boolean;
  /** The put whose body is awaited; executed when it is complete. The object is reused. */
  #put: Request | undefined;
  /** The shard that stores the job. */
  #shard = 0;
  /** Its body, if that is written to the arena directly. */
  #stored: StoredBody | undefined;
  /** The reply to a command whose body is dropped. */
  #afterDrop = Reply.jobTooBig;

  constructor(
    acceptor: AcceptorParts,
    client: ClientState,
    replies: Replies,
    reader: LineReader,
    isFiltered: boolean,
  ) {
    this.#acceptor = acceptor;
    this.#client = client;
    this.#replies = replies;
    this.#reader = reader;
    this.#isFiltered = isFiltered;
  }

  /** Takes the line of a put. Returns false if it has to wait its turn. */
  // put 3/10
  begin(request: Request): boolean {
    const acceptor = this.#acceptor;
    const client = this.#client;
    const replies = this.#replies;
    const { tube, options, bodyBytes } = request;
    const shard =
      tube.length === 0 ? client.used.shard : shardOfTube(tube.bytes, tube.start, tube.end, acceptor.shards);
    const wholeBytesMax = Math.min(
      GATHERED_BODY_BYTES_MAX,
      acceptor.links.payloadBytesMax - tube.length - options.length,
    );
    const pieced = bodyBytes > wholeBytesMax;
    if (!replies.mayPut(shard, bodyBytes) || (pieced && replies.underWay > 0)) return false;
    if (!client.isProducer) replies.becomeProducer();
    request.atMs = acceptor.nowMs();
    request.id = acceptor.places.takeJobId(shard);
    replies.count(request.op);
    this.#shard = shard;
    const isStored = bodyBytes >= acceptor.topology.storedBytesMin && this.#beginStored(shard, bodyBytes);
    if (pieced && !isStored) {
      replies.shard = shard;
      request.op = RequestOp.PutOpen;
      request.slot = replies.slot;
      acceptor.links.post(shard, request);
      client.touched.add(shard);
      this.#reader.expectPieces(bodyBytes);
    } else {
      this.#put ??= new Request();
      this.#put.beginPut(request);
      if (isStored) this.#reader.expectPieces(bodyBytes);
      else this.#reader.expectBody(bodyBytes);
    }
    return true;
  }

  /** Starts a body in the shard's arena, if the shard is local and has memory. */
  #beginStored(shard: number, bodyBytes: number): boolean {
    const arena = this.#acceptor.arenas[shard];
    if (arena === undefined) return false;
    this.#stored ??= new StoredBody();
    return this.#stored.begin(arena, bodyBytes);
  }

  // --- whole bodies and pieces -------------------------------------------------------------------

  onBody(bytes: Uint8Array, start: number, end: number, endsWell: boolean): boolean {
    if (!endsWell) return this.#replies.answer(0, Reply.expectedCrlf);
    const put = this.#put;
    assert(put !== undefined, "a body belongs to a put");
    put.body.set(bytes, start, end);
    const sent = this.#replies.send(this.#shard, put);
    put.body.clear();
    return sent;
  }

  onPiece(bytes: Uint8Array, start: number, end: number): number {
    if (this.#stored?.active === true) {
      this.#stored.write(bytes, start, end - start);
      return end - start;
    }
    const length = Math.min(end - start, PIECE_BYTES_MAX, this.#acceptor.links.payloadBytesMax);
    const piece = this.#replies.message(RequestOp.PutData);
    piece.body.set(bytes, start, start + length);
    return this.#replies.write(this.#replies.shard, piece) ? length : 0;
  }

  onLastPiece(endsWell: boolean): boolean {
    if (this.#stored?.active === true) return this.#endStored(this.#stored, endsWell);
    const replies = this.#replies;
    const { shard } = replies;
    const last = replies.message(RequestOp.PutEnd);
    if (!endsWell) last.flags = RequestFlag.BadBody;
    if (!replies.write(shard, last)) return false;
    replies.noteSent(shard);
    return true;
  }

  #endStored(stored: StoredBody, endsWell: boolean): boolean {
    const put = this.#put;
    assert(put !== undefined, "a body belongs to a put");
    // Without options, it can't be the duplicate of another, which needs no room.
    if (!endsWell || (stored.failed && put.options.length === 0)) {
      if (!this.#replies.answer(0, endsWell ? Reply.outOfMemory : Reply.expectedCrlf)) return false;
      stored.abandon();
      return true;
    }
    put.op = RequestOp.PutStored;
    if (stored.failed) put.flags = RequestFlag.NoRoom;
    handleBytes.put(stored.failed ? EMPTY_BODY : stored.handle, put.body);
    if (!this.#replies.send(this.#shard, put)) return false;
    stored.handOver();
    return true;
  }

  /** Gives up a body that is partly in an arena. */
  abandon(): void {
    this.#stored?.abandon();
  }

  // --- refused bodies ----------------------------------------------------------------------------

  /** Drops the body that follows and answers with `reply`. */
  drop(bodyBytes: number, reply: Uint8Array): void {
    this.#afterDrop = reply;
    this.#reader.dropBody(bodyBytes);
  }

  onDropped(): boolean {
    return this.#replies.answer(0, this.#afterDrop);
  }

  // --- bodies that a socket receives into the arena ----------------------------------------------

  /**
   * Whether a body that is partly in an arena of this thread lacks enough bytes to be received
   * there directly.
   */
  get awaitsBytes(): boolean {
    if (this.#stored?.active !== true || !this.#stored.hasBegun || this.#isFiltered) return false;
    return this.#reader.pieceBytesLeft >= this.#acceptor.topology.inPlaceBytesMin;
  }

  /**
   * Finds room for these bytes in the arena; `onStored` reports their arrival. Returns false
   * without memory.
   */
  findRoom(place: BodyPlace): boolean {
    return this.#stored!.findRoom(this.#reader.pieceBytesLeft, place);
  }

  /** Returns whether the body ends after `length` more bytes. */
  endsAfter(length: number): boolean {
    return this.#reader.pieceBytesLeft === length;
  }

  /** Notes that `length` bytes were written into that room. */
  onStored(length: number): void {
    if (this.#replies.isEnding || this.#stored?.active !== true) return;
    this.#replies.add(Counter.BytesIn, length);
    this.#stored.filled(length);
    this.#reader.pieceCame(length);
  }
}
