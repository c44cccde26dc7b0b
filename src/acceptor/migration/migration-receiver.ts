// Receives connections from other acceptors: the reading end of the rings that migration-writer.ts
// describes.

import { latin1 } from "../../base/bytes.ts";
import type { ReserveOrder } from "../../protocol/reserve-order.ts";
import { EMPTY, RingReader } from "../../ring/ring-reader.ts";
import { MIGRATION_HEADER_BYTES, MigrationFlag, ORDER_BYTES, WEIGHT_BYTES } from "./migration-writer.ts";
import type { MovedConnection, MovedOrder } from "./moved-connection.ts";

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
