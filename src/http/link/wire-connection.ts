// In-memory client of the protocol: sends lines to a connection of the HTTP thread's port and
// parses the replies.
//
// HTTP thus uses the same code as all clients for order, routing, durability and waits over several
// shards.

import type { AcceptorCore } from "../../acceptor/connection/acceptor-core.ts";
import type { Connection } from "../../acceptor/connection/connection.ts";
import type { JobPlaces } from "../../acceptor/state/shard-links.ts";
import type { Transport } from "../../acceptor/stream/transport.ts";
import { Busy, type ControlClient } from "./control-client.ts";

/** A reply: its first line without CR LF, and the body if the reply has one. */
export interface WireReply {
  readonly line: string;
  readonly body: Buffer | undefined;
}

/** The id from INSERTED, or the reply that refuses the job. */
export type PutOutcome = { readonly id: number } | { readonly refusal: string };

interface Expected {
  resolve(reply: WireReply): void;
  /** For a put: called with the id from INSERTED, without making a string. */
  inserted?(id: number): void;
  reject(error: Error): void;
}

/** Replies that end their first line with a length, followed by a body. */
const HAS_BODY = /^(?:FOUND|OK|RESERVED) /;
const CR_LF = Buffer.from("\r\n");
const INSERTED = Buffer.from("INSERTED ");
const CR = 0x0d;
const LF = 0x0a;
const ZERO = 0x30;
const NOTHING = Buffer.alloc(0);

/** Up to this size, copying is cheaper than another call to the connection. */
const JOINED_BYTES_MAX = 2048;

/** Returns the next bytes of some commands, valid until the next call; undefined at the end. */
export type Pieces = () => Uint8Array | undefined;

/** Returns a command with its body of `length` bytes. */
function joined(line: string, body: Uint8Array | string, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(line.length + length + 4);
  let at = bytes.write(`${line}\r\n`, 0, "latin1");
  if (typeof body === "string") bytes.write(body, at);
  else bytes.set(body, at);
  at += length;
  bytes[at++] = CR;
  bytes[at] = LF;
  return bytes;
}

export class WireConnection implements Transport {
  readonly pendingBytes = 0;
  readonly descriptor = -1;
  readonly #connection: Connection;
  readonly #core: AcceptorCore;
  readonly #wake: () => void;
  readonly #expected: Expected[] = [];
  /** Input that the connection has no room for yet. */
  readonly #outgoing: (Buffer | Pieces)[] = [];
  #paused = false;
  /** True while the connection takes input; it may pause and resume in that time. */
  #drains = false;
  /** Senders that wait for room. */
  readonly #resumed: (() => void)[] = [];
  #isGone = false;
  #isFinished = false;
  #received: Buffer[] = [];
  #receivedBytes = 0;
  /** Total length of the reply being received; 0 until its first line is known. */
  #neededBytes = 0;

  constructor(core: AcceptorCore, wake: () => void) {
    this.#core = core;
    this.#wake = wake;
    const connection = core.connect(this);
    if (connection === undefined) throw new Busy("too many requests are under way");
    this.#connection = connection;
  }

  /** Commands without a reply so far. */
  get underWay(): number {
    return this.#expected.length;
  }

  /** True once it accepts no more commands. Earlier ones may still be in progress. */
  get isOver(): boolean {
    return this.#isGone || this.#isFinished;
  }

  /** Names the worker for whom the connection reserves jobs from now on. */
  nameWorker(name: string): void {
    // The slot of a closed connection may be another's by now.
    if (!this.isOver) this.#core.nameWorker(this.#connection.slot, name);
  }

