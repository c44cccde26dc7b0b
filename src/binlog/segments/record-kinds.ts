// Kinds of a shard's records: everything in the log that depends on the kind. Their layouts are in
// message/record.ts, the storage's own kinds in segment-format.ts.

import { assert, CHECKED } from "../../base/assert.ts";
import { latin1, type Memory } from "../../base/bytes.ts";
import { BATCH_FIXED_BYTES, decodeTally, TALLY_BYTES } from "../../message/flow-record.ts";
import { LOG_BATCH_HEADER_BYTES } from "../../message/log-batch.ts";
import {
  attributeBytes,
  attributeBytesOf,
  PIECE_HEADER_BYTES,
  patternBytesOf,
  RECORD_BODY_BYTES_AT,
  RECORD_FIXED_BYTES,
  RECORD_ID_AT,
  RecordKind,
  RecordState,
  recordHeadBytes,
  SETTING_HEADER_BYTES,
  stateIn,
  tubeBytesOf,
} from "../../message/record.ts";
import { FRAME_BYTES, MAX_STORED_BYTES, OWN_RECORD_BYTES, OwnKind } from "./segment-format.ts";

/** Returns whether the record is the full record of a job, which creates the job. */
export const isFull = (kind: number): boolean => kind === RecordKind.put;
/** Returns whether a full record is that of a job, not of a schedule or a remembered key. */
export const isJob = ({ bytes }: Memory, at: number): boolean =>
  stateIn(bytes[at + 1]!) < RecordState.remembered;
/** Returns whether the record changes a job that has a full record. */
export const isUpdate = (kind: number): boolean => kind === RecordKind.update;
/** Returns whether the record belongs to a pattern of tubes instead of a job. */
export const isSetting = (kind: number): boolean => kind === RecordKind.setting;
/** Returns whether the record says how many members of a batch have ended; it deletes one. */
export const isTally = (kind: number): boolean => kind === RecordKind.tally;
export const isBatch = (kind: number): boolean => kind === RecordKind.batch;

/**
 * Returns whether this version writes records of this kind and length; the log must not contain
 * others.
 */
export function recordIsKnown(bytes: Uint8Array, at: number, recordBytes: number): boolean {
  if (recordBytes > MAX_STORED_BYTES) return false;
  switch (bytes[at]) {
    case RecordKind.put:
      return recordBytes >= headBytes(bytes, at);
    case RecordKind.update:
      return recordBytes === headBytes(bytes, at);
    case RecordKind.setting:
      return recordBytes === settingBytes(bytes, at);
    case RecordKind.tally:
      return recordBytes === TALLY_BYTES;
    case RecordKind.batch:
      return recordBytes === BATCH_FIXED_BYTES + bytes[at + 1]!;
    case RecordKind.delete:
    case OwnKind.end:
    case OwnKind.mark:
    case OwnKind.drop:
      return recordBytes === OWN_RECORD_BYTES;
    case RecordKind.piece:
      return recordBytes > PIECE_HEADER_BYTES;
    case OwnKind.link:
      return recordBytes === LOG_BATCH_HEADER_BYTES;
    case OwnKind.note:
      return true;
    default:
      return false;
  }
}

/**
 * The same for a record of another server, which may also have newer states. An older server would
 * mistake an unknown state for that of a job.
 */
export function foreignRecordIsKnown(bytes: Uint8Array, at: number, recordBytes: number): boolean {
  if (!recordIsKnown(bytes, at, recordBytes)) return false;
  const kind = bytes[at]!;
  return !(isFull(kind) || isUpdate(kind)) || STATES.has(stateIn(bytes[at + 1]!));
}

const STATES: ReadonlySet<number> = new Set(Object.values(RecordState));

// Same as `recordHeadBytes` of message/record.ts, for bytes without a view.

function headBytes(bytes: Uint8Array, at: number): number {
  return RECORD_FIXED_BYTES + bytes[at + 2]! + attributeBytes(bytes[at + 1]!, bytes[at + 3]!);
}

function settingBytes(bytes: Uint8Array, at: number): number {
  return SETTING_HEADER_BYTES + bytes[at + 1]! + bytes[at + 2]! + 256 * bytes[at + 3]!;
}

/** Returns whether the record has features that version 1 of the format could not express. */
export function isBeyondVersion1(view: DataView, at: number): boolean {
  switch (view.getUint8(at)) {
    case RecordKind.put:
      return attributeBytesOf(view, at) > 0 || view.getUint8(at + 1) === RecordState.remembered;
    case RecordKind.update:
      return attributeBytesOf(view, at) > 0 || tubeBytesOf(view, at) > 0;
    default:
      return false;
  }
}

