// Puts: some connections in memory for the tubes of each shard, so that puts of many requests go in few pipelines, and one of
// its own for a large body, which arrives in pieces and would hold up the others.
//
// A pipeline has 256 commands under way at most, or 128 KiB; one alone would be as slow as the wakes of two threads allow.

import { asciiBytes } from "../../base/bytes.ts";
import { shardOfTube } from "../../base/tube-hash.ts";
import { Busy } from "./busy.ts";
import type { WireClients } from "./wire-clients.ts";
import type { Pieces, PutOutcome, WireConnection } from "./wire-connection.ts";

export type { PutOutcome };

export interface NewPut {
  readonly tube: string;
  readonly pri: number;
  /** Seconds. */
  readonly delay: number;
  readonly ttr: number;
}

/** Bytes, or text that goes as UTF-8. */
export type PutBody = Uint8Array | string;

export const bytesOf = (body: PutBody): number =>
  typeof body === "string" ? Buffer.byteLength(body) : body.length;

/** Larger bodies take a connection of their own. */
const GATHERED_BYTES_MAX = 32 * 1024;
/** Connections for each shard. */
const LANES_MAX = 8;
/** Commands under way on one, with which the next is taken. */
const BUSY = 100;
/** Bytes of bodies that all requests together may have under way. */
const BYTES_MAX = 128 * 1024 * 1024;

/** Where commands of one request are put together, some at a time: a line has a few hundred bytes. */
const SCRATCH_BYTES = 2 * GATHERED_BYTES_MAX;
const CR = 0x0d;
const LF = 0x0a;
const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

export class PutLanes {
  readonly #wire: WireClients;
  readonly #shards: number;
  /** By the shard. */
  readonly #lanes: WireConnection[][] = [];
  #bytes = 0;

  constructor(wire: WireClients, shards: number) {
    this.#wire = wire;
    this.#shards = shards;
  }

  /** Puts a job; resolves when it is as durable as `-f` asks. */
  put(put: NewPut, body: PutBody): Promise<PutOutcome> {
    const length = bytesOf(body);
    this.#require(length);
    const done = this.#put(put, body, length);
    this.#bytes += length;
    const give = (): void => {
      this.#bytes -= length;
    };
    done.then(give, give);
    return done;
  }

  /** Takes room for bytes of a body that is gathered before it is put; they are given back then. */
  hold(bytes: number): void {
    this.#require(bytes);
    this.#bytes += bytes;
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** The same where there is room for it already. */
  #put(put: NewPut, body: PutBody, length: number): Promise<PutOutcome> {
    if (length <= GATHERED_BYTES_MAX) return this.#laneFor(put.tube).put(lineOf(put, length), body, length);
    const lane = this.#wire.open();
    const done = lane.put(lineOf(put, length), body, length);
    const close = (): void => lane.close();
    done.then(close, close);
    return done;
  }

  /** Puts jobs into a tube in their order; each fails by itself. */
  async putMany(jobs: readonly { readonly put: NewPut; readonly body: PutBody }[]): Promise<PutOutcome[]> {
    const [first] = jobs;
    if (first === undefined) return [];
    const lengths = jobs.map(({ body }) => bytesOf(body));
    if (lengths.some((each) => each > GATHERED_BYTES_MAX)) return await this.#putInTurn(jobs, lengths);
    const lines = jobs.map(({ put }, index) => lineOf(put, lengths[index]!));
    // For each the line, CR LF, the body, CR LF.
    const length = lengths.reduce((sum, each, index) => sum + lines[index]!.length + each + 4, 0);
    this.#require(length);
    const lane = this.#laneFor(first.put.tube);
    this.#bytes += length;
    try {
      return await lane.puts(piecesOf(jobs, lines, lengths), jobs.length);
    } finally {
      this.#bytes -= length;
    }
  }

  /** Large bodies go one after the other, so that the jobs keep their order. There is room for all before the first goes. */
  async #putInTurn(
    jobs: readonly { readonly put: NewPut; readonly body: PutBody }[],
    lengths: readonly number[],
  ): Promise<PutOutcome[]> {
    const sum = lengths.reduce((before, each) => before + each, 0);
    this.#require(sum);
    this.#bytes += sum;
    try {
      const outcomes: PutOutcome[] = [];
      for (const [index, { put, body }] of jobs.entries())
        outcomes.push(await this.#put(put, body, lengths[index]!));
      return outcomes;
    } finally {
      this.#bytes -= sum;
    }
  }

  /** The same with a body of `length` bytes that comes in pieces. If they end too early nothing is put. */
  async putPieces(put: NewPut, length: number, pieces: AsyncIterable<Uint8Array>): Promise<PutOutcome> {
    this.#require(length);
    const lane = this.#wire.open();
    this.#bytes += length;
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

  /** Throws where there is no room for so many bytes more. One job is always taken, however large. */
  #require(bytes: number): void {
    if (this.#bytes > 0 && this.#bytes + bytes > BYTES_MAX)
      throw new Busy("too many bytes of jobs are under way");
  }

  /** A connection for puts into a tube: those that go through the same one keep their order. */
  #laneFor(tube: string): WireConnection {
    const bytes = asciiBytes(tube);
    const shard = shardOfTube(bytes, 0, bytes.length, this.#shards);
    const lanes = (this.#lanes[shard] ??= []);
    for (const lane of lanes) if (!lane.isOver && lane.underWay < BUSY) return lane;
    const open = lanes.filter((lane) => !lane.isOver);
    this.#lanes[shard] = open;
    if (open.length < LANES_MAX) open.push(this.#wire.open());
    return open.reduce((least, lane) => (lane.underWay < least.underWay ? lane : least));
  }
}

/** Commands of jobs, as many at a time as the scratch buffer holds: whoever has no room asks for the next ones later. */
function piecesOf(
  jobs: readonly { readonly body: PutBody }[],
  lines: readonly string[],
  lengths: readonly number[],
): Pieces {
  let index = 0;
  return () => {
    let at = 0;
    for (; index < jobs.length; index++) {
      const { body } = jobs[index]!;
      const line = lines[index]!;
      if (at + line.length + lengths[index]! + 4 > SCRATCH_BYTES) break;
      at += scratch.write(`${line}\r\n`, at, "latin1");
      if (typeof body === "string") scratch.write(body, at);
      else scratch.set(body, at);
      at += lengths[index]!;
      scratch[at++] = CR;
      scratch[at++] = LF;
    }
    return at === 0 ? undefined : scratch.subarray(0, at);
  };
}

/**
 * In milliseconds, as the command takes them. A line that it does not take would leave the body behind it to be read as commands: as numbers
 * are written, 0.1 + 0.2 has seventeen decimals, and 1e-7 an exponent.
 */
const lineOf = ({ tube, pri, delay, ttr }: NewPut, bytes: number): string =>
  `put-in-tube ${tube} ${pri} ${Math.round(delay * 1000) / 1000} ${ttr} ${bytes}`;

function outcomeOf(line: string): PutOutcome {
  const [word, id] = line.split(" ");
  return word === "INSERTED" ? { id: Number(id) } : { refusal: line };
}
