// Sends jobs of this shard to tubes on other shards, in shipments: those being filled, those queued
// and those in flight.
//
// At most SHIPMENTS_MAX are in flight, which bounds the memory of acceptors and other shards. The
// others are queued as lists of ids. A job with more bytes than a shipment may have goes alone, in
// pieces, with only a few pieces sent ahead of the other shard's credits.

import { assert } from "../../base/assert.ts";
import { asciiBytes, copyBytes } from "../../base/bytes.ts";
import { Memory } from "../../base/memory.ts";
import type { Engine } from "../../engine/engine.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { ChangedFacts } from "../../engine/jobs/new-job.ts";
import type { Outcome } from "../../engine/jobs/outcome.ts";
import type { Travel } from "../../engine/transfer/job-travel.ts";
import { emptyRecordFields, encodePutHead, RECORD_FIXED_BYTES } from "../../message/record.ts";
import {
  PARCEL_HEADER_BYTES,
  ParcelView,
  SHIP_HEADER_BYTES,
  SHIPMENT_BYTES_MAX,
  SHIPMENT_JOBS_MAX,
  ShipFlag,
  Shipping,
  ShipView,
} from "../../message/shipment.ts";
import { ATTRIBUTE_BYTES_MAX, Attribute, AttributeWriter } from "../../protocol/job-attribute.ts";
import { fillRecordFields } from "../records/record-fields.ts";
import type { RecordLog } from "../records/record-log.ts";
import type { ReplyPort } from "../replies/reply-port.ts";

/** The most shipments in flight. */
const SHIPMENTS_MAX = 8;
/** The most pieces of a job sent ahead of credits. */
const PIECES_MAX = 4;
/** The header of a request is this much longer than that of a response. */
const HEADER_DIFFERENCE = 40;
/** The most bytes of a record's mutable attributes, without the origin. */
const CHANGING_BYTES = 64;
const NO_NAME = new Uint8Array(0);
/** Shipment numbers fit into a column of the job table. */
const NUMBERS = 2 ** 31;

/** Receives the outcome of a shipment. */
export interface Sender {
  /**
   * Called when the first `taken` jobs have arrived and the log has recorded that. `refusal` tells
   * why the others have not.
   */
  landed(shipment: Shipment, taken: number, refusal: Outcome): void;
}

export class Shipment {
  readonly number: number;
  readonly tube: string;
  readonly travel: Travel;
  readonly sender: Sender;
  /** The jobs become ready on arrival, whatever their state. */
  asReady = false;
  /** The jobs become ready, or delayed for this time, in ms. */
  delayMs: number | undefined;
  /** Changed properties of the shipment's only job. */
  facts: ChangedFacts | undefined;
  readonly ids: number[] = [];
  /** Upper bound of the records' size. */
  bytes = 0;
  /**
   * For a job in pieces: the bytes before its body, the bytes sent of both, and the pieces without
   * credit.
   */
  head: Uint8Array = NO_NAME;
  sentBytes = 0;
  piecesAhead = 0;

  constructor(number: number, tube: string, travel: Travel, sender: Sender) {
    this.number = number;
    this.tube = tube;
    this.travel = travel;
    this.sender = sender;
  }
}

export interface TransferSenderOptions {
  readonly engine: Engine;
  /** The port to the acceptor that relays. */
  readonly port: ReplyPort;
  readonly records: RecordLog | undefined;
  readonly shardOf: (tube: string) => number;
  /** Called before a job can leave. */
  readonly onBegin: () => void;
  /** Called for each job of a shipment whose outcome is known, after its sender. */
  readonly onLanded: (id: number) => void;
}

export class TransferSender {
  readonly #options: TransferSenderOptions;
  readonly #bytesMax: number;
  readonly #waiting: Shipment[] = [];
  readonly #underWay = new Map<number, Shipment>();
  readonly #writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
  readonly #fields = emptyRecordFields();
  readonly #scratch = Memory.ofSize(SHIPMENT_BYTES_MAX);
  #lastNumber = 0;

  constructor(options: TransferSenderOptions) {
    this.#options = options;
    this.#bytesMax = Math.min(SHIPMENT_BYTES_MAX, options.port.payloadBytesMax - HEADER_DIFFERENCE);
  }

