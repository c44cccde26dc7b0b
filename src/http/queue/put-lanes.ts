// Puts: one connection in memory for the tubes of each shard, so that puts of many requests go in one pipeline, and one of its
// own for a large body, which arrives in pieces and would hold up the others.

import { asciiBytes } from "../../base/bytes.ts";
import { shardOfTube } from "../../base/tube-hash.ts";
import { Busy } from "./busy.ts";
import type { WireClients } from "./wire-clients.ts";
import type { WireConnection } from "./wire-connection.ts";

export interface NewPut {
  readonly tube: string;
  readonly pri: number;
  /** Seconds. */
  readonly delay: number;
  readonly ttr: number;
}

/** INSERTED and the id, or the reply that refuses the job. */
export type PutOutcome = { readonly id: number } | { readonly refusal: string };

/** Larger bodies take a connection of their own. */
const GATHERED_BYTES_MAX = 32 * 1024;
/** Bytes of bodies that all requests together may have under way. */
const BYTES_MAX = 128 * 1024 * 1024;

export class PutLanes {
  readonly #wire: WireClients;
  readonly #shards: number;
  readonly #lanes: (WireConnection | undefined)[] = [];
  #bytes = 0;

  constructor(wire: WireClients, shards: number) {
    this.#wire = wire;
    this.#shards = shards;
  }

  /** Puts a job; resolves when it is as durable as `-f` asks. */
  async put(put: NewPut, body: Uint8Array): Promise<PutOutcome> {
    const isLarge = body.length > GATHERED_BYTES_MAX;
    this.#take(body.length);
    const lane = isLarge ? this.#wire.open() : this.#laneOf(put.tube);
    try {
      return outcomeOf((await lane.command(lineOf(put, body.length), body)).line);
    } finally {
      this.#bytes -= body.length;
      if (isLarge) lane.close();
    }
  }

  /** The same with a body of `length` bytes that comes in pieces. If they end too early nothing is put. */
  async putPieces(put: NewPut, length: number, pieces: AsyncIterable<Uint8Array>): Promise<PutOutcome> {
    this.#take(length);
    const lane = this.#wire.open();
    try {
      const reply = lane.command(lineOf(put, length));
      // Refused by what comes before it is over; the error is that of the pieces then.
      reply.catch(() => {});
      let sent = 0;
      for await (const piece of pieces) {
        sent += piece.length;
        if (sent > length) throw new RangeError("more bytes came than the request said");
        await lane.feed(piece);
      }
      if (sent < length) throw new RangeError("the body ended too early");
      await lane.feed(asciiBytes("\r\n"));
      return outcomeOf((await reply).line);
    } finally {
      this.#bytes -= length;
      lane.close();
    }
  }

  #take(bytes: number): void {
    if (this.#bytes + bytes > BYTES_MAX) throw new Busy("too many bytes of jobs are under way");
    this.#bytes += bytes;
  }

  #laneOf(tube: string): WireConnection {
    const bytes = asciiBytes(tube);
    const shard = shardOfTube(bytes, 0, bytes.length, this.#shards);
    const lane = this.#lanes[shard];
    if (lane !== undefined && !lane.isGone) return lane;
    return (this.#lanes[shard] = this.#wire.open());
  }
}

const lineOf = ({ tube, pri, delay, ttr }: NewPut, bytes: number): string =>
  `put-in-tube ${tube} ${pri} ${delay} ${ttr} ${bytes}`;

function outcomeOf(line: string): PutOutcome {
  const [word, id] = line.split(" ");
  return word === "INSERTED" ? { id: Number(id) } : { refusal: line };
}
