// Sends jobs of this shard to tubes on other shards, in transfers: those being filled, those queued
// and those in flight.
//
// At most TRANSFERS_MAX are in flight, which bounds the memory of acceptors and other shards. The
// others are queued as lists of ids. A job with more bytes than a transfer may have goes alone, in
// pieces, with only a few pieces sent ahead of the other shard's credits.

import { assert } from "../../base/assert.ts";
import { asciiBytes, copyBytes, Memory } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Outcome } from "../../engine/jobs/ends.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { ChangedFacts } from "../../engine/jobs/new-job.ts";
import type { Travel } from "../../engine/transfers.ts";
import { emptyRecordFields, encodePutHead, RECORD_FIXED_BYTES } from "../../message/record.ts";
import type { ReplyPort } from "../../message/response.ts";
import {
  TRANSFER_BYTES_MAX,
  TRANSFER_HEADER_BYTES,
  TRANSFER_JOB_HEADER_BYTES,
  TRANSFER_JOBS_MAX,
  TransferFlag,
  TransferJobView,
  TransferMessage,
  TransferView,
} from "../../message/transfer.ts";
import { ALL_ATTRIBUTE_BYTES_MAX, Attribute, AttributeWriter } from "../../protocol/job-attribute.ts";
import { TUBE_NAME_BYTES_MAX } from "../../protocol/limits.ts";
import { OPTION_VALUE_BYTES_MAX } from "../../protocol/option-rows.ts";
import { JobCounter } from "../../schema/job.ts";
import { fillRecordFields, type RecordLog } from "../records/record-log.ts";

/** Maximum number of transfers in flight. */
const TRANSFERS_MAX = 8;
/** Maximum number of pieces of a job sent ahead of credits. */
const PIECES_MAX = 4;
/** The header of a request is this much longer than that of a response. */
const HEADER_DIFFERENCE = 40;
/** Maximum bytes of a record's mutable attributes, without the origin and these. */
const CHANGING_BYTES = 96;
/** Progress, note, and the reason of a cancellation. */
const NOTES_BYTES = 2 * (2 + OPTION_VALUE_BYTES_MAX) + 1;
const NO_NAME = new Uint8Array(0);
/** Transfer numbers fit into a column of the job table. */
const NUMBERS = 2 ** 31;

/** Receives the outcome of a transfer. */
export interface Sender {
  /**
   * Called when the first `taken` jobs have arrived and the log has recorded that. `refusal` tells
   * why the others have not.
   */
  landed(transfer: Transfer, taken: number, refusal: Outcome): void;
}

export class Transfer {
  readonly number: number;
  readonly tube: string;
  readonly travel: Travel;
  readonly sender: Sender;
  /** The jobs become ready on arrival, whatever their state. */
  asReady = false;
  /** The jobs become ready, or delayed for this time, in ms. */
  delayMs: number | undefined;
  /** Changed properties of the transfer's only job. */
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

interface TransferSenderOptions {
  readonly engine: Engine;
  /** The port to the acceptor that relays. */
  readonly port: ReplyPort;
  readonly records: RecordLog | undefined;
  readonly shardOf: (tube: string) => number;
  /** Called before a job can leave. */
  readonly onBegin: () => void;
  /** Called for each job of a transfer whose outcome is known, after its sender. */
  readonly onLanded: (id: number) => void;
}

export class TransferSender {
  readonly #options: TransferSenderOptions;
  readonly #bytesMax: number;
  /** Complete transfers that have not begun. */
  readonly waiting: Transfer[] = [];
  readonly #underWay = new Map<number, Transfer>();
  readonly #writer = new AttributeWriter(Memory.ofSize(ALL_ATTRIBUTE_BYTES_MAX));
  readonly #fields = emptyRecordFields();
  readonly #scratch = Memory.ofSize(TRANSFER_BYTES_MAX);
  #lastNumber = 0;