  /** Begins a shipment to a tube on another shard. The caller fills and sends it. */
  begin(tube: string, travel: Travel, sender: Sender): Shipment {
    assert(tube !== "", "a shipment goes to a tube");
    this.#options.onBegin();
    this.#lastNumber = (this.#lastNumber + 1) % NUMBERS;
    const shipment = new Shipment(this.#lastNumber, tube, travel, sender);
    shipment.bytes = SHIP_HEADER_BYTES + tube.length;
    return shipment;
  }

  /** Returns whether the job fits into the shipment. If not, it needs another one. */
  hasRoom(shipment: Shipment, slot: number): boolean {
    const { ids, bytes } = shipment;
    return (
      ids.length === 0 || (ids.length < SHIPMENT_JOBS_MAX && bytes + this.#bytesOf(slot) <= this.#bytesMax)
    );
  }

  /** Adds a job, which is in transfer from here on. */
  add(shipment: Shipment, slot: number): void {
    const { engine } = this.#options;
    shipment.ids.push(engine.jobs.pageOf(slot).id[rowOf(slot)]!);
    shipment.bytes += this.#bytesOf(slot);
    assert(shipment.ids.length === 1 || shipment.bytes <= this.#bytesMax, "a shipment has room for its jobs");
    engine.depart(slot, shipment.number);
  }

  /** Queues a complete shipment. */
  send(shipment: Shipment): void {
    assert(shipment.ids.length > 0, "a shipment has a job");
    this.#waiting.push(shipment);
  }

  /** Returns the most bytes that the job may take in a shipment. */
  #bytesOf(slot: number): number {
    const page = this.#options.engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    const { extras } = page;
    const attributeBytes =
      extras === undefined ? 0 : extras.attributeBytes[row]! + extras.originBytes[row]! + CHANGING_BYTES;
    return PARCEL_HEADER_BYTES + RECORD_FIXED_BYTES + attributeBytes + page.bodyBytes[row]!;
  }

  /** Whether a shipment could be sent now. */
  get hasWork(): boolean {
    return this.#maySend && this.#options.port.ring.hasRoom(this.#options.port.ring.messageBytesMax);
  }

  get #maySend(): boolean {
    return this.#waiting.length > 0 && this.#underWay.size < SHIPMENTS_MAX && !this.#options.port.blocked;
  }

  /** Sends the shipments that may go. */
  step(): void {
    while (this.hasWork) this.#begin(this.#waiting.shift()!);
  }

  #begin(shipment: Shipment): void {
    assert(!this.#underWay.has(shipment.number), "shipments in flight have numbers of their own");
    this.#underWay.set(shipment.number, shipment);
    const end = shipment.bytes <= this.#bytesMax ? this.#write(shipment) : this.#writeHead(shipment);
    this.#carry(shipment, Shipping.Ship, this.#scratch.bytes, end);
    if (shipment.head.length > 0) this.#sendPieces(shipment);
  }

  #carry({ tube, number }: Shipment, kind: Shipping, bytes: Uint8Array, length: number): void {
    const { port, records, shardOf } = this.#options;
    port.beginCarry(kind, shardOf(tube), number, length, false, records?.lastNumber ?? 0);
    copyBytes(port.target, port.at, bytes, 0, length);
  }

  // --- shipments out -----------------------------------------------------------------------------

