// The replies of one connection: gathered, held until the log has the changes they report, sent and
// metered.

import { asciiBytes } from "../../base/bytes.ts";
import type { BodyArena } from "../../engine/jobs/body-arena.ts";
import { ReplyCredit } from "../../message/reply-credit.ts";
import { DurabilityWaits } from "./durability-waits.ts";
import { Output } from "./output.ts";
import type { Transport } from "./transport.ts";

const CR_LF = asciiBytes("\r\n");

/** Part of a body in the arena of a shard of this thread. Valid only during the call. */
export interface BodyPart {
  arena: BodyArena | undefined;
  handle: number;
  offset: number;
  length: number;
  /** Whether CR LF follows. */
  isLast: boolean;
}

/** The log, as replies see it. */
export interface ReplyLog {
  /** Returns whether record `number` of a shard is as far in the log as replies require. */
  isLogged(shard: number, number: number): boolean;
}

/**
 * Counts the reply bytes that a connection received for its commands in flight, and how many of
 * them the shard knows the client has read. All counts wrap at 2^32; only differences matter. See
 * message/reply-credit.ts.
 */
class ReplyMeter {
  #receivedBytes = 0;
  #toldBytes = 0;

  /**
   * Starts counting at the first command in flight, with `unreadBytes` of output that the client
   * has not read.
   */
  begin(unreadBytes: number): void {
    this.#receivedBytes = unreadBytes;
    this.#toldBytes = 0;
  }

  /** Counts a reply, or part of one. */
  received(bytes: number): void {
    this.#receivedBytes = (this.#receivedBytes + bytes) | 0;
  }

  /** Returns how much the client has read, if `unreadBytes` of the output remain. */
  read(unreadBytes: number): number {
    return (this.#receivedBytes - unreadBytes) | 0;
  }

  /** Notes how many bytes were reported to the shard. */
  reported(bytes: number): void {
    this.#toldBytes = bytes;
  }

  /** Returns whether the client has read enough since then for another report. */
  isDue(readBytes: number): boolean {
    return ((readBytes - this.#toldBytes) | 0) >= ReplyCredit.StepBytes;
  }
}

export class Outbox extends Output {
  /** How much of its replies the client has read: see message/reply-credit.ts. */
  readonly meter: ReplyMeter = new ReplyMeter();
  /** Whether output waits for the log. */
  waitsForLog = false;
  readonly #waits = new DurabilityWaits();
  readonly #transport: Transport;
  readonly #log: ReplyLog;

  /** `inPlaceBytesMin`: see Output. */
  constructor(transport: Transport, log: ReplyLog, inPlaceBytesMin?: number) {
    super(inPlaceBytesMin);
    this.#transport = transport;
    this.#log = log;
  }

  /** Bytes that the kernel has not taken. */
  get bytes(): number {
    return this.bufferedBytes + this.bodyBytes + this.#transport.pendingBytes;
  }

  /**
   * Holds the output from here on until record `number` of the shard is in the log. Returns whether
   * that is a wait.
   */
  holdFor(shard: number, number: number): boolean {
    if (this.#log.isLogged(shard, number)) return false;
    this.#waits.add(this.gatheredBytes, shard, number);
    this.waitsForLog = true;
    return true;
  }

  /** Appends part of a body. Returns its length, including CR LF. */
  appendPart({ arena, handle, offset, length, isLast }: BodyPart): number {
    this.appendBody(arena!, handle, offset, length);
    if (isLast) this.append(CR_LF, 0, CR_LF.length);
    return length + (isLast ? CR_LF.length : 0);
  }

  /** Whether the first reply that waited for the log may leave now. */
  get isDurable(): boolean {
    const waits = this.#waits;
    return waits.empty || this.#log.isLogged(waits.shard, waits.number);
  }

  /**
   * Hands over the output that may leave: replies whose records are in the log, and those between
   * them that need none. Stops at large bodies that the transport cannot take now, unless `all` is
   * set.
   */
  flush(all = false): void {
    const waits = this.#waits;
    while (!waits.empty && this.isDurable) waits.shift();
    this.waitsForLog = !waits.empty;
    const limit = waits.empty ? this.gatheredBytes : waits.position;
    const sent = this.handOver(this.#transport, limit, all);
    if (!waits.empty) waits.moved(sent);
  }

  override clear(): void {
    super.clear();
    this.#waits.clear();
    this.waitsForLog = false;
  }
}
