// The records that a shard hands to the binlog: what has to survive, as bytes, in a fixed little-endian
// layout.
//
//   PUT and UPDATE                              DELETE                    PIECE (rest of a big body)
//   0  u8   kind                                0  u8   kind              0  u8   kind
//   1  u8   state                               1  7 zero                 1  3 zero
//   2  u8   tube name bytes (PUT)               8  f64  id                4  u32  offset in the body
//   3  u8   zero                                16                        8  f64  id
//   4  u32  pri                                                           16 bytes of the body
//   8  f64  id
//   16 u32  delaySeconds
//   20 u32  ttrSeconds
//   24 f64  createdAtMs    (wall clock)
//   32 f64  deadlineAtMs   (wall clock; delayed jobs: when due; otherwise 0)
//   40 u32  reserves
//   44 u32  timeouts
//   48 u32  releases
//   52 u32  buries
//   56 u32  kicks
//   60 u32  bodyBytes      (the whole body, also when this record holds only its beginning)
//   64 f64  burySequence   (buried jobs: their place in the order of burials; otherwise 0)
//   72 tube name, then the body or its beginning (PUT only)
//
// All records of a kind agree on where the id is, so that the binlog can keep its books without decoding.
// UPDATE carries every mutable field, so that only the latest one of a job matters. A job's latest state is
// the one with the highest place in the log; a DELETE is final, because an id is never given twice.

import { copyBytes } from "../base/bytes.ts";
import type { Memory } from "../base/memory.ts";

export const RecordKind = { put: 1, update: 2, delete: 3, piece: 4 } as const;
export type RecordKind = (typeof RecordKind)[keyof typeof RecordKind];

/**
 * What a restart can bring back. A reserved job is logged as ready: its reservation ends with the process.
 */
export const RecordState = { ready: 1, delayed: 2, buried: 3 } as const;
export type RecordState = (typeof RecordState)[keyof typeof RecordState];

export const RECORD_ID_AT = 8;
export const RECORD_BODY_BYTES_AT = 60;
export const RECORD_FIXED_BYTES = 72;
export const UPDATE_BYTES = RECORD_FIXED_BYTES;
export const DELETE_BYTES = 16;
export const PIECE_HEADER_BYTES = 16;

/**
 * No record is longer than this. A body that does not fit beside its tube name into one PUT goes on in PIECE
 * records of the same shard, in order; the job counts as put when the last piece is durable.
 */
export const MAX_RECORD_BYTES = 128 * 1024;
export const MAX_PIECE_BYTES = MAX_RECORD_BYTES - PIECE_HEADER_BYTES;

/** Everything of a job but its tube and body. Encoders read one of these, decoders fill one: reuse it. */
export interface RecordFields {
  id: number;
  state: RecordState;
  pri: number;
  delaySeconds: number;
  ttrSeconds: number;
  createdAtMs: number;
  deadlineAtMs: number;
  reserves: number;
  timeouts: number;
  releases: number;
  buries: number;
  kicks: number;
  burySequence: number;
}

/** A mutable struct to decode into. */
export function emptyRecordFields(): RecordFields {
  return {
    id: 0,
    state: RecordState.ready,
    pri: 0,
    delaySeconds: 0,
    ttrSeconds: 0,
    createdAtMs: 0,
    deadlineAtMs: 0,
    reserves: 0,
    timeouts: 0,
    releases: 0,
    buries: 0,
    kicks: 0,
    burySequence: 0,
  };
}

/** The size of a PUT record that holds `inlineBytes` of the body. */
export function putRecordBytes(tubeBytes: number, inlineBytes: number): number {
  return RECORD_FIXED_BYTES + tubeBytes + inlineBytes;
}

function writeFixed(
  view: DataView,
  at: number,
  kind: number,
  tubeBytes: number,
  bodyBytes: number,
  f: RecordFields,
) {
  view.setUint32(at, kind | (f.state << 8) | (tubeBytes << 16), true);
  view.setUint32(at + 4, f.pri, true);
  view.setFloat64(at + 8, f.id, true);
  view.setUint32(at + 16, f.delaySeconds, true);
  view.setUint32(at + 20, f.ttrSeconds, true);
  view.setFloat64(at + 24, f.createdAtMs, true);
  view.setFloat64(at + 32, f.deadlineAtMs, true);
  view.setUint32(at + 40, f.reserves, true);
  view.setUint32(at + 44, f.timeouts, true);
  view.setUint32(at + 48, f.releases, true);
  view.setUint32(at + 52, f.buries, true);
  view.setUint32(at + 56, f.kicks, true);
  view.setUint32(at + 60, bodyBytes, true);
  view.setFloat64(at + 64, f.burySequence, true);
}

