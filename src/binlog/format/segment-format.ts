// The bytes of a segment: its header, the frame around each record, and the storage's own records. See
// ../README.md.

import { crc32 } from "node:zlib";
import type { Memory } from "../../base/memory.ts";
import { BATCH_HEADER_BYTES, BATCH_RECORD_KIND } from "../../message/batch.ts";
import {
  MAX_RECORD_BYTES,
  PIECE_HEADER_BYTES,
  RECORD_BODY_BYTES_AT,
  RECORD_FIXED_BYTES,
  RECORD_TAIL_BYTES_MAX,
  RecordKind,
  RecordState,
  recordHeadBytes,
  SETTING_HEADER_BYTES,
} from "../../message/record.ts";
import { recordChecksum } from "./record-checksum.ts";

/**
 * The version in the header of each segment that is written. Raise it whenever a reader of the present
 * version would misread, or take for damage, what is written then: another layout or meaning of a field of
 * header, frame or record (message/record.ts counts), a new kind of record, a longer one.
 *
 * How to change the format:
 * 1. Leave magic, version and the header's checksum where they are. Only so does an older server say
 *    BINLOG_VERSION and change nothing, instead of finding damage.
 * 2. Write the new version only, and go on reading the old one: versions are those of segments, so a log has
 *    both until compaction has dropped the last old segment. Give `SegmentHeader` its version, and decode by
 *    it wherever records are read: `segment-scan.ts`, `recovered-jobs.ts` (the shards know the newest layout
 *    only), `segment-reader.ts`.
 * 3. No segment mixes versions. A start goes on in segments that were made ahead: those of an old version are
 *    made again (`renewSegment` in `log-recovery.ts`). `endTail` puts END into a segment of any version, so
 *    write that one as its header says.
 * 4. `Compaction` copies records byte for byte: convert those of an old segment before `migrate`.
 * 5. Before that, keep a directory that the old version wrote for the tests, with every kind of record, a
 *    torn tail and a job in pieces; test that it opens, compacts, and is salvaged. An older server must
 *    refuse a new one unchanged.
 * 6. There is no way back but `dump` with the new version and `restore` with the old, so long as DUMP_VERSION
 *    stays: say so in the CHANGELOG. Describe the new layout in ../README.md beside the old, until no release
 *    reads that.
 */
export const FORMAT_VERSION = 2;
/** The oldest version that is read. What it wrote is valid in the present one, but for its headers. */
export const FORMAT_VERSION_MIN = 1;
export const HEADER_BYTES = 64;
export const FRAME_BYTES = 20;
/** Offsets in a segment are kept in 32 bits; a segment has whole pages. */
export const SEGMENT_BYTES_MAX = 2 ** 32 - 4096;
/**
 * The longest record that a frame may hold: compaction copies a PUT with the tube name and the attributes of
 * the latest UPDATE.
 */
export const MAX_STORED_BYTES: number = MAX_RECORD_BYTES + RECORD_TAIL_BYTES_MAX;
export const MAX_FRAMED_BYTES: number = FRAME_BYTES + MAX_STORED_BYTES;

/** Kinds of records that only the storage writes; the shards' kinds are 1 to 5 (message/record.ts). */
export const OwnKind = {
  /** The last record of a segment: nothing follows but zeros. */
  end: 16,
  /** Says, while nothing else happens, how far the log was durable. */
  mark: 17,
  /** All segments below `oldest` are rewritten: they no longer count, whether they are still there or not. */
  drop: 18,
  /** Variable content (msgpack): beginning and end of a takeover. */
  note: 19,
  /** In a group: a batch begins here, with its place in the chain (message/batch.ts). */
  batch: BATCH_RECORD_KIND,
} as const;

/**
 * end, mark and drop: kind, u8 whether the next segment was there already (end), 2 zero bytes, u32 oldest
 * segment that counts, f64 the id up to which ids are lent (the last such record of a log counts).
 */
export const OWN_RECORD_BYTES = 16;
export const END_BYTES = FRAME_BYTES + OWN_RECORD_BYTES;
/**
 * Zeros that always stay behind the last record of a segment that is not sealed: room for END, and once more.
 */
export const SPARE_BYTES = 2 * END_BYTES;

const MAGIC = "RBEANLOG";
const NAME = /^runnerbean\.(\d{16})\.log$/;

export function segmentName(number: number): string {
  return `runnerbean.${String(number).padStart(16, "0")}.log`;
}

/** The number in a segment's name, or 0 if it is not one. */
export function segmentNumber(name: string): number {
  const match = NAME.exec(name);
  return match === null ? 0 : Number(match[1]);
}

export interface SegmentHeader {
  /** Of the format; what is written has the present one. */
  version: number;
  number: number;
  createdAtMs: number;
  maxId: number;
  /** The oldest segment that counted when this one was made. */
  oldest: number;
  /** Seed of the checksums, so that no body can contain a frame that looks real. */
  salt: number;
}

export function encodeHeader(header: Omit<SegmentHeader, "version">): Uint8Array {
  const bytes = new Uint8Array(HEADER_BYTES);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < 8; i++) bytes[i] = MAGIC.charCodeAt(i);
  view.setUint32(8, FORMAT_VERSION, true);
  view.setUint32(12, header.number, true);
  view.setFloat64(16, header.createdAtMs, true);
  view.setFloat64(24, header.maxId, true);
  view.setUint32(32, header.oldest, true);
  view.setUint32(36, header.salt, true);
  view.setUint32(60, crc32(bytes.subarray(0, 60)), true);
  return bytes;
}

export type HeaderProblem = { problem: "short" | "magic" | "checksum" | "version"; version?: number };

