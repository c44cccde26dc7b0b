// The records that a shard passes to the binlog: everything that has to survive, in a fixed
// little-endian layout.
//
//   PUT and UPDATE                              DELETE                    PIECE (rest of a body)
//   0  u8   kind                                0  u8   kind              0  u8   kind
//   1  u8   state, and 128 for long attributes  1  7 zero                 1  3 zero
//   2  u8   tube name bytes                     8  f64  id                4  u32  offset in body
//   3  u8   attribute bytes / 4, or long: / 32  16                        8  f64  id
//   4  u32  pri                                                           16 bytes of the body
//   8  f64  id
//   16 u32  delaySeconds
//   20 u32  ttrSeconds
//   24 f64  createdAtMs    (wall clock)
//   32 f64  deadlineAtMs   (wall clock; delayed jobs: when due; otherwise 0)
//   40 u32  each fixed counter (schema/job.ts)
//   60 u32  bodyBytes      (of the whole body, even if this record holds only its beginning)
//   64 f64  burySequence   (buried jobs: position in the order of burials; otherwise 0)
//   72 tube name, then attributes (protocol/job-attribute.ts), then the body or its beginning (PUT
//      only)
//
//   SETTING
//   0  u8   kind
//   1  u8   pattern bytes
//   2  u16  text bytes
//   4  12 zero
//   16 pattern, then the settings, as `name=value name=value`; empty: removes the settings
//
// The id is at the same offset in all records that have one, so the binlog can track jobs without
// decoding. UPDATE carries every mutable field, so only a job's latest UPDATE matters. If it has a
// tube name, the job now lives in that tube. A job's latest state is the one with the highest
// position in the log. DELETE is final, because no id is assigned twice. A PUT in state 4
// (remembered) stands for a job that is gone, but whose unique key may not be put again yet. A PUT
// in state 5 is a schedule (schedule-record.ts), whose id no job has. The latest SETTING of a
// pattern applies.

import { assert } from "../base/assert.ts";
import { copyBytes, type Memory } from "../base/bytes.ts";
import {
  ALL_ATTRIBUTE_BYTES_MAX,
  ATTRIBUTE_BYTES_MAX,
  ATTRIBUTE_UNIT,
  FIRST_MUTABLE_ATTRIBUTE,
  LONG_ATTRIBUTE_UNIT,
} from "../protocol/job-attribute.ts";
import { messageBytesMax, type RingWriter } from "../ring/ring.ts";
import { FIXED_COUNTERS, fixedCounters } from "../schema/job.ts";

// Messages from a shard to the binlog: one record each, in a ring.
//
//   offset  0  int32    length of the message (set by the ring)
//   offset  4  uint32   bytes of the record
//   offset  8  float64  number of the record, counted by its shard from 1 on
//   offset 16  record   see record.ts

export const APPEND_HEADER_BYTES = 16;

/** Fills in the header of the message claimed at `offset`. Returns the position of its record. */
export function writeAppendHeader(
  ring: RingWriter,
  offset: number,
  recordBytes: number,
  number: number,
): number {
  ring.uint32[(offset >> 2) + 1] = recordBytes;
  ring.float64[(offset >> 3) + 1] = number;
  return offset + APPEND_HEADER_BYTES;
}

export const RecordKind = {
  put: 1,
  update: 2,
  delete: 3,
  piece: 4,
  setting: 5,
  /** See flow-record.ts. */
  tally: 6,
  batch: 7,
} as const;
export type RecordKind = (typeof RecordKind)[keyof typeof RecordKind];

/** What has a full record: negative, where other parts of jobs have their offset in the body. */
export const FullRecordOf = { job: -1, schedule: -2, key: -3 } as const;

/**
 * The states that a restart can restore. A reserved job is logged as ready: its reservation ends
 * with the process.
 */
export const RecordState = { ready: 1, delayed: 2, buried: 3, remembered: 4, schedule: 5 } as const;
export type RecordState = (typeof RecordState)[keyof typeof RecordState];

export const RECORD_ID_AT = 8;
/** The fixed counters of a job. */
const RECORD_COUNTERS_AT = 40;
export const RECORD_BODY_BYTES_AT = 60;
export const RECORD_FIXED_BYTES = 72;
/** An UPDATE without tube name and attributes. */
export const UPDATE_BYTES = RECORD_FIXED_BYTES;
export const DELETE_BYTES = 16;
export const PIECE_HEADER_BYTES = 16;
export const SETTING_HEADER_BYTES = 16;
/** Tube name and attributes of a record. */
export const RECORD_TAIL_BYTES_MAX: number = 255 + ALL_ATTRIBUTE_BYTES_MAX;
export const UPDATE_BYTES_MAX: number = UPDATE_BYTES + RECORD_TAIL_BYTES_MAX;