/**
 * Writes what a PUT at `at` has before its body, which is `bodyBytes` long as a whole. Returns where the
 * body, or as much of it as goes into this record, is to be written.
 */
export function encodePutHead(
  memory: Memory,
  at: number,
  fields: RecordFields,
  tube: Uint8Array,
  bodyBytes: number,
): number {
  writeFixed(memory.view, at, RecordKind.put, tube.length, bodyBytes, fields);
  copyBytes(memory.bytes, at + RECORD_FIXED_BYTES, tube, 0, tube.length);
  return at + RECORD_FIXED_BYTES + tube.length;
}

/** Writes an UPDATE at `at` and returns its length. */
export function encodeUpdate(view: DataView, at: number, fields: RecordFields): number {
  writeFixed(view, at, RecordKind.update, 0, 0, fields);
  return UPDATE_BYTES;
}

/** Writes a DELETE at `at` and returns its length. */
export function encodeDelete(view: DataView, at: number, id: number): number {
  view.setUint32(at, RecordKind.delete, true);
  view.setUint32(at + 4, 0, true);
  view.setFloat64(at + 8, id, true);
  return DELETE_BYTES;
}

/**
 * Writes what a PIECE at `at` has before its part of the body, which begins at `bodyOffset` there. Returns
 * where that part goes.
 */
export function encodePieceHead(view: DataView, at: number, id: number, bodyOffset: number): number {
  view.setUint32(at, RecordKind.piece, true);
  view.setUint32(at + 4, bodyOffset, true);
  view.setFloat64(at + 8, id, true);
  return at + PIECE_HEADER_BYTES;
}

/** Fills `fields` from a PUT or UPDATE at `at`. Where tube and body lie: see the next three functions. */
export function decodeFields(view: DataView, at: number, fields: RecordFields): void {
  fields.state = view.getUint8(at + 1) as RecordState;
  fields.pri = view.getUint32(at + 4, true);
  fields.id = view.getFloat64(at + 8, true);
  fields.delaySeconds = view.getUint32(at + 16, true);
  fields.ttrSeconds = view.getUint32(at + 20, true);
  fields.createdAtMs = view.getFloat64(at + 24, true);
  fields.deadlineAtMs = view.getFloat64(at + 32, true);
  fields.reserves = view.getUint32(at + 40, true);
  fields.timeouts = view.getUint32(at + 44, true);
  fields.releases = view.getUint32(at + 48, true);
  fields.buries = view.getUint32(at + 52, true);
  fields.kicks = view.getUint32(at + 56, true);
  fields.burySequence = view.getFloat64(at + 64, true);
}

/** The length of the tube name of a PUT, which lies at `at + RECORD_FIXED_BYTES`; the body follows it. */
export function tubeBytesOf(view: DataView, at: number): number {
  return view.getUint8(at + 2);
}

/** The length of the whole body of a PUT. */
export function bodyBytesOf(view: DataView, at: number): number {
  return view.getUint32(at + RECORD_BODY_BYTES_AT, true);
}

/**
 * Brings the PUT at `at` of `put` to the state that the UPDATE at `from` of `update` says; tube and body
 * stay.
 */
export function applyUpdate(put: DataView, at: number, update: DataView, from: number): void {
  put.setUint8(at + 1, update.getUint8(from + 1));
  put.setUint32(at + 4, update.getUint32(from + 4, true), true);
  put.setUint32(at + 16, update.getUint32(from + 16, true), true);
  put.setUint32(at + 20, update.getUint32(from + 20, true), true);
  put.setFloat64(at + 32, update.getFloat64(from + 32, true), true);
  for (let k = 40; k < 60; k += 4) put.setUint32(at + k, update.getUint32(from + k, true), true);
  put.setFloat64(at + 64, update.getFloat64(from + 64, true), true);
}