export function decodeHeader(bytes: Uint8Array): SegmentHeader | HeaderProblem {
  if (bytes.length < HEADER_BYTES) return { problem: "short" };
  const view = new DataView(bytes.buffer, bytes.byteOffset, HEADER_BYTES);
  for (let i = 0; i < 8; i++) if (bytes[i] !== MAGIC.charCodeAt(i)) return { problem: "magic" };
  const whole = view.getUint32(60, true) === crc32(bytes.subarray(0, 60));
  const version = view.getUint32(8, true);
  // Every version keeps magic, version and this checksum where they are; without it a flipped bit in the
  // version would look like a newer one.
  if (!whole) return { problem: "checksum" };
  if (version < FORMAT_VERSION_MIN || version > FORMAT_VERSION) return { problem: "version", version };
  return {
    version,
    number: view.getUint32(12, true),
    createdAtMs: view.getFloat64(16, true),
    maxId: view.getFloat64(24, true),
    oldest: view.getUint32(32, true),
    salt: view.getUint32(36, true),
  };
}

/**
 * Puts the frame in front of a record that already lies at `at + FRAME_BYTES`: checksum (over all that
 * follows it), length, sequence number, and how far behind the newest sequence known to be durable was.
 */
export function sealFrame(
  { bytes, view }: Memory,
  at: number,
  recordBytes: number,
  salt: number,
  sequence: number,
  synced: number,
): void {
  const high = Math.floor(sequence / 0x1_0000_0000);
  view.setUint32(at + 4, recordBytes, true);
  view.setUint32(at + 8, sequence >>> 0, true);
  view.setUint32(at + 12, high, true);
  view.setUint32(at + 16, Math.min(sequence - synced, 0xffff_ffff), true);
  view.setUint32(at, recordChecksum(bytes, at + 4, at + FRAME_BYTES + recordBytes, salt), true);
}

/** The sequence number in a frame. */
export function frameSequence(view: DataView, at: number): number {
  return view.getUint32(at + 12, true) * 0x1_0000_0000 + view.getUint32(at + 8, true);
}

/** The newest sequence that was durable when this frame was written. */
export function frameSynced(view: DataView, at: number): number {
  return frameSequence(view, at) - view.getUint32(at + 16, true);
}

/** Whether a whole, undamaged frame lies at `at`. */
export function frameIsWhole({ bytes, view }: Memory, at: number, salt: number): boolean {
  const end = bytes.length;
  if (at + FRAME_BYTES > end) return false;
  const recordBytes = view.getUint32(at + 4, true);
  if (recordBytes === 0 || recordBytes > MAX_STORED_BYTES || at + FRAME_BYTES + recordBytes > end)
    return false;
  return view.getUint32(at, true) === recordChecksum(bytes, at + 4, at + FRAME_BYTES + recordBytes, salt);
}

/** What an END, MARK or DROP says. */
export interface OwnRecord {
  kind: number;
  /** The next segment was there already (END). */
  hasNext: boolean;
  /** The oldest segment that counts. */
  oldest: number;
  /** No job id up to this one is given again. */
  maxId: number;
}

/** Writes an END, MARK or DROP at `at`, of OWN_RECORD_BYTES. */
export function encodeOwn({ bytes, view }: Memory, at: number, own: OwnRecord): void {
  bytes[at] = own.kind;
  bytes[at + 1] = own.hasNext ? 1 : 0;
  bytes[at + 2] = 0;
  bytes[at + 3] = 0;
  view.setUint32(at + 4, own.oldest, true);
  view.setFloat64(at + 8, own.maxId, true);
}

/** The `recordExtra` of a PUT that stands for a job that is gone: its unique key is remembered. */
export const EXTRA_REMEMBERED = 0xffff_ffff;

/**
 * What the books note of a job's record besides its kind, id and place. PUT: the body bytes that are not in
 * it, or EXTRA_REMEMBERED. PIECE: its offset in the body. The record must be whole.
 */
export function recordExtra({ bytes, view }: Memory, at: number, recordBytes: number): number {
  const kind = bytes[at]!;
  if (kind === RecordKind.put) {
    if (bytes[at + 1] === RecordState.remembered) return EXTRA_REMEMBERED;
    const inlineBytes = recordBytes - recordHeadBytes(view, at);
    return view.getUint32(at + RECORD_BODY_BYTES_AT, true) - inlineBytes;
  }
  return kind === RecordKind.piece ? view.getUint32(at + 4, true) : 0;
}

/** Whether a record is of a kind and length that this version writes; nothing else may get into the log. */
export function recordIsKnown(bytes: Uint8Array, at: number, recordBytes: number): boolean {
  if (recordBytes > MAX_STORED_BYTES) return false;
  switch (bytes[at]) {
    case RecordKind.put:
      return recordBytes >= headBytes(bytes, at);
    case RecordKind.update:
      return recordBytes === headBytes(bytes, at);
    case RecordKind.setting:
      return recordBytes === settingBytes(bytes, at);
    case RecordKind.delete:
    case OwnKind.end:
    case OwnKind.mark:
    case OwnKind.drop:
      return recordBytes === OWN_RECORD_BYTES;
    case RecordKind.piece:
      return recordBytes > PIECE_HEADER_BYTES;
    case OwnKind.batch:
      return recordBytes === BATCH_HEADER_BYTES;
    case OwnKind.note:
      return true;
    default:
      return false;
  }
}

// As `recordHeadBytes` of message/record.ts, of bytes that have no view.

function headBytes(bytes: Uint8Array, at: number): number {
  return RECORD_FIXED_BYTES + bytes[at + 2]! + 4 * bytes[at + 3]!;
}

function settingBytes(bytes: Uint8Array, at: number): number {
  return SETTING_HEADER_BYTES + bytes[at + 1]! + bytes[at + 2]! + 256 * bytes[at + 3]!;
}