/**
 * The longest record of a shard. (The log's own copy of a PUT may be longer, if an UPDATE has added
 * to its tube name and attributes.) If a PUT has no room for the whole body, the rest follows in
 * PIECE records of the same shard, in order. The job counts as put when the last piece is durable.
 */
export const MAX_RECORD_BYTES = 128 * 1024;
export const MAX_PIECE_BYTES = MAX_RECORD_BYTES - PIECE_HEADER_BYTES;

/**
 * All fields of a job but its tube and body. Encoders read such an object and decoders fill one:
 * reuse it.
 */
export interface RecordFields {
  id: number;
  state: RecordState;
  pri: number;
  delaySeconds: number;
  ttrSeconds: number;
  createdAtMs: number;
  deadlineAtMs: number;
  /** The fixed counters (schema/job.ts). */
  readonly counters: Uint32Array;
  burySequence: number;
}

/** Returns an object to decode into. */
export function emptyRecordFields(): RecordFields {
  return {
    id: 0,
    state: RecordState.ready,
    pri: 0,
    delaySeconds: 0,
    ttrSeconds: 0,
    createdAtMs: 0,
    deadlineAtMs: 0,
    counters: fixedCounters(),
    burySequence: 0,
  };
}

export const copyOfFields = (fields: RecordFields): RecordFields => ({
  ...fields,
  counters: fields.counters.slice(),
});

const NO_BYTES = new Uint8Array(0);

/**
 * Returns the size of a PUT record that holds `inlineBytes` of the body. Attributes have a multiple
 * of four bytes.
 */
export function putRecordBytes(tubeBytes: number, inlineBytes: number, attributeBytes = 0): number {
  return RECORD_FIXED_BYTES + tubeBytes + attributeBytes + inlineBytes;
}

/** Flag of the state: the size of the attributes is in units of LONG_ATTRIBUTE_UNIT. */
const LONG_ATTRIBUTES = 0x80;

/** Returns the state in a record's second byte; a newer server may write one that isn't known. */
export const stateIn = (byte: number): number => byte & ~LONG_ATTRIBUTES;

/**
 * Writes a PUT at `at` up to its body, whose total length is `bodyBytes`. Returns where to write
 * the body, or as much of it as fits into the record. `attributes` are padded.
 */
export function encodePutHead(
  { bytes, view }: Memory,
  at: number,
  fields: RecordFields,
  tube: Uint8Array,
  bodyBytes: number,
  attributes: Uint8Array = NO_BYTES,
): number {
  const sizes = attributes.length === 0 ? 0 : attributeWord(attributes.length);
  view.setUint32(at, RecordKind.put | (fields.state << 8) | (tube.length << 16) | sizes, true);
  view.setUint32(at + 4, fields.pri, true);
  view.setFloat64(at + 8, fields.id, true);
  view.setUint32(at + 16, fields.delaySeconds, true);
  view.setUint32(at + 20, fields.ttrSeconds, true);
  view.setFloat64(at + 24, fields.createdAtMs, true);
  view.setFloat64(at + 32, fields.deadlineAtMs, true);
  for (let k = 0; k < FIXED_COUNTERS; k++)
    view.setUint32(at + RECORD_COUNTERS_AT + 4 * k, fields.counters[k]!, true);
  view.setUint32(at + 60, bodyBytes, true);
  view.setFloat64(at + 64, fields.burySequence, true);
  const attributesAt = at + RECORD_FIXED_BYTES + tube.length;
  copyBytes(bytes, at + RECORD_FIXED_BYTES, tube, 0, tube.length);
  copyBytes(bytes, attributesAt, attributes, 0, attributes.length);
  return attributesAt + attributes.length;
}

/**
 * Writes an UPDATE, which is a PUT of another kind without a body. `tube` is empty unless the job
 * has moved, and `attributes` are the mutable ones, padded. Returns its length.
 */
export function encodeUpdate(
  memory: Memory,
  at: number,
  fields: RecordFields,
  tube: Uint8Array = NO_BYTES,
  attributes: Uint8Array = NO_BYTES,
): number {
  const end = encodePutHead(memory, at, fields, tube, 0, attributes);
  memory.view.setUint8(at, RecordKind.update);
  return end - at;
}