  /** Sends a command. Replies arrive in the order of the commands. */
  command(line: string): Promise<WireReply> {
    if (this.isOver) return Promise.reject(new Busy("the server stops"));
    this.#push(Buffer.from(`${line}\r\n`, "latin1"));
    this.#wake();
    return new Promise((resolve, reject) => this.#expected.push({ resolve, reject }));
  }

  /** Sends a put's line and its body of `length` bytes. */
  // http put 3/6
  put(line: string, body: Uint8Array | string, length: number): Promise<PutOutcome> {
    if (this.isOver) return Promise.reject(new Busy("the server stops"));
    if (length <= JOINED_BYTES_MAX) this.#push(joined(line, body, length));
    else {
      this.#push(Buffer.from(`${line}\r\n`, "latin1"));
      this.#push(typeof body === "string" ? Buffer.from(body) : body);
      this.#push(CR_LF);
    }
    this.#wake();
    return new Promise((resolve, reject) =>
      this.#expected.push({
        resolve: ({ line: refusal }) => resolve({ refusal }),
        inserted: (id) => resolve({ id }),
        reject,
      }),
    );
  }

  // http put 4/6
  #push(bytes: Uint8Array): void {
    if (this.#paused || this.#outgoing.length > 0) this.#outgoing.push(Buffer.from(bytes));
    else this.#connection.onBytes(bytes, bytes.length);
  }

  /** Passes pending input to the connection, as far as it has room. */
  #drain(): void {
    if (this.#drains) return;
    this.#drains = true;
    const outgoing = this.#outgoing;
    while (outgoing.length > 0 && !this.#paused) {
      const [next] = outgoing as [Buffer | Pieces];
      const bytes = typeof next === "function" ? next() : next;
      if (typeof next !== "function" || bytes === undefined) outgoing.shift();
      if (bytes !== undefined) this.#connection.onBytes(bytes, bytes.length);
    }
    this.#drains = false;
  }

  /**
   * Sends the same command `count` times. `onReply` receives each reply as it arrives, even if the
   * connection ends early. Resolves after the last reply.
   */
  repeat(line: string, count: number, onReply: (reply: WireReply) => void): Promise<void> {
    if (this.isOver) return Promise.reject(new Busy("the connection was closed"));
    this.#push(Buffer.from(`${line}\r\n`.repeat(count), "latin1"));
    this.#wake();
    return new Promise((resolve, reject) => {
      let left = count;
      const each: Expected = {
        resolve(reply) {
          onReply(reply);
          if (--left === 0) resolve();
        },
        reject,
      };
      for (let command = 0; command < count; command++) this.#expected.push(each);
    });
  }

  /** Sends `count` whole puts, as room permits, and returns their outcomes in order. */
  puts(pieces: Pieces, count: number): Promise<PutOutcome[]> {
    if (this.isOver) return Promise.reject(new Busy("the server stops"));
    this.#outgoing.push(pieces);
    this.#drain();
    this.#wake();
    return new Promise((resolve, reject) => {
      const outcomes: PutOutcome[] = [];
      const note = (outcome: PutOutcome): void => {
        if (outcomes.push(outcome) === count) resolve(outcomes);
      };
      const each: Expected = {
        resolve: ({ line: refusal }) => note({ refusal }),
        inserted: (id) => note({ id }),
        reject,
      };
      for (let put = 0; put < count; put++) this.#expected.push(each);
    });
  }

  /** Sends a part of a body; resolves when there is room for more. */
  feed(bytes: Uint8Array): Promise<void> {
    if (this.isOver) return Promise.reject(new Busy("the server stops"));
    this.#push(bytes);
    this.#wake();
    if (!this.#paused) return Promise.resolve();
    return new Promise((resolve) => this.#resumed.push(resolve));
  }

  /**
   * Half-closes the connection: a wait ends, with a job if one is on its way. Pending replies still
   * arrive.
   */
  finish(): void {
    if (this.isOver) return;
    this.#isFinished = true;
    this.#connection.onEnd();
    this.#wake();
  }

  /**
   * Closes the connection. It rejects pending commands, ends a wait and releases the jobs that the
   * connection holds.
   */
  close(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#core.disconnect(this.#connection);
    for (const { reject } of this.#expected.splice(0)) reject(new Busy("the connection was closed"));
    for (const resolve of this.#resumed.splice(0)) resolve();
    this.#wake();
  }

  // --- The connection's side ---

  send(buffer: Uint8Array, length: number): boolean {
    this.#receive(buffer, length);
    return true;
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#drain();
    if (this.#paused) return;
    for (const resolve of this.#resumed.splice(0)) resolve();
  }

  end(): void {
    queueMicrotask(() => this.close());
  }

  destroy(): void {
    this.#isGone = true;
  }

  // http put 5/6
  #receive(buffer: Uint8Array, length: number): void {
    const taken = this.#receivedBytes === 0 ? this.#takeInserted(buffer, length) : 0;
    if (taken === length) return;
    this.#received.push(Buffer.from(buffer.subarray(taken, length)));
    this.#receivedBytes += length - taken;
    // A long reply arrives in many pieces; concatenate them once.
    if (this.#receivedBytes < this.#neededBytes) return;
    let bytes = this.#received.length === 1 ? this.#received[0]! : Buffer.concat(this.#received);
    for (;;) {
      const taken = this.#takeReply(bytes);
      if (taken === 0) break;
      bytes = bytes.subarray(taken);
    }
    this.#received = bytes.length === 0 ? [] : [bytes];
    this.#receivedBytes = bytes.length;
  }

  /**
   * Hands all complete INSERTED replies at the beginning to their puts, straight from the buffer.
   * Returns the number of bytes consumed.
   */
  #takeInserted(bytes: Uint8Array, length: number): number {
    let begin = 0;
    for (;;) {
      const expected = this.#expected[0];
      if (expected?.inserted === undefined || !startsInserted(bytes, begin, length)) return begin;
      let id = 0;
      let at = begin + INSERTED.length;
      while (at < length && bytes[at] !== CR) id = id * 10 + (bytes[at++]! - ZERO);
      if (at + CR_LF.length > length) return begin;
      begin = at + CR_LF.length;
      this.#expected.shift();
      expected.inserted(id);
    }
  }

  /** Hands the first reply to its command. Returns its length, or 0 if it is incomplete. */
  #takeReply(bytes: Buffer): number {
    this.#neededBytes = 0;
    const lineEnd = bytes.indexOf(CR_LF);
    if (lineEnd < 0) return 0;
    const line = bytes.toString("latin1", 0, lineEnd);
    let end = lineEnd + 2;
    let body: Buffer | undefined;
    if (HAS_BODY.test(line)) {
      const words = line.split(" ", 3);
      const bodyBytes = Number(words[0] === "OK" ? words[1] : words[2]);
      end += bodyBytes + 2;
      if (bytes.length < end) {
        this.#neededBytes = end;
        return 0;
      }
      body = bodyBytes === 0 ? NOTHING : bytes.subarray(lineEnd + 2, end - 2);
    }
    const expected = this.#expected.shift();
    if (expected?.inserted !== undefined && line.startsWith("INSERTED "))
      expected.inserted(Number(line.slice(INSERTED.length)));
    else expected?.resolve({ line, body });
    return end;
  }
}

function startsInserted(bytes: Uint8Array, begin: number, end: number): boolean {
  if (end - begin < INSERTED.length) return false;
  for (let at = 0; at < INSERTED.length; at++) if (bytes[begin + at] !== INSERTED[at]) return false;
  return true;
}

// In-memory connections: one shared by commands that need no state of their own, and further ones
// on request.

export class WireClients {
  readonly #core: AcceptorCore;
  readonly #wake: () => void;
  #general: WireConnection | undefined;

  constructor(core: AcceptorCore, wake: () => void) {
    this.#core = core;
    this.#wake = wake;
  }

  /** Opens a separate connection. The caller must close it. */
  open(): WireConnection {
    return new WireConnection(this.#core, this.#wake);
  }

  /** Sends a command that does not depend on used or watched tubes. */
  command(line: string): Promise<WireReply> {
    return this.#shared.command(line);
  }

  /**
   * Sends a command with a body of `length` bytes, which is not a put, and returns the line of its
   * reply.
   */
  async commandWith(line: string, body: Uint8Array | string, length: number): Promise<string> {
    const outcome = await this.#shared.put(line, body, length);
    return "id" in outcome ? `INSERTED ${outcome.id}` : outcome.refusal;
  }

  get #shared(): WireConnection {
    if (this.#general === undefined || this.#general.isOver) this.#general = this.open();
    return this.#general;
  }

  /**
   * Sends `stats`, `stats-job …` and returns the pairs of the YAML in order, or undefined for
   * NOT_FOUND.
   */
  async stats(line: string): Promise<[key: string, value: string | number | boolean][] | undefined> {
    const { body } = await this.command(line);
    if (body === undefined) return undefined;
    const lines = body.toString("latin1").trimEnd().split("\n").slice(1);
    return lines.map((each) => {
      const colon = each.indexOf(": ");
      return [each.slice(0, colon), plainValue(each.slice(colon + 2))];
    });
  }
}

function plainValue(text: string): string | number | boolean {
  if (text.startsWith('"')) return text.slice(1, -1);
  if (text === "true" || text === "false") return text === "true";
  return /^-?[0-9]+(?:\.[0-9]+)?$/.test(text) ? Number(text) : text;
}

// Reader of whole job bodies. Each read uses a separate connection, because a large body would hold
// up other replies.

/** Maximum of bytes in progress for all clients. One body is always read, however large. */
const BYTES_MAX = 128 * 1024 * 1024;

export class Bodies {
  readonly #wire: WireClients;
  readonly #control: ControlClient;
  readonly #places: JobPlaces;
  #bytes = 0;

  constructor(wire: WireClients, control: ControlClient, places: JobPlaces) {
    this.#places = places;
    this.#wire = wire;
    this.#control = control;
  }

  /** Returns the body, or undefined if the job doesn't exist. */
  async read(id: number): Promise<Buffer | undefined> {
    const bytes = await this.#bytesOf(id);
    if (bytes === undefined) return undefined;
    if (this.#bytes > 0 && this.#bytes + bytes > BYTES_MAX)
      throw new Busy("too many bytes of bodies are under way");
    // Throws if no slot is free, so bytes are counted only afterwards.
    const connection = this.#wire.open();
    this.#bytes += bytes;
    try {
      return (await connection.command(`peek ${id}`)).body;
    } finally {
      this.#bytes -= bytes;
      connection.close();
    }
  }

  async #bytesOf(id: number): Promise<number | undefined> {
    const entry = this.#places.jobEntry(id);
    const facts = await this.#control.askAll("job", { id, bodyMax: -1 });
    const found = facts.find((each) => each !== null);
    if (found !== undefined && found !== null) return found.bytes;
    // The job has moved to another shard in the meantime.
    return this.#places.jobEntry(id) === entry ? undefined : this.#bytesOf(id);
  }
}
