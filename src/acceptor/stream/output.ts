// The output of one connection on its way to its socket: gathered during a turn, held until the log
// has the changes that it reports, and sent with one write.
//
// A large body is not copied. The output refers to it in its arena, where it stays pinned until it
// has been sent.
//
// A reply that waits for the log also delays everything after it, because replies leave in order.
// Most connections hold one or two replies at a time. The positions that wait are therefore kept in
// one small array of numbers, and a reply costs no object.

import { assert } from "../../base/assert.ts";
import { asciiBytes, copyBytes } from "../../base/bytes.ts";
import type { BodyArena } from "../../engine/jobs/body-arena.ts";
import { CommandTimesCounters, commandClass } from "../../message/acceptor-counts.ts";
import { Counter } from "../../message/topology.ts";
import { Op } from "../../protocol/commands.ts";
import type { BodyReference, Transport } from "./transport.ts";

// A pool of buffers that are needed for a moment only, kept by size. It saves large bodies the
// allocation and clearing of memory.

const SMALLEST_BITS = 12;
const LARGEST_BITS = 18;
/**
 * Buffers kept of each size: 1 to 4 MiB, 20 MiB in all. With 64 of 64 KiB, fifty clients with
 * bodies of that size need no new ones; with 8, garbage collection of dropped buffers took a
 * quarter of the time. With 1,024 of 4 KiB, five hundred clients whose replies wait for the log
 * together need no new ones.
 */
const KEPT = [1024, 128, 64, 64, 64, 32, 16];

/**
 * Sizes are powers of two from 4 KiB to 256 KiB. Larger buffers are allocated to size and not kept.
 */
class BufferPool {
  readonly #free: Uint8Array[][] = KEPT.map(() => []);

  /** Returns a buffer of at least `bytes` bytes, with arbitrary contents. */
  take(bytes: number): Uint8Array {
    const bits = Math.max(SMALLEST_BITS, 32 - Math.clz32(bytes - 1));
    if (bits > LARGEST_BITS) return uncleared(bytes);
    return this.#free[bits - SMALLEST_BITS]!.pop() ?? uncleared(1 << bits);
  }

  /** The memory of the unused buffers. */
  get keptBytes(): number {
    return this.#free.reduce((bytes, free, size) => bytes + free.length * (1 << (SMALLEST_BITS + size)), 0);
  }

  /** Takes back a buffer that is no longer used. */
  give(buffer: Uint8Array): void {
    const bits = 31 - Math.clz32(buffer.length);
    if (bits < SMALLEST_BITS || bits > LARGEST_BITS || buffer.length !== 1 << bits) return;
    const free = this.#free[bits - SMALLEST_BITS]!;
    if (free.length < KEPT[bits - SMALLEST_BITS]!) free.push(buffer);
  }
}

/** Returns uncleared memory. It is a plain array, because a Buffer's `slice` does not copy. */
function uncleared(bytes: number): Uint8Array {
  return new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer);
}

/** The pool of this thread. */
export const buffers: BufferPool = new BufferPool();

/** Maximum number of bodies in one message. */
const REFERRED_BODIES_MAX = 4;
/** Maximum bytes copied at once for a transport that cannot send from an arena. */
const COPIED_BYTES_MAX = 256 * 1024;

const NOTHING = new Uint8Array(0);
const CR_LF = asciiBytes("\r\n");

/** Numbers per position that waits for the log: position in the output, shard, record number. */
const PLACE = 3;

/** Part of a body in the arena of a shard of this thread. Valid only during the call. */
export interface BodyPart {
  arena: BodyArena | undefined;
  handle: number;
  offset: number;
  length: number;
  /** Whether CR LF follows. */
  isLast: boolean;
}

/** The log, as output sees it. */
interface OutputLog {
  /** Returns whether record `number` of a shard is as far in the log as replies require. */
  isLogged(shard: number, number: number): boolean;
}

export class Output {
  /** Whether output waits for the log. */
  waitsForLog = false;
  readonly #places: number[] = [];
  readonly #transport: Transport;
  readonly #log: OutputLog;
  /** Allocated only while it is in use, so that idle connections hold no memory. */
  #buffer: Uint8Array | undefined;
  /** Bytes in the buffer. */
  #bufferedBytes = 0;
  /** Pinned bodies, in order; undefined for none. */
  #bodies: BodyReference[] | undefined;
  /** Bytes of pinned bodies. */
  #bodyBytes = 0;
  readonly #inPlaceBytesMin: number;

  /** A body of at least `inPlaceBytesMin` bytes is not copied. */
  constructor(transport: Transport, log: OutputLog, inPlaceBytesMin: number = Number.POSITIVE_INFINITY) {
    this.#transport = transport;
    this.#log = log;
    this.#inPlaceBytesMin = inPlaceBytesMin;
  }

  /** Bytes not yet handed to the transport. */
  get gatheredBytes(): number {
    return this.#bufferedBytes + this.#bodyBytes;
  }

  /** Bytes that the kernel has not taken. */
  get unsentBytes(): number {
    return this.#bufferedBytes + this.#bodyBytes + this.#transport.pendingBytes;
  }