/** Returns the size of attributes and its flag, in their positions in the first word. */
function attributeWord(bytes: number): number {
  assert(bytes <= ALL_ATTRIBUTE_BYTES_MAX, "attributes fit into a record");
  if (bytes <= ATTRIBUTE_BYTES_MAX) return (bytes / ATTRIBUTE_UNIT) << 24;
  return ((bytes / LONG_ATTRIBUTE_UNIT) << 24) | (LONG_ATTRIBUTES << 8);
}

/** Writes a SETTING at `at`. An empty text removes the pattern's settings. Returns the length. */
export function encodeSetting(
  { bytes, view }: Memory,
  at: number,
  pattern: Uint8Array,
  text: Uint8Array,
): number {
  view.setUint32(at, RecordKind.setting | (pattern.length << 8) | (text.length << 16), true);
  view.setUint32(at + 4, 0, true);
  view.setFloat64(at + 8, 0, true);
  copyBytes(bytes, at + SETTING_HEADER_BYTES, pattern, 0, pattern.length);
  copyBytes(bytes, at + SETTING_HEADER_BYTES + pattern.length, text, 0, text.length);
  return SETTING_HEADER_BYTES + pattern.length + text.length;
}

/** Returns the length of a SETTING's pattern, which starts at `at + SETTING_HEADER_BYTES`. */
export function patternBytesOf(view: DataView, at: number): number {
  return view.getUint8(at + 1);
}

/** Writes a DELETE at `at`. Returns its length. */
export function encodeDelete(view: DataView, at: number, id: number): number {
  view.setUint32(at, RecordKind.delete, true);
  view.setUint32(at + 4, 0, true);
  view.setFloat64(at + 8, id, true);
  return DELETE_BYTES;
}

/**
 * Writes the head of a PIECE at `at`. Its part of the body begins at `bodyOffset` of the body.
 * Returns where to write that part.
 */
export function encodePieceHead(view: DataView, at: number, id: number, bodyOffset: number): number {
  view.setUint32(at, RecordKind.piece, true);
  view.setUint32(at + 4, bodyOffset, true);
  view.setFloat64(at + 8, id, true);
  return at + PIECE_HEADER_BYTES;
}

/** Fills `fields` from a PUT or UPDATE at `at`. The next functions locate tube and body. */
export function decodeFields(view: DataView, at: number, fields: RecordFields): void {
  fields.state = (view.getUint8(at + 1) & ~LONG_ATTRIBUTES) as RecordState;
  fields.pri = view.getUint32(at + 4, true);
  fields.id = view.getFloat64(at + 8, true);
  fields.delaySeconds = view.getUint32(at + 16, true);
  fields.ttrSeconds = view.getUint32(at + 20, true);
  fields.createdAtMs = view.getFloat64(at + 24, true);
  fields.deadlineAtMs = view.getFloat64(at + 32, true);
  for (let k = 0; k < FIXED_COUNTERS; k++)
    fields.counters[k] = view.getUint32(at + RECORD_COUNTERS_AT + 4 * k, true);
  fields.burySequence = view.getFloat64(at + 64, true);
}

/**
 * Returns the length of the tube name of a PUT or UPDATE, which starts at `at +
 * RECORD_FIXED_BYTES`. Attributes follow.
 */
export function tubeBytesOf(view: DataView, at: number): number {
  return view.getUint8(at + 2);
}

/** Returns the length of the attributes of a PUT or UPDATE, which follow the tube name. */
export function attributeBytesOf(view: DataView, at: number): number {
  return attributeBytes(view.getUint8(at + 1), view.getUint8(at + 3));
}

/** Returns the length of attributes, given the bytes of the state and of the size. */
export function attributeBytes(state: number, size: number): number {
  return size * ((state & LONG_ATTRIBUTES) === 0 ? ATTRIBUTE_UNIT : LONG_ATTRIBUTE_UNIT);
}

/** Returns the length of a PUT before its body, or of a whole UPDATE. */
export function recordHeadBytes(view: DataView, at: number): number {
  const attributes = attributeBytes(view.getUint8(at + 1), view.getUint8(at + 3));
  return RECORD_FIXED_BYTES + view.getUint8(at + 2) + attributes;
}

/** Returns when the job of a PUT was put. */
export function createdAtMsOf(view: DataView, at: number): number {
  return view.getFloat64(at + 24, true);
}

/** Returns the length of the whole body of a PUT. */
export function bodyBytesOf(view: DataView, at: number): number {
  return view.getUint32(at + RECORD_BODY_BYTES_AT, true);
}

/**
 * Applies the UPDATE at `from` of `update` to the fixed part of the PUT at `at` of `put`. Tube,
 * attributes and body stay.
 */
