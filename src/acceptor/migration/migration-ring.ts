// The writing end of the ring that carries connections from one acceptor to another. It is in
// shared memory, as all traffic between threads is. A message port would cost the sleeping thread a
// round of its event loop, and both sides a copy by V8.
//
//   offset  4  int32    descriptor
//   offset  8  float64  number of the move
//   offset 16  float64  openedAtMs
//   offset 24  float64  when it may move again, in monotonic ms
//   offset 32  uint32   moves so far
//   offset 36  uint32   MigrationFlag
//   offset 40  float64  number of the next batch
//   offset 48  int32    listener, -1 for none
//   offset 52  uint32   number of bytes that were read meanwhile
//   offset 56  uint16   number of shards that know it
//   offset 58  uint16   number of tube names
//   offset 60  the shards, one byte each; the names, each after a byte with its length (the tube in
//              use, the watched tubes, and the client's address and name if there are any); the
//              order of reserves, as uint8, its floor, as float64, and the weight of each watched
//              tube, as uint16, if it has chosen one; the bytes that were read

import { copyBytes, latin1 } from "../../base/bytes.ts";
import { MIGRATION_RING_BYTES } from "../../message/topology.ts";
import type { ReserveOrder } from "../../protocol/request.ts";
import { EMPTY, messageBytesMax, RingReader, RingWriter } from "../../ring/ring.ts";
import type { HandedOver } from "../stream/transport.ts";
import type { ConnectionState, MovedConnection, MovedOrder } from "./client-state.ts";

const MIGRATION_HEADER_BYTES = 60;
const MigrationFlag = { Producer: 1, Worker: 2, Peer: 4, Bytes: 8, Name: 16, Order: 32 } as const;
/** A connection with more bytes read meanwhile does not move. */
export const MIGRATION_BYTES_MAX: number = 16 * 1024;
/** A connection whose state takes more never fits into a message. */
export const STATE_BYTES_MAX: number = messageBytesMax(MIGRATION_RING_BYTES) - MIGRATION_BYTES_MAX;
const NAME_BYTES_MAX = 255;
/** An order and its floor, and the weight of each watched tube. */
const ORDER_BYTES = 9;
const WEIGHT_BYTES = 2;

/** The route to another acceptor. */
export interface MigrationWay {
  /** Returns whether a connection with this state can be sent now. */
  hasRoom(state: ConnectionState): boolean;
  write(handedOver: HandedOver, number: number, state: ConnectionState): void;
  /** Makes written connections visible. */
  publish(): void;
}

export class MigrationWriter implements MigrationWay {
  readonly #ring: RingWriter;

  constructor(ring: SharedArrayBuffer) {
    this.#ring = new RingWriter(ring);
  }

  hasRoom(state: ConnectionState): boolean {
    const bytes = stateBytes(state) + MIGRATION_BYTES_MAX;
    return bytes <= this.#ring.messageBytesMax && this.#ring.hasRoom(bytes);
  }

  write({ descriptor, bytes }: HandedOver, number: number, state: ConnectionState): void {
    const { int32, uint32, float64, bytes: data } = this.#ring;
    const offset = this.#ring.claim(stateBytes(state) + (bytes?.length ?? 0));
    const word = offset >> 2;
    const double = offset >> 3;
    int32[word + 1] = descriptor;
    float64[double + 1] = number;
    float64[double + 2] = state.openedAtMs;
    float64[double + 3] = state.history.mayMigrateAtMs;
    uint32[word + 8] = state.history.migrations;
    uint32[word + 9] = flagsOf(state) | (bytes === undefined ? 0 : MigrationFlag.Bytes);
    float64[double + 5] = state.nextBatchNumber;
    int32[word + 12] = state.listener ?? -1;
    uint32[word + 13] = bytes?.length ?? 0;
    uint32[word + 14] = state.touched.length | ((1 + state.watched.length) << 16);
    let at = offset + MIGRATION_HEADER_BYTES;
    for (const shard of state.touched) data[at++] = shard;
    at = writeName(data, at, state.used);
    for (const name of state.watched) at = writeName(data, at, name);
    if (state.peer !== undefined) at = writeName(data, at, state.peer);
    if (state.name !== undefined) at = writeName(data, at, state.name);
    if (state.order !== undefined) at = writeOrder(data, at, state.order);
    if (bytes !== undefined) copyBytes(data, at, bytes, 0, bytes.length);
  }

  publish(): void {
    this.#ring.publish();
  }
}

function flagsOf({ isProducer, isWorker, peer, name: own, order }: ConnectionState): number {
  const marks = (isProducer ? MigrationFlag.Producer : 0) | (isWorker ? MigrationFlag.Worker : 0);
  const ordered = order === undefined ? 0 : MigrationFlag.Order;
  return (
    marks |
    ordered |
    (peer === undefined ? 0 : MigrationFlag.Peer) |
    (own === undefined ? 0 : MigrationFlag.Name)
  );
}

