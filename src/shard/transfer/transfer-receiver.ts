// Receives jobs from other shards: stores them in the engine and sends the outcome back.

import { assert } from "../../base/assert.ts";
import { copyBytes, latin1, Memory } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { EMPTY_BODY } from "../../engine/jobs/body-arena.ts";
import { Outcome } from "../../engine/jobs/ends.ts";
import { JobState } from "../../engine/jobs/job-table.ts";
import { JobAttributes, type RestoredJob } from "../../engine/jobs/new-job.ts";
import type { Arrival, Travel } from "../../engine/transfers.ts";
import {
  bodyBytesOf,
  decodeFields,
  emptyRecordFields,
  RECORD_FIXED_BYTES,
  RecordState,
  recordHeadBytes,
} from "../../message/record.ts";
import type { ReplyPort } from "../../message/response.ts";
import {
  LANDED_BYTES,
  LandedView,
  TRANSFER_HEADER_BYTES,
  TRANSFER_JOB_HEADER_BYTES,
  TransferFlag,
  TransferJobView,
  TransferMessage,
  TransferView,
} from "../../message/transfer.ts";
import type { Span } from "../../protocol/request.ts";
import type { RecordLog } from "../records/record-log.ts";

interface TransferReceiverOptions {
  readonly engine: Engine;
  /** The port to the acceptor that relays. */
  readonly port: ReplyPort;
  readonly records: RecordLog | undefined;
  /** Called for each job that has arrived and now lives here. */
  readonly onArrived: (id: number) => void;
}

/** The properties that a transfer states for all its jobs. */
interface Manifest extends Arrival {
  readonly tube: string;
}

/** A job that arrives in pieces. */
interface Incoming {
  readonly manifest: Manifest;
  readonly file: number;
  readonly head: Memory;
  headBytes: number;
  body: number;
  bodyBytes: number;
}

export class TransferReceiver {
  readonly #options: TransferReceiverOptions;
  /** By sender and number. */
  readonly #incoming = new Map<string, Incoming>();
  readonly #fields = emptyRecordFields();
  readonly #attributes = new JobAttributes();

  constructor(options: TransferReceiverOptions) {
    this.#options = options;
  }

  /** Takes a transfer from another shard. */
  begin(from: number, number: number, payload: Span, nowMs: number): void {
    const bytes = payload.bytes.subarray(payload.start, payload.end);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const flags = TransferView.flags(view);
    let at = TRANSFER_HEADER_BYTES + TransferView.tubeBytes(view);
    assert(at <= bytes.length, "the name of a tube lies in its transfer");
    const manifest = {
      tube: latin1(bytes, TRANSFER_HEADER_BYTES, at),
      travel: TransferView.travel(view) as Travel,
      asReady: (flags & TransferFlag.AsReady) !== 0,
      delayMs: (flags & TransferFlag.Delay) === 0 ? undefined : TransferView.delayMs(view),
    };
    if ((flags & TransferFlag.InPieces) !== 0) {
      assert(TransferView.jobs(view) === 1, "a job in pieces arrives alone");
      const head = Memory.ofSize(TransferJobView.recordBytes(view, at));
      const file = TransferJobView.file(view, at);
      const incoming = { manifest, file, head, headBytes: 0, body: EMPTY_BODY, bodyBytes: 0 };
      assert(!this.#incoming.has(keyOf(from, number)), "a job in pieces begins once");
      this.#incoming.set(keyOf(from, number), incoming);
      return;
    }
    const jobs = TransferView.jobs(view);
    assert(jobs > 0, "a transfer that arrives has a job");
    let taken = 0;
    let outcome: Outcome = Outcome.Done;
    const recordsBefore = this.#lastRecord;
    for (; taken < jobs; taken++) {
      const length = TransferJobView.recordBytes(view, at);
      outcome = this.#takeWhole(
        manifest,
        TransferJobView.file(view, at),
        bytes,
        at + TRANSFER_JOB_HEADER_BYTES,
        nowMs,
      );
      if (outcome !== Outcome.Done) break;
      at += TRANSFER_JOB_HEADER_BYTES + length;
      assert(at <= bytes.length, "the jobs of a transfer lie within it");
    }
    this.#landed(from, number, taken, outcome, recordsBefore);
  }