  constructor(options: TransferSenderOptions) {
    this.#options = options;
    this.#bytesMax = Math.min(TRANSFER_BYTES_MAX, options.port.payloadBytesMax - HEADER_DIFFERENCE);
    assert(this.#bytesMax > TRANSFER_JOB_HEADER_BYTES, "a piece of a job fits into a message");
  }

  /** Begins a transfer to a tube on another shard. The caller fills and sends it. */
  begin(tube: string, travel: Travel, sender: Sender): Transfer {
    assert(tube !== "", "a transfer goes to a tube");
    this.#options.onBegin();
    this.#lastNumber = (this.#lastNumber + 1) % NUMBERS;
    const transfer = new Transfer(this.#lastNumber, tube, travel, sender);
    transfer.bytes = TRANSFER_HEADER_BYTES + tube.length;
    return transfer;
  }

  /** Returns whether the job fits into the transfer. If not, it needs another one. */
  hasRoom(transfer: Transfer, slot: number): boolean {
    const { ids, bytes } = transfer;
    return (
      ids.length === 0 || (ids.length < TRANSFER_JOBS_MAX && bytes + this.#bytesOf(slot) <= this.#bytesMax)
    );
  }

  /** Adds a job, which is in transfer from here on. */
  add(transfer: Transfer, slot: number, nowMs: number): void {
    const { engine } = this.#options;
    transfer.ids.push(engine.jobs.pageOf(slot).id[rowOf(slot)]!);
    transfer.bytes += this.#bytesOf(slot);
    assert(transfer.ids.length <= TRANSFER_JOBS_MAX, "a transfer has no more jobs than its limit");
    assert(transfer.ids.length === 1 || transfer.bytes <= this.#bytesMax, "a transfer has room for its jobs");
    engine.transfers.depart(slot, transfer.number, nowMs);
  }

  /** Queues a complete transfer. */
  send(transfer: Transfer): void {
    assert(transfer.ids.length > 0, "a transfer has a job");
    assert(transfer.sentBytes === 0, "a transfer is queued before any of it is sent");
    this.waiting.push(transfer);
  }

  /** Returns the maximum number of bytes that the job may take in a transfer. */
  #bytesOf(slot: number): number {
    const { jobs, policies } = this.#options.engine;
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    const { extras } = page;
    const attributeBytes =
      extras === undefined ? 0 : extras.attributeBytes[row]! + extras.originBytes[row]! + CHANGING_BYTES;
    const noteBytes = extras?.notes === undefined ? 0 : NOTES_BYTES;
    const failureBytes = page.failures === undefined ? 0 : policies.failures.attributeBytes(slot);
    return (
      TRANSFER_JOB_HEADER_BYTES +
      RECORD_FIXED_BYTES +
      attributeBytes +
      noteBytes +
      failureBytes +
      page.bodyBytes[row]!
    );
  }

  /** Whether a transfer could be sent now. */
  get hasWork(): boolean {
    return this.#maySend && this.#options.port.ring.hasRoom(this.#options.port.ring.messageBytesMax);
  }

  get #maySend(): boolean {
    return this.waiting.length > 0 && this.#underWay.size < TRANSFERS_MAX && !this.#options.port.blocked;
  }

  /** Sends the transfers that may go. */
  step(): void {
    while (this.hasWork) this.#begin(this.waiting.shift()!);
  }

  #begin(transfer: Transfer): void {
    assert(!this.#underWay.has(transfer.number), "transfers in flight have numbers of their own");
    this.#underWay.set(transfer.number, transfer);
    assert(this.#underWay.size <= TRANSFERS_MAX, "the number of transfers in flight is limited");
    const end = transfer.bytes <= this.#bytesMax ? this.#write(transfer) : this.#writeHead(transfer);
    this.#carry(transfer, TransferMessage.Begin, this.#scratch.bytes, end);
    if (transfer.head.length > 0) this.#sendPieces(transfer);
  }

  #carry({ tube, number }: Transfer, kind: TransferMessage, bytes: Uint8Array, length: number): void {
    const { port, records, shardOf } = this.#options;
    assert(length > 0, "a message to another shard has bytes");
    port.beginCarry(kind, shardOf(tube), number, length, false, records?.lastNumber ?? 0);
    copyBytes(port.target, port.at, bytes, 0, length);
  }

  // --- transfers out -----------------------------------------------------------------------------

  #writeHeader({ travel, asReady, delayMs, tube, ids }: Transfer, flags: number): number {
    const { bytes, view } = this.#scratch;
    const name = asciiBytes(tube);
    assert(name.length <= TUBE_NAME_BYTES_MAX && ids.length > 0, "a transfer has a tube and jobs");
    const how =
      flags | (asReady ? TransferFlag.AsReady : 0) | (delayMs === undefined ? 0 : TransferFlag.Delay);
    TransferView.write(view, travel, how, name.length, ids.length, delayMs ?? 0);
    copyBytes(bytes, TRANSFER_HEADER_BYTES, name, 0, name.length);
    return TRANSFER_HEADER_BYTES + name.length;
  }

  /** Writes all jobs of a transfer. Returns the end position. */
  #write(transfer: Transfer): number {
    const { engine } = this.#options;
    const { bytes, view } = this.#scratch;
    let at = this.#writeHeader(transfer, 0);
    for (const id of transfer.ids) {
      const slot = engine.find(id);
      assert(slot !== NO_SLOT, "a job in flight is still on this shard");
      const page = engine.jobs.pageOf(slot);
      const bodyBytes = page.bodyBytes[rowOf(slot)]!;
      const bodyAt = this.#writeRecord(slot, transfer.facts, this.#scratch, at + TRANSFER_JOB_HEADER_BYTES);
      engine.bodies.read(page.body[rowOf(slot)]!, 0, bytes, bodyAt, bodyBytes);
      const end = bodyAt + bodyBytes;
      TransferJobView.write(view, at, end - at - TRANSFER_JOB_HEADER_BYTES, this.#fileOf(slot));
      at = end;
    }
    assert(at <= transfer.bytes, "the records of a transfer are no larger than estimated");
    return at;
  }

  /** Writes only the head of a job that goes in pieces. Returns the end position. */
  #writeHead(transfer: Transfer): number {
    assert(transfer.ids.length === 1, "a job that goes in pieces goes alone");
    const slot = this.#options.engine.find(transfer.ids[0]!);
    assert(slot !== NO_SLOT, "a job that goes in pieces is still here");
    const head = Memory.ofSize(RECORD_FIXED_BYTES + ALL_ATTRIBUTE_BYTES_MAX);
    transfer.head = head.bytes.subarray(0, this.#writeRecord(slot, transfer.facts, head, 0));
    const { view } = this.#scratch;
    const at = this.#writeHeader(transfer, TransferFlag.InPieces);
    TransferJobView.write(view, at, transfer.head.length, this.#fileOf(slot));
    assert(
      at + TRANSFER_JOB_HEADER_BYTES <= this.#scratch.bytes.length,
      "the beginning of a job fits into a message",
    );
    return at + TRANSFER_JOB_HEADER_BYTES;
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
    engine.policies.notes.writeSaid(slot, writer);
    if (facts !== undefined) {
      // A later attribute overrides an earlier one.
      writer.float64(Attribute.ExpiresAt, facts.expiresAtMs);
      writer.uint32(Attribute.AttemptsBase, facts.attemptsBase);
    }
    const attributes = writer.bytes.subarray(0, writer.pad());
    const before = engine.transfers.stateBefore(slot);
    fillRecordFields(this.#fields, page, row, before === JobState.Reserved ? JobState.Ready : before, 0);
    if (facts !== undefined) {
      this.#fields.pri = facts.pri;
      this.#fields.ttrSeconds = facts.ttrSeconds;
      this.#fields.counters[JobCounter.releases] = facts.releases;
    }
    return encodePutHead(memory, at, this.#fields, NO_NAME, page.bodyBytes[row]!, attributes);
  }

  #sendPieces(transfer: Transfer): void {
    const { engine } = this.#options;
    const slot = engine.find(transfer.ids[0]!);
    assert(slot !== NO_SLOT, "a job whose pieces are sent is still here");
    const page = engine.jobs.pageOf(slot);
    const bodyBytes = page.bodyBytes[rowOf(slot)]!;
    const { head } = transfer;
    const { bytes } = this.#scratch;
    while (transfer.sentBytes < head.length + bodyBytes && transfer.piecesAhead < PIECES_MAX) {
      const from = transfer.sentBytes;
      const headPart = Math.max(0, Math.min(this.#bytesMax, head.length - from));
      copyBytes(bytes, 0, head, from, headPart);
      const bodyFrom = from + headPart - head.length;
      const bodyPart = bodyFrom < 0 ? 0 : Math.min(this.#bytesMax - headPart, bodyBytes - bodyFrom);
      assert(headPart + bodyPart > 0, "a piece of a job has bytes");
      engine.bodies.read(page.body[rowOf(slot)]!, Math.max(0, bodyFrom), bytes, headPart, bodyPart);
      transfer.sentBytes += headPart + bodyPart;
      assert(transfer.sentBytes <= head.length + bodyBytes, "no more of a job is sent than it has");
      transfer.piecesAhead++;
      assert(transfer.piecesAhead <= PIECES_MAX, "the number of pieces ahead of credits is limited");
      this.#carry(transfer, TransferMessage.Piece, bytes, headPart + bodyPart);
    }
  }

  // --- outcomes ----------------------------------------------------------------------------------

  /** Takes a credit for a piece of the transfer's only job. The job may have been refused since. */
  credit(number: number): void {
    const transfer = this.#underWay.get(number);
    if (transfer === undefined) return;
    assert(transfer.head.length > 0, "a credit is for a job in pieces");
    assert(transfer.piecesAhead > 0, "a credit is for a piece that was sent");
    transfer.piecesAhead--;
    this.#sendPieces(transfer);
  }

  /**
   * Handles the outcome of a transfer: the other shard has its first `taken` jobs and none of the
   * others.
   */
  landed(number: number, taken: number, refusal: Outcome, nowMs: number): void {
    const transfer = this.#underWay.get(number);
    assert(transfer !== undefined, "a transfer lands once");
    assert(taken <= transfer.ids.length, "no more jobs land than were sent");
    this.#underWay.delete(number);
    const { engine } = this.#options;
    for (const [index, id] of transfer.ids.entries()) {
      if (index < taken) engine.transfers.departed(id, number, nowMs);
      else engine.transfers.stay(id, number, nowMs);
    }
    transfer.sender.landed(transfer, taken, refusal);
    for (const id of transfer.ids) this.#options.onLanded(id);
  }
}
