// A client of the protocol in memory: sends lines to a connection of the http thread's port, and takes its replies apart.
//
// So all that commands do is done by the same code as for everybody: order, routing, durability, waits over several shards.

import type { AcceptorCore } from "../../acceptor/connection/acceptor-core.ts";
import type { Connection } from "../../acceptor/connection/connection.ts";
import type { Transport } from "../../acceptor/replies/transport.ts";
import { Busy } from "./busy.ts";

/** A reply: its first line without CR LF, and what follows the replies that carry bytes. */
export interface WireReply {
  readonly line: string;
  readonly body: Buffer | undefined;
}

/** INSERTED and the id, or the reply that refuses the job. */
export type PutOutcome = { readonly id: number } | { readonly refusal: string };

interface Expected {
  resolve(reply: WireReply): void;
  /** Of a put: INSERTED came with this id. No string is made of it. */
  inserted?(id: number): void;
  reject(error: Error): void;
}

/** Replies with this first word end with a number of bytes, and that many bytes follow. */
const HAS_BODY = /^(?:FOUND|OK|RESERVED) /;
const CR_LF = Buffer.from("\r\n");
const INSERTED = Buffer.from("INSERTED ");
const CR = 0x0d;
const LF = 0x0a;
const ZERO = 0x30;
const NOTHING = Buffer.alloc(0);

/** To take bytes costs more than to copy so many. */
const JOINED_BYTES_MAX = 2048;

/** The next bytes of some commands, valid until it is called again; undefined behind the last. */
export type Pieces = () => Uint8Array | undefined;

/** A command with its body of `length` bytes. */
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
  /** Input that the connection has no room for now. */
  readonly #outgoing: (Buffer | Pieces)[] = [];
  #paused = false;
  /** Input is being given to the connection, which may pause and resume meanwhile. */
  #drains = false;
  /** Who waits until more may come. */
  readonly #resumed: (() => void)[] = [];
  #isGone = false;
  #isFinished = false;
  #received: Buffer[] = [];
  #receivedBytes = 0;
  /** Bytes that the reply being received has in all; 0 before its first line is known. */
  #neededBytes = 0;

  constructor(core: AcceptorCore, wake: () => void) {
    this.#core = core;
    this.#wake = wake;
    const connection = core.connect(this);
    if (connection === undefined) throw new Busy("too many requests are under way");
    this.#connection = connection;
  }

  /** Commands that are not answered yet. */
  get underWay(): number {
    return this.#expected.length;
  }

  /** Takes no more commands: those that it has may be under way still. */
  get isOver(): boolean {
    return this.#isGone || this.#isFinished;
  }

  /** Sends a command; replies come in the order of the commands. */
  command(line: string): Promise<WireReply> {
    if (this.isOver) return Promise.reject(new Busy("the server stops"));
    this.#push(Buffer.from(`${line}\r\n`, "latin1"));
    this.#wake();
    return new Promise((resolve, reject) => this.#expected.push({ resolve, reject }));
  }

  /** Sends the line of a put and its body, which has `length` bytes. */
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

  #push(bytes: Uint8Array): void {
    if (this.#paused || this.#outgoing.length > 0) this.#outgoing.push(Buffer.from(bytes));
    else this.#connection.onBytes(bytes, bytes.length);
  }

  /** Gives the connection what waits for it, as far as it has room. */
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
   * Sends the same command `count` times; `onReply` gets each reply as soon as it has come, also where the connection ends before
   * the last of them. Resolves behind the last one.
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

  /** Sends `count` whole puts, as far as there is room, and the rest later; what became of them, in order. */
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

  /** Sends bytes of a body that was begun; resolves when more may come. */
  feed(bytes: Uint8Array): Promise<void> {
    if (this.isOver) return Promise.reject(new Busy("the server stops"));
    this.#push(bytes);
    this.#wake();
    if (!this.#paused) return Promise.resolve();
    return new Promise((resolve) => this.#resumed.push(resolve));
  }

  /**
   * Sends no more: a wait ends, with a job if one is on its way, and the connection with it. Replies under way still come.
   */
  finish(): void {
    if (this.isOver) return;
    this.#isFinished = true;
    this.#connection.onEnd();
    this.#wake();
  }

  /** Takes no more commands. Those under way are answered; a wait ends. What it holds by itself goes back. */
  close(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#core.disconnect(this.#connection);
    for (const { reject } of this.#expected.splice(0)) reject(new Busy("the connection was closed"));
    for (const resolve of this.#resumed.splice(0)) resolve();
    this.#wake();
  }

  // --- the connection's side --------------------------------------------------------------------------------------

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

  #receive(buffer: Uint8Array, length: number): void {
    const taken = this.#receivedBytes === 0 ? this.#takeInserted(buffer, length) : 0;
    if (taken === length) return;
    this.#received.push(Buffer.from(buffer.subarray(taken, length)));
    this.#receivedBytes += length - taken;
    // A long reply comes in many pieces: they are put together once.
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

  /** Gives the whole INSERTED at the beginning to the puts that expect them, right from the buffer; returns how many bytes they have. */
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

  /** Gives the first reply to who expects it; returns how many bytes it has, or 0 if it is not whole. */
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