function stateBytes({ used, watched, touched, peer, name: own, order }: ConnectionState): number {
  let bytes = MIGRATION_HEADER_BYTES + touched.length + 1 + used.length;
  for (const name of watched) bytes += 1 + name.length;
  if (order !== undefined) bytes += ORDER_BYTES + WEIGHT_BYTES * watched.length;
  if (peer !== undefined) bytes += 1 + peer.length;
  return own === undefined ? bytes : bytes + 1 + own.length;
}

/** Writes an order and the weights of the watched tubes. Returns the position after them. */
function writeOrder(bytes: Uint8Array, at: number, { order, floor, weights }: MovedOrder): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  view.setUint8(at, order);
  view.setFloat64(at + 1, floor, true);
  let next = at + ORDER_BYTES;
  for (const weight of weights) {
    view.setUint16(next, weight, true);
    next += WEIGHT_BYTES;
  }
  return next;
}

/** Writes a name, which is Latin-1. Returns the position after it. */
function writeName(bytes: Uint8Array, at: number, name: string): number {
  const length = Math.min(name.length, NAME_BYTES_MAX);
  bytes[at] = length;
  for (let i = 0; i < length; i++) bytes[at + 1 + i] = name.charCodeAt(i);
  return at + 1 + length;
}

// Receives connections from other acceptors: the reading end of the rings that migration-ring.ts
// describes.

export class MigrationReceiver {
  readonly #rings: readonly RingReader[];
  readonly #land: (moved: MovedConnection) => void;

  /** `land` resumes the connection on this acceptor. */
  constructor(rings: readonly SharedArrayBuffer[], land: (moved: MovedConnection) => void) {
    this.#rings = rings.map((ring) => new RingReader(ring));
    this.#land = land;
  }

  /** Whether a connection has arrived. */
  get hasSome(): boolean {
    for (const ring of this.#rings) if (ring.hasMessage) return true;
    return false;
  }

  /** Resumes all connections that have arrived. */
  take(): void {
    for (const ring of this.#rings) this.#takeFrom(ring);
  }

  #takeFrom(ring: RingReader): void {
    for (let offset = ring.next(); offset !== EMPTY; offset = ring.next()) this.#land(read(ring, offset));
    ring.release();
  }
}

function read({ int32, uint32, float64, bytes: data }: RingReader, offset: number): MovedConnection {
  const word = offset >> 2;
  const double = offset >> 3;
  const flags = uint32[word + 9]!;
  const listener = int32[word + 12]!;
  const byteCount = uint32[word + 13]!;
  const counts = uint32[word + 14]!;
  const touched: number[] = [];
  let at = offset + MIGRATION_HEADER_BYTES;
  for (const end = at + (counts & 0xffff); at < end; at++) touched.push(data[at]!);
  const nextName = (): string => {
    const start = at + 1;
    at = start + data[at]!;
    return latin1(data, start, at);
  };
  const used = nextName();
  const watched: string[] = [];
  for (let left = (counts >>> 16) - 1; left > 0; left--) watched.push(nextName());
  const peer = (flags & MigrationFlag.Peer) === 0 ? undefined : nextName();
  const name = (flags & MigrationFlag.Name) === 0 ? undefined : nextName();
  const order = (flags & MigrationFlag.Order) === 0 ? undefined : readOrder(data, at, watched.length);
  if (order !== undefined) at += ORDER_BYTES + WEIGHT_BYTES * watched.length;
  const history = { migrations: uint32[word + 8]!, mayMigrateAtMs: float64[double + 3]! };
  return {
    descriptor: int32[word + 1]!,
    number: float64[double + 1]!,
    // A copy, because the ring's room is released while the bytes may still wait with the
    // connection.
    bytes: (flags & MigrationFlag.Bytes) === 0 ? undefined : data.slice(at, at + byteCount),
    state: {
      used,
      watched,
      order,
      touched,
      peer,
      name,
      history,
      isProducer: (flags & MigrationFlag.Producer) !== 0,
      isWorker: (flags & MigrationFlag.Worker) !== 0,
      nextBatchNumber: float64[double + 5]!,
      openedAtMs: float64[double + 2]!,
      listener: listener < 0 ? undefined : listener,
    },
  };
}

function readOrder(bytes: Uint8Array, at: number, tubes: number): MovedOrder {
  const view = new DataView(bytes.buffer, bytes.byteOffset + at);
  return {
    order: view.getUint8(0) as ReserveOrder,
    floor: view.getFloat64(1, true),
    weights: Array.from({ length: tubes }, (_, tube) =>
      view.getUint16(ORDER_BYTES + WEIGHT_BYTES * tube, true),
    ),
  };
}
