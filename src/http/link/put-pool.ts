// Pool of in-memory connections for puts: a few per shard pipeline the puts of many requests. A
// large body arrives in pieces and would hold up other puts, so it gets a connection of its own.
//
// A pipeline has at most 256 commands or 128 KiB in progress. A single connection would be limited
// by the wake-up latency of two threads.

import { asciiBytes, shardOfTube } from "../../base/bytes.ts";
import { Busy } from "./control-client.ts";
import type { Pieces, PutOutcome, WireClients, WireConnection } from "./wire-connection.ts";

export type { PutOutcome };

export interface NewPut {
  readonly tube: string;
  readonly pri: number;
  /** In seconds. */
  readonly delay: number;
  readonly ttr: number;
  /** Further options in the form of the line: " unique=a ttl=60". */
  readonly options?: string;
}

/** Bytes, or text that is sent as UTF-8. */
export type PutBody = Uint8Array | string;

export const bytesOf = (body: PutBody): number =>
  typeof body === "string" ? Buffer.byteLength(body) : body.length;

/** Larger bodies get a connection of their own. */
const GATHERED_BYTES_MAX = 32 * 1024;
/** Connections per shard. */
const CONNECTIONS_MAX = 8;
/** Commands in progress on a connection beyond which another connection is used. */
const BUSY = 100;
/** Maximum of body bytes in progress for all requests. */
const BYTES_MAX = 128 * 1024 * 1024;

/** Buffer that assembles the commands of a request in batches; a line has at most a KiB. */
const SCRATCH_BYTES = 2 * GATHERED_BYTES_MAX;
const CR = 0x0d;
const LF = 0x0a;
const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

export class PutPool {
  readonly #wire: WireClients;
  readonly #shards: number;
  /** Connections by shard. */
  readonly #connections: WireConnection[][] = [];
  #bytes = 0;

  constructor(wire: WireClients, shards: number) {
    this.#wire = wire;
    this.#shards = shards;
  }

  /** Puts a job. Resolves once it is as durable as `-f` requires. */
  // http put 2/6
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

  /** Reserves bytes for a body that is gathered before its put; `give` returns them. */
  hold(bytes: number): void {
    this.#require(bytes);
    this.#bytes += bytes;
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** Puts a job whose bytes are already reserved. */
  #put(put: NewPut, body: PutBody, length: number): Promise<PutOutcome> {
    if (length <= GATHERED_BYTES_MAX)
      return this.#connectionFor(put.tube).put(lineOf(put, length), body, length);
    const connection = this.#wire.open();
    const done = connection.put(lineOf(put, length), body, length);
    const close = (): void => connection.close();
    done.then(close, close);
    return done;
  }

  /** Puts jobs into a tube in order. Each one fails by itself. */
  async putMany(jobs: readonly { readonly put: NewPut; readonly body: PutBody }[]): Promise<PutOutcome[]> {
    const [first] = jobs;
    if (first === undefined) return [];
    const lengths = jobs.map(({ body }) => bytesOf(body));
    if (lengths.some((each) => each > GATHERED_BYTES_MAX)) return await this.#putInTurn(jobs, lengths);
    const lines = jobs.map(({ put }, index) => lineOf(put, lengths[index]!));
    // For each job: the line, CR LF, the body, CR LF.
    const length = lengths.reduce((sum, each, index) => sum + lines[index]!.length + each + 4, 0);
    this.#require(length);
    const connection = this.#connectionFor(first.put.tube);
    this.#bytes += length;
    try {
      return await connection.puts(piecesOf(jobs, lines, lengths), jobs.length);
    } finally {
      this.#bytes -= length;
    }
  }

  /**
   * Puts large bodies one after another, so that the jobs keep their order. The bytes of all are
   * reserved before the first put.
   */
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

  /**
   * Puts a job whose body of `length` bytes arrives in pieces. If they end early, nothing is put.
   */
  async putPieces(put: NewPut, length: number, pieces: AsyncIterable<Uint8Array>): Promise<PutOutcome> {
    this.#require(length);
    const connection = this.#wire.open();
    this.#bytes += length;
    try {
      const reply = connection.command(lineOf(put, length));
      // If the pieces fail first, their error is reported and the reply's rejection is ignored.
      reply.catch(() => {});
      let sent = 0;
      for await (const piece of pieces) {
        sent += piece.length;
        if (sent > length) throw new RangeError("more bytes arrived than the request announced");
        await connection.feed(piece);
      }
      if (sent < length) throw new RangeError("the body ended too early");
      await connection.feed(asciiBytes("\r\n"));
      return outcomeOf((await reply).line);
    } finally {
      this.#bytes -= length;
      connection.close();
    }
  }

  /** Throws if the bytes exceed the limit. One job is always accepted, however large. */
  #require(bytes: number): void {
    if (this.#bytes > 0 && this.#bytes + bytes > BYTES_MAX)
      throw new Busy("too many bytes of jobs are under way");
  }

  /** Returns a connection for puts into a tube. Puts on the same connection keep their order. */
  #connectionFor(tube: string): WireConnection {
    const bytes = asciiBytes(tube);
    const shard = shardOfTube(bytes, 0, bytes.length, this.#shards);
    const connections = (this.#connections[shard] ??= []);
    for (const connection of connections)
      if (!connection.isOver && connection.underWay < BUSY) return connection;
    const open = connections.filter((connection) => !connection.isOver);
    this.#connections[shard] = open;
    if (open.length < CONNECTIONS_MAX) open.push(this.#wire.open());
    return open.reduce((least, connection) => (connection.underWay < least.underWay ? connection : least));
  }
}

/**
 * Returns a function that yields the commands of jobs in batches of the scratch buffer's size. A
 * full connection asks for the next batch later.
 */
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
 * Formats the delay to milliseconds, as the command parses it. If the server rejected the line, it
 * would read the body as commands. The default format could cause that: 0.1 + 0.2 has seventeen
 * decimals, and 1e-7 an exponent.
 */
const lineOf = ({ tube, pri, delay, ttr, options = "" }: NewPut, bytes: number): string =>
  `put-in-tube ${tube} ${pri} ${Math.round(delay * 1000) / 1000} ${ttr} ${bytes}${options}`;

function outcomeOf(line: string): PutOutcome {
  const [word, id] = line.split(" ");
  return word === "INSERTED" ? { id: Number(id) } : { refusal: line };
}
