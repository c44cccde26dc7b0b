// The short replies of a shard, and the beginning that all replies share.

import { CR, LF } from "../../base/ascii.ts";
import { assert, CHECKED } from "../../base/assert.ts";
import { copyBytes, decimalDigits, writeDecimal } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { ResponseFlag } from "../../message/response.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { ReplyPort, StoredPart } from "./reply-port.ts";

const NO_BYTES = new Uint8Array(0);
const float64 = new Float64Array(1);
const float64Bytes = new Uint8Array(float64.buffer);

/** The number of the record that replies depend on. */
export interface RecordNumbers {
  /** Number of the last record appended; 0 if there is none. */
  readonly lastNumber: number;
}

export class ShortReplies {
  /** The last record before the current command. The reply waits for later ones. */
  recordsBefore = 0;
  protected readonly records: RecordNumbers;
  protected readonly engine: Engine;
  protected readonly ports: readonly ReplyPort[];
  /** The acceptor copies bodies of at least this size itself, if it runs in this thread. */
  protected readonly storedBytesMin: number;

  constructor(
    engine: Engine,
    ports: readonly ReplyPort[],
    records: RecordNumbers,
    storedBytesMin: number = Number.POSITIVE_INFINITY,
  ) {
    this.storedBytesMin = storedBytesMin;
    this.records = records;
    this.engine = engine;
    this.ports = ports;
  }

  /** Sends a fixed reply. */
  fixed(session: ShardSession, reply: Uint8Array): void {
    this.bytes(session, reply, 0, reply.length);
  }

  bytes(session: ShardSession, source: Uint8Array, at: number, length: number): void {
    if (CHECKED) assert(at >= 0 && at + length <= source.length, "a reply lies within its source");
    const port = this.begin(session, 0, length);
    copyBytes(port.target, port.at, source, at, length);
  }

  /** Sends `<word><number> CR LF`. */
  // put 7/10
  number(session: ShardSession, word: Uint8Array, number: number): void {
    if (CHECKED) assert(Number.isInteger(number) && number >= 0, "the number in a reply is a count");
    const port = this.begin(session, 0, word.length + decimalDigits(number) + 2);
    copyBytes(port.target, port.at, word, 0, word.length);
    const at = writeDecimal(port.target, port.at + word.length, number);
    port.target[at] = CR;
    port.target[at + 1] = LF;
  }

  /**
   * Sends a signal to the acceptor itself, with the soonest deadline of the session's jobs here.
   * The view of the kind defines `value` and `word`.
   */
  signal(session: ShardSession, kind: number, value = 0, word = 0): void {
    const port = this.ports[session.acceptor]!;
    port.beginSignal(kind, session.holdsFlag, session.connectionSlot, 8, value, word);
    float64[0] = session.engineSession.held.soonestMs;
    copyBytes(port.target, port.at, float64Bytes, 0, 8);
  }

  /** Makes the reply wait for all records so far: it reports the effect of earlier commands. */
  dependOnAll(): void {
    this.recordsBefore = 0;
  }

  /** Number of the last record so far. */
  get lastRecord(): number {
    return this.records.lastNumber % 2 ** 32;
  }

  /** Sends an Ack after changes. The acceptor's reply waits for their record. */
  settled(session: ShardSession, value: number, payload: Uint8Array = NO_BYTES): void {
    assert(value >= 0, "a count of jobs is not negative");
    const port = this.ports[session.acceptor]!;
    const flags = session.holdsFlag | this.durable();
    const { connectionSlot, engineSession } = session;
    const bytes = 8 + payload.length;
    port.beginAck(flags, connectionSlot, bytes, value, this.records.lastNumber % 2 ** 32);
    float64[0] = engineSession.held.soonestMs;
    copyBytes(port.target, port.at, float64Bytes, 0, 8);
    copyBytes(port.target, port.at + 8, payload, 0, payload.length);
  }

  // --- the beginning of a reply ------------------------------------------------------------------

  protected begin(session: ShardSession, flags: number, length: number): ReplyPort {
    return this.beginPiece(session, flags | this.durable(), length, this.records.lastNumber);
  }

  /** Returns ResponseFlag.Durable if the current command has made a record. */
  protected durable(): number {
    return this.records.lastNumber !== this.recordsBefore ? ResponseFlag.Durable : 0;
  }

  protected beginPiece(
    session: ShardSession,
    flags: number,
    length: number,
    recordNumber: number,
  ): ReplyPort {
    const port = this.ports[session.acceptor]!;
    if (CHECKED) assert(length > 0, "a reply has bytes");
    session.sent(length);
    port.beginReply(flags | session.holdsFlag, session.connectionSlot, length, recordNumber % 2 ** 32);
    return port;
  }

  /**
   * Begins a reply with a body part that the acceptor copies itself. The caller writes the head.
   */
  protected beginStored(
    session: ShardSession,
    flags: number,
    recordNumber: number,
    part: StoredPart,
  ): ReplyPort {
    const port = this.ports[session.acceptor]!;
    assert(port.isLocal, "only an acceptor in this thread reads the arena");
    this.engine.bodies.pin(part.handle);
    session.sent(part.headBytes + part.length + (part.isLast ? 2 : 0));
    port.beginStored(flags | session.holdsFlag, session.connectionSlot, recordNumber % 2 ** 32, part);
    return port;
  }
}