  #writeHeader({ travel, asReady, delayMs, tube, ids }: Shipment, flags: number): number {
    const { bytes, view } = this.#scratch;
    const name = asciiBytes(tube);
    const how = flags | (asReady ? ShipFlag.AsReady : 0) | (delayMs === undefined ? 0 : ShipFlag.Delay);
    ShipView.write(view, travel, how, name.length, ids.length, delayMs ?? 0);
    copyBytes(bytes, SHIP_HEADER_BYTES, name, 0, name.length);
    return SHIP_HEADER_BYTES + name.length;
  }

  /** Writes all jobs of a shipment. Returns the end position. */
  #write(shipment: Shipment): number {
    const { engine } = this.#options;
    const { bytes, view } = this.#scratch;
    let at = this.#writeHeader(shipment, 0);
    for (const id of shipment.ids) {
      const slot = engine.find(id);
      assert(slot !== NO_SLOT, "a job under way is still here");
      const page = engine.jobs.pageOf(slot);
      const bodyBytes = page.bodyBytes[rowOf(slot)]!;
      const bodyAt = this.#writeRecord(slot, shipment.facts, this.#scratch, at + PARCEL_HEADER_BYTES);
      engine.bodies.read(page.body[rowOf(slot)]!, 0, bytes, bodyAt, bodyBytes);
      const end = bodyAt + bodyBytes;
      ParcelView.write(view, at, end - at - PARCEL_HEADER_BYTES, this.#fileOf(slot));
      at = end;
    }
    assert(at <= shipment.bytes, "the records of a shipment are no larger than reckoned");
    return at;
  }

  /** Writes only the head of a job that goes in pieces. Returns the end position. */
  #writeHead(shipment: Shipment): number {
    const slot = this.#options.engine.find(shipment.ids[0]!);
    assert(slot !== NO_SLOT, "a job that goes in pieces is still here");
    const head = Memory.ofSize(RECORD_FIXED_BYTES + ATTRIBUTE_BYTES_MAX);
    shipment.head = head.bytes.subarray(0, this.#writeRecord(slot, shipment.facts, head, 0));
    const { view } = this.#scratch;
    const at = this.#writeHeader(shipment, ShipFlag.InPieces);
    ParcelView.write(view, at, shipment.head.length, this.#fileOf(slot));
    return at + PARCEL_HEADER_BYTES;
  }

  #fileOf(slot: number): number {
    return this.#options.records?.fileOf(slot) ?? 0;
  }

  /** Writes the part of the job's record before the body. Returns the end position. */
  #writeRecord(slot: number, facts: ChangedFacts | undefined, memory: Memory, at: number): number {
    const { engine } = this.#options;
    const page = engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    const writer = this.#writer;
    writer.clear();
    engine.policies.attributes.writeFixed(slot, writer, 0);
    engine.policies.attributes.writeMutable(slot, writer, 0);
    if (facts !== undefined) {
      // A later attribute overrides an earlier one.
      writer.float64(Attribute.ExpiresAt, facts.expiresAtMs);
      writer.uint32(Attribute.AttemptsBase, facts.attemptsBase);
    }
    const attributes = writer.bytes.subarray(0, writer.pad());
    const before = engine.stateBefore(slot);
    fillRecordFields(this.#fields, page, row, before === JobState.Reserved ? JobState.Ready : before, 0);
    if (facts !== undefined) {
      this.#fields.pri = facts.pri;
      this.#fields.ttrSeconds = facts.ttrSeconds;
      this.#fields.releases = facts.releases;
    }
    return encodePutHead(memory, at, this.#fields, NO_NAME, page.bodyBytes[row]!, attributes);
  }

  #sendPieces(shipment: Shipment): void {
    const { engine } = this.#options;
    const slot = engine.find(shipment.ids[0]!);
    assert(slot !== NO_SLOT, "a job whose pieces are sent is still here");
    const page = engine.jobs.pageOf(slot);
    const bodyBytes = page.bodyBytes[rowOf(slot)]!;
    const { head } = shipment;
    const { bytes } = this.#scratch;
    while (shipment.sentBytes < head.length + bodyBytes && shipment.piecesAhead < PIECES_MAX) {
      const from = shipment.sentBytes;
      const headPart = Math.max(0, Math.min(this.#bytesMax, head.length - from));
      copyBytes(bytes, 0, head, from, headPart);
      const bodyFrom = from + headPart - head.length;
      const bodyPart = bodyFrom < 0 ? 0 : Math.min(this.#bytesMax - headPart, bodyBytes - bodyFrom);
      assert(headPart + bodyPart > 0, "a piece of a job has bytes");
      engine.bodies.read(page.body[rowOf(slot)]!, Math.max(0, bodyFrom), bytes, headPart, bodyPart);
      shipment.sentBytes += headPart + bodyPart;
      assert(shipment.sentBytes <= head.length + bodyBytes, "no more of a job is sent than it has");
      shipment.piecesAhead++;
      this.#carry(shipment, Shipping.Piece, bytes, headPart + bodyPart);
    }
  }

  // --- outcomes ----------------------------------------------------------------------------------

  /** Takes a credit for a piece of the shipment's only job. The job may have been refused since. */
  credit(number: number): void {
    const shipment = this.#underWay.get(number);
    if (shipment === undefined) return;
    assert(shipment.piecesAhead > 0, "a credit is for a piece that was sent");
    shipment.piecesAhead--;
    this.#sendPieces(shipment);
  }

  /**
   * Handles the outcome of a shipment: the other shard has its first `taken` jobs and none of the
   * others.
   */
  landed(number: number, taken: number, refusal: Outcome, nowMs: number): void {
    const shipment = this.#underWay.get(number);
    assert(shipment !== undefined, "a shipment lands once");
    assert(taken <= shipment.ids.length, "no more jobs land than were sent");
    this.#underWay.delete(number);
    const { engine } = this.#options;
    for (const [index, id] of shipment.ids.entries()) {
      if (index < taken) engine.departed(id, number, nowMs);
      else engine.stay(id, number, nowMs);
    }
    shipment.sender.landed(shipment, taken, refusal);
    for (const id of shipment.ids) this.#options.onLanded(id);
  }
}