export function applyUpdate(put: DataView, at: number, update: DataView, from: number): void {
  put.setUint8(at + 1, update.getUint8(from + 1));
  put.setUint32(at + 4, update.getUint32(from + 4, true), true);
  put.setUint32(at + 16, update.getUint32(from + 16, true), true);
  put.setUint32(at + 20, update.getUint32(from + 20, true), true);
  put.setFloat64(at + 32, update.getFloat64(from + 32, true), true);
  for (let k = RECORD_COUNTERS_AT; k < RECORD_BODY_BYTES_AT; k += 4)
    put.setUint32(at + k, update.getUint32(from + k, true), true);
  put.setFloat64(at + 64, update.getFloat64(from + 64, true), true);
}

/**
 * Returns whether `applyUpdate` is not sufficient: the UPDATE has a tube name or attributes, or the
 * PUT has attributes, which the UPDATE may have removed.
 */
export function updateHasTail(put: DataView, at: number, update: DataView, from: number): boolean {
  return (update.getUint16(from + 2, true) | put.getUint8(at + 3)) !== 0;
}

/**
 * Merges a PUT and an UPDATE into the head of a new PUT at the beginning of `into`, tube name and
 * attributes included. Returns its length, at most RECORD_FIXED_BYTES + RECORD_TAIL_BYTES_MAX. The
 * body belongs after it.
 */
export function mergeHead(into: Memory, put: Memory, at: number, update: Memory, from: number): number {
  copyBytes(into.bytes, 0, put.bytes, at, RECORD_FIXED_BYTES);
  applyUpdate(into.view, 0, update.view, from);
  const moved = tubeBytesOf(update.view, from) > 0;
  const tubeBytes = moved ? tubeBytesOf(update.view, from) : tubeBytesOf(put.view, at);
  const [tubeFrom, tubeAt] = moved ? [update.bytes, from] : [put.bytes, at];
  copyBytes(into.bytes, RECORD_FIXED_BYTES, tubeFrom, tubeAt + RECORD_FIXED_BYTES, tubeBytes);
  const start = RECORD_FIXED_BYTES + tubeBytes;
  let end = copyAttributes(into.bytes, start, put, at, (tag) => tag < FIRST_MUTABLE_ATTRIBUTE);
  end = copyAttributes(into.bytes, end, update, from, (tag) => tag >= FIRST_MUTABLE_ATTRIBUTE);
  const unit = end - start > ATTRIBUTE_BYTES_MAX ? LONG_ATTRIBUTE_UNIT : ATTRIBUTE_UNIT;
  while ((end - start) % unit !== 0) into.bytes[end++] = 0;
  const state = into.bytes[1]! & ~LONG_ATTRIBUTES;
  const kindAndState = into.bytes[0]! | (state << 8);
  into.view.setUint32(0, kindAndState | (tubeBytes << 16) | attributeWord(end - start), true);
  return end;
}

/** Copies selected attributes of a record, without padding. Returns the end of the copy. */
function copyAttributes(
  into: Uint8Array,
  to: number,
  { bytes, view }: Memory,
  record: number,
  wanted: (tag: number) => boolean,
): number {
  let at = record + RECORD_FIXED_BYTES + tubeBytesOf(view, record);
  const end = record + recordHeadBytes(view, record);
  let written = to;
  while (at + 2 <= end && bytes[at] !== 0) {
    const length = 2 + bytes[at + 1]!;
    if (at + length > end) break;
    if (wanted(bytes[at]!)) {
      copyBytes(into, written, bytes, at, length);
      written += length;
    }
    at += length;
  }
  return written;
}

// The size of a shard's ring to the log.

const RECORD_RING_BYTES_MIN = 32 * 1024;
const RECORD_RING_BYTES_MAX = 1024 * 1024;

/**
 * Returns the smallest segment size. Smaller segments would reserve less than the smallest rings of
 * this many shards can hold.
 */
export function segmentBytesMin(shards: number): number {
  return 4 * RECORD_RING_BYTES_MIN * shards;
}

/**
 * Returns the size of each shard's ring to the log. Together the rings hold at most a quarter of a
 * segment, which is what may still arrive after the log has reported that it is full. The log makes
 * its segments large enough for that (segmentBytesMin).
 */
export function recordRingBytes(shards: number, segmentBytes: number): number {
  let bytes = RECORD_RING_BYTES_MAX;
  while (bytes > RECORD_RING_BYTES_MIN && bytes * shards > segmentBytes / 4) bytes /= 2;
  assert(
    messageBytesMax(bytes) >= APPEND_HEADER_BYTES + UPDATE_BYTES_MAX,
    "the longest record without a body fits into a message",
  );
  return bytes;
}