  // put 17/18
  append(source: Uint8Array, at: number, length: number): void {
    copyBytes(this.#room(length), this.#bufferedBytes, source, at, length);
    this.#bufferedBytes += length;
  }

  /** Appends part of a body from the arena it lies in. */
  appendBody(arena: BodyArena, handle: number, offset: number, length: number): void {
    if (length < this.#inPlaceBytesMin) {
      arena.read(handle, offset, this.#room(length), this.#bufferedBytes, length);
      this.#bufferedBytes += length;
      return;
    }
    arena.pin(handle);
    this.#bodies ??= [];
    this.#bodies.push({ arena, handle, offset, length, at: this.#bufferedBytes });
    this.#bodyBytes += length;
  }

  /** Appends part of a body. Returns its length, including CR LF. */
  appendPart({ arena, handle, offset, length, isLast }: BodyPart): number {
    this.appendBody(arena!, handle, offset, length);
    if (isLast) this.append(CR_LF, 0, CR_LF.length);
    return length + (isLast ? CR_LF.length : 0);
  }

  /**
   * Holds the output from here on until record `number` of the shard is in the log. Returns whether
   * that is a wait.
   *
   * If the last position belongs to the same shard and is not the first, it waits for this record
   * instead. The records of a turn are written together, so its reply loses nothing. The first
   * position never changes; otherwise a pipeline could delay it for ever.
   */
  hold(shard: number, number: number): boolean {
    if (this.#log.isLogged(shard, number)) return false;
    this.waitsForLog = true;
    const places = this.#places;
    const last = places.length - PLACE;
    if (last > 0 && places[last + 1] === shard) places[last + 2] = number;
    else places.push(this.#bufferedBytes + this.#bodyBytes, shard, number);
    return true;
  }

  /** Whether the first reply that waited for the log may leave now. */
  get isDurable(): boolean {
    return !this.waitsForLog || this.#log.isLogged(this.#places[1]!, this.#places[2]!);
  }

  /**
   * Hands over the output that may leave: replies whose records are in the log, and those between
   * them that need none. The rest stays. Stops at large bodies that the transport cannot take now,
   * unless `all` is set. Returns the number of bytes handed over.
   */
  flush(all: boolean): number {
    if (this.waitsForLog) this.#releaseLogged();
    const limit = this.waitsForLog ? this.#places[0]! : this.#bufferedBytes + this.#bodyBytes;
    assert(limit <= this.#bufferedBytes + this.#bodyBytes, "output is held within the output");
    if (limit === 0) return 0;
    const sent = this.#bodies === undefined ? this.#sendBytes(limit) : this.#sendMixed(limit, all);
    // A transport that fails at once has cleared everything.
    const places = this.#places;
    for (let at = 0; at < places.length; at += PLACE) places[at] = places[at]! - sent;
    return sent;
  }

  /** Releases the positions whose records are in the log. */
  #releaseLogged(): void {
    while (this.waitsForLog && this.isDurable) {
      this.#places.splice(0, PLACE);
      this.waitsForLog = this.#places.length > 0;
    }
  }

  /**
   * Sends the first bytes of the buffer. The state is updated before the call: a transport that
   * fails at once has the whole output cleared.
   */
  #sendBytes(limit: number): number {
    let buffer = this.#buffer ?? NOTHING;
    if (limit === this.#bufferedBytes) {
      this.#buffer = undefined;
      this.#bufferedBytes = 0;
    } else buffer = this.#takeBuffer(limit);
    if (this.#transport.send(buffer, limit)) buffers.give(buffer);
    return limit;
  }

  #sendMixed(limit: number, all: boolean): number {
    let done = 0;
    while (this.#bodies !== undefined && done < limit) {
      done += this.#sendBodies(limit - done);
      if (this.#transport.pendingBytes > 0 && !all) return done;
    }
    return this.#buffer === undefined || done === limit ? limit : done + this.#sendBytes(limit - done);
  }

  /** Detaches the buffer with its first `limit` bytes and copies the rest to another one. */
  #takeBuffer(limit: number): Uint8Array {
    const buffer = this.#buffer ?? NOTHING;
    const rest = this.#bufferedBytes - limit;
    this.#bufferedBytes = 0;
    this.#buffer = undefined;
    if (rest > 0) {
      copyBytes(this.#room(rest), 0, buffer, limit, rest);
      this.#bufferedBytes = rest;
    }
    return buffer;
  }

  /**
   * Sends output that contains bodies: at its beginning, within the first `limit` bytes, or after
   * them. Returns the number of bytes handed over.
   */
  #sendBodies(limit: number): number {
    const bodies = this.#bodies!;
    let count = 0;
    let bodyBytes = 0;
    while (count < bodies.length && bodies[count]!.at + bodyBytes < limit) {
      // The bodies after it wait for the next message, with the bytes between them.
      if (count === REFERRED_BODIES_MAX) return this.#sendBodies(bodies[count]!.at + bodyBytes);
      bodyBytes += bodies[count++]!.length;
    }
    const bytes = limit - bodyBytes;
    if (count === 0) {
      this.#drop(0, limit, 0);
      return this.#sendBytes(limit);
    }
    if (this.#transport.sendWithBodies?.(this.#buffer ?? NOTHING, bytes, bodies.slice(0, count)) === true) {
      this.#takeBuffer(bytes);
      this.#drop(count, bytes, bodyBytes);
      return limit;
    }
    return this.#sendCopied(limit);
  }

  /** Removes sent bodies and bytes from the beginning. */
  #drop(count: number, bytes: number, bodyBytes: number): void {
    const bodies = this.#bodies!;
    if (count > 0) bodies.splice(0, count);
    for (const body of bodies) body.at -= bytes;
    this.#bodyBytes -= bodyBytes;
    if (bodies.length === 0) this.#bodies = undefined;
  }

  #sendCopied(limit: number): number {
    const bodies = this.#bodies!;
    const length = Math.min(limit, COPIED_BYTES_MAX);
    const copy = buffers.take(length);
    let done = 0;
    let bytes = 0;
    let bodyBytes = 0;
    let count = 0;
    while (done < length) {
      const body = bodies[count];
      const before = Math.min((body?.at ?? this.#bufferedBytes) - bytes, length - done);
      if (before > 0) copyBytes(copy, done, this.#buffer!, bytes, before);
      bytes += before;
      done += before;
      if (body === undefined || done === length) break;
      const part = Math.min(body.length, length - done);
      body.arena.read(body.handle, body.offset, copy, done, part);
      done += part;
      bodyBytes += part;
      body.offset += part;
      body.length -= part;
      if (body.length > 0) break;
      body.arena.unpin(body.handle);
      count++;
    }
    buffers.give(this.#takeBuffer(bytes));
    this.#drop(count, bytes, bodyBytes);
    if (this.#transport.send(copy, length)) buffers.give(copy);
    return length;
  }

  clear(): void {
    if (this.#buffer !== undefined) buffers.give(this.#buffer);
    this.#bufferedBytes = 0;
    this.#buffer = undefined;
    for (const body of this.#bodies ?? []) body.arena.unpin(body.handle);
    this.#bodies = undefined;
    this.#bodyBytes = 0;
    this.#places.length = 0;
    this.waitsForLog = false;
  }

  #room(more: number): Uint8Array {
    const needed = this.#bufferedBytes + more;
    const buffer = this.#buffer;
    if (buffer !== undefined && needed <= buffer.length) return buffer;
    const larger = buffers.take(buffer === undefined ? needed : Math.max(needed, buffer.length * 2));
    if (buffer !== undefined) {
      larger.set(buffer.subarray(0, this.#bufferedBytes));
      buffers.give(buffer);
    }
    this.#buffer = larger;
    return larger;
  }
}

// Samples the time that commands take, from the complete command until its reply is handed over,
// including its wait for the log. In one of several turns, the first command that starts is timed.
// All others cost only a check.

/** One command is timed per this many turns that took answers. */
const TURNS_PER_SAMPLE = 64;
const RESERVE = commandClass(Op.Reserve);

/** A command that is being timed. */
export interface CommandSample {
  readonly commandClass: number;
  /** In monotonic ms. */
  readonly beganAtMs: number;
  /**
   * Whether the reply has arrived, and the record that it waits for: its shard, and its number or 0
   * for none.
   */
  isAnswered: boolean;
  shard: number;
  recordNumber: number;
}

export class CommandSampler {
  /** Whether the next command that starts is to be timed. */
  isDue = false;
  #turns = 0;
  readonly #nowMs: () => number;
  readonly #counters: CommandTimesCounters;

  constructor(counters: Float64Array, nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#counters = new CommandTimesCounters(counters, Counter.CommandTimes);
  }

  /** Notes a turn that took answers. */
  turned(): void {
    if (++this.#turns % TURNS_PER_SAMPLE === 0) this.isDue = true;
  }

  begin(op: number): CommandSample {
    this.isDue = false;
    return {
      commandClass: commandClass(op),
      beganAtMs: this.#nowMs(),
      isAnswered: false,
      shard: 0,
      recordNumber: 0,
    };
  }

  /**
   * Takes the end of the reply. `hasWaited` means that the thread has stopped polling for it, as it
   * does while a reserve waits for a job. The server is not responsible for such a wait, so the
   * sample is dropped: the result is undefined.
   */
  answered(
    sample: CommandSample,
    hasWaited: boolean,
    shard: number,
    recordNumber: number,
  ): CommandSample | undefined {
    if (hasWaited && sample.commandClass === RESERVE) return undefined;
    sample.isAnswered = true;
    sample.shard = shard;
    sample.recordNumber = recordNumber;
    return sample;
  }

  /** Called after output was handed over. Returns whether the sample is finished. */
  flushed(sample: CommandSample, log: OutputLog): boolean {
    const { isAnswered, shard, recordNumber, beganAtMs } = sample;
    if (!isAnswered || (recordNumber !== 0 && !log.isLogged(shard, recordNumber))) return false;
    this.#counters.add(sample.commandClass, (this.#nowMs() - beganAtMs) / 1000);
    return true;
  }
}