  #takeWhole(manifest: Manifest, file: number, bytes: Uint8Array, at: number, nowMs: number): Outcome {
    const { engine } = this.#options;
    const record = new Memory(bytes);
    const bodyBytes = bodyBytesOf(record.view, at);
    assert(at + recordHeadBytes(record.view, at) + bodyBytes <= bytes.length, "a job lies in its transfer");
    let body: number = EMPTY_BODY;
    try {
      body = engine.bodies.allocate(bodyBytes);
      engine.bodies.write(body, 0, bytes, at + recordHeadBytes(record.view, at), bodyBytes);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      engine.bodies.free(body);
      return Outcome.NoRoom;
    }
    return this.#enter(manifest, file, record, at, body, nowMs);
  }

  /** Stores the job whose record is at `at` and whose body is in the arena. */
  #enter(manifest: Manifest, file: number, record: Memory, at: number, body: number, nowMs: number): Outcome {
    const { engine, onArrived } = this.#options;
    const { bytes, view } = record;
    decodeFields(view, at, this.#fields);
    assert(this.#fields.id > 0, "a job that arrives has an id");
    const job = this.#jobOf(manifest.tube, bodyBytesOf(view, at), file);
    const attributesEnd = at + recordHeadBytes(view, at);
    assert(attributesEnd >= at + RECORD_FIXED_BYTES, "attributes follow the fixed part of a record");
    const attributes =
      attributesEnd === at + RECORD_FIXED_BYTES
        ? undefined
        : this.#attributes.read(bytes, at + RECORD_FIXED_BYTES, attributesEnd, 0);
    const outcome = engine.transfers.arrive(job, body, attributes, manifest, nowMs);
    if (outcome === Outcome.Done) onArrived(job.id);
    else engine.bodies.free(body);
    return outcome;
  }

  #jobOf(tube: string, bodyBytes: number, file: number): RestoredJob {
    const { state, createdAtMs, ...fields } = this.#fields;
    assert(
      state !== RecordState.remembered && state !== RecordState.schedule,
      "only an actual job is transferred",
    );
    const known = state === RecordState.delayed ? JobState.Delayed : JobState.Ready;
    return {
      ...fields,
      state: state === RecordState.buried ? JobState.Buried : known,
      atMs: createdAtMs,
      tube,
      bodyBytes,
      file,
    };
  }

  // --- jobs in pieces ----------------------------------------------------------------------------

  /** Takes the next bytes of a job that arrives in pieces. Those of a refused job are dropped. */
  piece(from: number, number: number, payload: Span, nowMs: number): void {
    const incoming = this.#incoming.get(keyOf(from, number));
    assert(payload.length > 0, "a piece of a job has bytes");
    if (incoming === undefined) return;
    const hasMemory = this.#takePiece(incoming, payload);
    const { head, headBytes, body, bodyBytes, manifest, file } = incoming;
    if (hasMemory && (headBytes < head.bytes.length || bodyBytes < bodyBytesOf(head.view, 0))) {
      this.#beginMessage(TransferMessage.Credit, from, number, 0, false);
      return;
    }
    this.#incoming.delete(keyOf(from, number));
    const recordsBefore = this.#lastRecord;
    let outcome: Outcome = Outcome.NoRoom;
    if (hasMemory) outcome = this.#enter(manifest, file, head, 0, body, nowMs);
    else this.#options.engine.bodies.free(body);
    this.#landed(from, number, outcome === Outcome.Done ? 1 : 0, outcome, recordsBefore);
  }

  /** Takes a piece. Returns false if there is no memory for it. */
  #takePiece(incoming: Incoming, { bytes, start, end }: Span): boolean {
    const { bodies } = this.#options.engine;
    const { head } = incoming;
    const headPart = Math.min(end - start, head.bytes.length - incoming.headBytes);
    copyBytes(head.bytes, incoming.headBytes, bytes, start, headPart);
    incoming.headBytes += headPart;
    assert(incoming.headBytes <= head.bytes.length, "a job's head has no more bytes than it said");
    if (incoming.headBytes < head.bytes.length) return true;
    try {
      if (headPart > 0) incoming.body = bodies.allocate(bodyBytesOf(head.view, 0));
      bodies.write(incoming.body, incoming.bodyBytes, bytes, start + headPart, end - start - headPart);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return false;
    }
    incoming.bodyBytes += end - start - headPart;
    assert(incoming.bodyBytes <= bodyBytesOf(head.view, 0), "a job's body has no more bytes than it said");
    return true;
  }

  // --- outcomes ----------------------------------------------------------------------------------

  get #lastRecord(): number {
    return this.#options.records?.lastNumber ?? 0;
  }

  #landed(from: number, number: number, taken: number, refusal: Outcome, recordsBefore: number): void {
    const { port } = this.#options;
    this.#beginMessage(
      TransferMessage.Landed,
      from,
      number,
      LANDED_BYTES,
      this.#lastRecord !== recordsBefore,
    );
    const view = new DataView(port.target.buffer, port.target.byteOffset);
    LandedView.write(view, port.at, taken, refusal);
  }

  #beginMessage(kind: TransferMessage, to: number, number: number, bytes: number, durable: boolean): void {
    this.#options.port.beginCarry(kind, to, number, bytes, durable, this.#lastRecord);
  }
}

const keyOf = (from: number, number: number): string => `${from}.${number}`;