export function settingOf(
  { bytes, view }: Memory,
  at: number,
  recordBytes: number,
): { pattern: string; text: string } {
  const patternAt = at + SETTING_HEADER_BYTES;
  const textAt = patternAt + patternBytesOf(view, at);
  assert(textAt <= at + recordBytes, "the pattern of a SETTING ends inside its record");
  return { pattern: latin1(bytes, patternAt, textAt), text: latin1(bytes, textAt, at + recordBytes) };
}

/** The `recordExtra` of a PUT without a job: its unique key is remembered. */
const EXTRA_REMEMBERED = 0xffff_ffff;
/** The `recordExtra` of a PUT that is a schedule. */
const EXTRA_SCHEDULE = 0xffff_fffe;

/**
 * Returns the number that the books need from a job's record besides its kind, id and location. For
 * a PUT, the number of body bytes outside the record, EXTRA_REMEMBERED or EXTRA_SCHEDULE; for a
 * PIECE, its offset in the body. The record must be complete.
 */
export function recordExtra({ bytes, view }: Memory, at: number, recordBytes: number): number {
  switch (bytes[at]) {
    case RecordKind.put: {
      if (bytes[at + 1] === RecordState.remembered) return EXTRA_REMEMBERED;
      if (bytes[at + 1] === RecordState.schedule) return EXTRA_SCHEDULE;
      const inlineBytes = recordBytes - recordHeadBytes(view, at);
      if (CHECKED) assert(inlineBytes >= 0, "a PUT holds its head");
      return view.getUint32(at + RECORD_BODY_BYTES_AT, true) - inlineBytes;
    }
    case RecordKind.piece:
      return view.getUint32(at + 4, true);
    default:
      return 0;
  }
}

/** The location of a part of a body. */
export interface PieceLocation {
  bodyOffset: number;
  bodyBytes: number;
  segment: number;
  offset: number;
  framedBytes: number;
}

/** The books of a log: what each kind of record changes, and which records are valid. */
export abstract class RecordBooks {
  abstract setFull(id: number, segment: number, offset: number, framedBytes: number, missing: number): void;
  abstract setRemembered(id: number, segment: number, offset: number, framedBytes: number): void;
  abstract setSchedule(id: number, segment: number, offset: number, framedBytes: number): void;
  abstract setUpdate(id: number, segment: number, offset: number): boolean;
  abstract remove(id: number): boolean;
  abstract setPiece(id: number, piece: PieceLocation): void;
  abstract fullIsAt(id: number, segment: number, offset: number): boolean;
  abstract pieceIsAt(id: number, bodyOffset: number, segment: number, offset: number): boolean;
  abstract settingIsAt(pattern: string, segment: number, offset: number): boolean;
  abstract batchIsAt(number: number, segment: number, offset: number): boolean;
  abstract tallyIsAt(number: number, shard: number, segment: number, offset: number): boolean;

  /**
   * Books a record of a job. A log in use calls this on writes, and recovery on reads, so both have
   * the same books. `extra` is the record's recordExtra.
   */
  book(kind: number, id: number, segment: number, offset: number, framedBytes: number, extra: number): void {
    switch (kind) {
      case RecordKind.put:
        if (extra === EXTRA_REMEMBERED) this.setRemembered(id, segment, offset, framedBytes);
        else if (extra === EXTRA_SCHEDULE) this.setSchedule(id, segment, offset, framedBytes);
        else this.setFull(id, segment, offset, framedBytes, extra);
        break;
      case RecordKind.update:
        this.setUpdate(id, segment, offset);
        break;
      case RecordKind.delete:
      case RecordKind.tally:
        this.remove(id);
        break;
      default: {
        const bodyBytes = framedBytes - FRAME_BYTES - PIECE_HEADER_BYTES;
        assert(kind === RecordKind.piece && bodyBytes > 0, "any other booked record is a PIECE with bytes");
        this.setPiece(id, { bodyOffset: extra, bodyBytes, segment, offset, framedBytes });
      }
    }
  }

  /**
   * Returns whether the record at `at`, whose frame is at `offset` of `segment`, has to be kept.
   * Updates and deletes don't: the copy of a full record includes them.
   */
  isLive(memory: Memory, at: number, segment: number, offset: number): boolean {
    const { bytes, view } = memory;
    const id = view.getFloat64(at + RECORD_ID_AT, true);
    switch (bytes[at]) {
      case RecordKind.put:
        return this.fullIsAt(id, segment, offset);
      case RecordKind.piece:
        return this.pieceIsAt(id, view.getUint32(at + 4, true), segment, offset);
      case RecordKind.setting: {
        const patternAt = at + SETTING_HEADER_BYTES;
        const pattern = latin1(bytes, patternAt, patternAt + patternBytesOf(view, at));
        return this.settingIsAt(pattern, segment, offset);
      }
      case RecordKind.batch:
        return this.batchIsAt(id, segment, offset);
      case RecordKind.tally: {
        const { number, shard } = decodeTally(view, at);
        return this.tallyIsAt(number, shard, segment, offset);
      }
      default:
        return false;
    }
  }
}
