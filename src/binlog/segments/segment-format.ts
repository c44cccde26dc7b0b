// Bytes of a segment: checksums, header, frames, and the kinds of records.

import { crc32 } from "node:zlib";
import { assert, CHECKED } from "../../base/assert.ts";
import { latin1, type Memory } from "../../base/bytes.ts";
import { BATCH_FIXED_BYTES, TALLY_BYTES } from "../../message/flow-record.ts";
import { LINK_RECORD_KIND, LOG_BATCH_HEADER_BYTES } from "../../message/log-batch.ts";
import {
  attributeBytes,
  attributeBytesOf,
  MAX_RECORD_BYTES,
  PIECE_HEADER_BYTES,
  patternBytesOf,
  RECORD_BODY_BYTES_AT,
  RECORD_FIXED_BYTES,
  RECORD_TAIL_BYTES_MAX,
  RecordKind,
  RecordState,
  recordHeadBytes,
  SETTING_HEADER_BYTES,
  stateIn,
  tubeBytesOf,
} from "../../message/record.ts";

// CRC-32 as zlib computes it. Short ranges use a table, because a call to zlib costs more: 160
// bytes take 240 ns instead of 370 ns, 56 bytes 100 instead of 280. From 250 bytes on, zlib is
// faster.

const SHORT_BYTES = 220;

/** Eight tables of 256 entries, for eight bytes per step ("slicing by 8"). */
const TABLES = makeTables();

function makeTables(): Int32Array {
  const tables = new Int32Array(8 * 256);
  for (let n = 0; n < 256; n++) {
    let c = n;
    for (let bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
    tables[n] = c;
  }
  for (let n = 0; n < 256; n++) {
    let c = tables[n]!;
    for (let k = 1; k < 8; k++) {
      c = tables[c & 255]! ^ (c >>> 8);
      tables[k * 256 + n] = c;
    }
  }
  return tables;
}

/** Returns the checksum of `bytes[start, end)`, seeded with `seed`. */
export function recordChecksum(bytes: Uint8Array, start: number, end: number, seed: number): number {
  if (CHECKED) assert(start <= end && end <= bytes.length, "the range lies in its memory");
  if (end - start > SHORT_BYTES) return crc32(bytes.subarray(start, end), seed);
  const t = TABLES;
  let c = ~seed;
  let i = start;
  for (const stop = end - 7; i < stop; i += 8) {
    c ^= bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24);
    c =
      t[1792 + (c & 255)]! ^
      t[1536 + ((c >>> 8) & 255)]! ^
      t[1280 + ((c >>> 16) & 255)]! ^
      t[1024 + (c >>> 24)]! ^
      t[768 + bytes[i + 4]!]! ^
      t[512 + bytes[i + 5]!]! ^
      t[256 + bytes[i + 6]!]! ^
      t[bytes[i + 7]!]!;
  }
  for (; i < end; i++) c = t[(c ^ bytes[i]!) & 255]! ^ (c >>> 8);
  return ~c >>> 0;
}

// Format of a segment: its header, the frame around each record, and the storage's own records. See
// docs/architecture/log-format.md.

/**
 * The version in the header of each new segment. Raise it when a current reader would misread the
 * new data or mistake it for damage. That includes a changed layout or meaning of a field in
 * header, frame or record (also in message/record.ts), a new kind of record (`recordIsKnown`), and
 * a longer one.
 *
 * How to change the format:
 * 1. Keep the positions of magic, version and header checksum. An older server then reports
 *   BINLOG_VERSION and changes nothing, instead of finding damage.
 * 2. Write only the new version, but keep reading the old one. Versions belong to segments, so a
 *   log has both until compaction drops the last old segment. Give `SegmentHeader` its version, and
 *   decode accordingly wherever records are read: `segment-scan.ts`, `recovered-jobs.ts` (the
 *   shards know only the newest layout), `compaction.ts`.
 * 3. Never mix versions in a segment. A start continues in segments created ahead; recreate those
 *   of an old version (`renewSegment` in `log-recovery.ts`). `endTail` appends END to a segment of
 *   any version, so write it in the version of the header.
 * 4. `Compaction` copies records byte for byte: convert those of an old segment before `migrate`.
 * 5. First, save a directory written by the old version for the tests, with every kind of record, a
 *   torn tail and a job in pieces. Test that it opens, compacts and can be salvaged. An older
 *   server must refuse a new directory and leave it unchanged.
 * 6. The only way back is `dump` with the new version and `restore` with the old one, as long as
 *   DUMP_VERSION stays. State this in the CHANGELOG. Describe the new layout in
 *   docs/architecture/log-format.md beside the old one until no release reads that.
 */
export const FORMAT_VERSION = 4;
/**
 * The oldest readable version. Its records are valid in the current one; only the headers differ.
 */
const FORMAT_VERSION_MIN = 1;
export const HEADER_BYTES = 64;
export const FRAME_BYTES = 20;
/** Offsets in a segment have 32 bits; a segment consists of whole pages. */
export const SEGMENT_BYTES_MAX = 2 ** 32 - 4096;
/**
 * The longest record in a frame: compaction copies a PUT with the tube name and the attributes of
 * its latest UPDATE.
 */
export const MAX_STORED_BYTES: number = MAX_RECORD_BYTES + RECORD_TAIL_BYTES_MAX;
export const MAX_FRAMED_BYTES: number = FRAME_BYTES + MAX_STORED_BYTES;

/** No server assigns so many ids: a file with an id from here on is damaged. */
export const FOREIGN_ID_LIMIT: number = 2 ** 48;

/**
 * Kinds of records that only the storage writes; the shards' kinds are 1 to 7 (message/record.ts).
 */
export const OwnKind = {
  /** The last record of a segment; only zeros follow. */
  end: 16,
  /** States how far the log was durable, written while nothing else happens. */
  mark: 17,
  /** All segments below `oldest` are rewritten and no longer count, even if they still exist. */
  drop: 18,
  /** Variable content (msgpack): the beginning or end of a takeover. */
  note: 19,
  /** In a group: the beginning of a batch, with its place in the chain (message/log-batch.ts). */
  link: LINK_RECORD_KIND,
} as const;

/**
 * Layout of END, MARK and DROP: kind, u8 whether the next segment existed (END), 2 zero bytes, u32
 * oldest segment that counts, f64 highest lent id (the last such record of a log counts).
 */
export const OWN_RECORD_BYTES = 16;
export const END_BYTES = FRAME_BYTES + OWN_RECORD_BYTES;
/** Zeros that always follow the last record of an unsealed segment: room for END, twice. */
export const SPARE_BYTES = 2 * END_BYTES;

const MAGIC = "RBEANLOG";

export interface SegmentHeader {
  /** Format version; new segments have the current one. */
  version: number;
  number: number;
  createdAtMs: number;
  maxId: number;
  /** The oldest segment that counted when this one was created. */
  oldest: number;
  /** Seed of the checksums, so that no body can contain a frame that looks genuine. */
  salt: number;
}

export function encodeHeader(header: Omit<SegmentHeader, "version">): Uint8Array {
  assert(header.number > 0 && header.oldest >= 0, "a segment has a number");
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
  // Every version keeps magic, version and this checksum in place. Without the check, a flipped bit
  // in the version would look like a newer version.
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
 * Writes the frame before a record that is already at `at + FRAME_BYTES`: a checksum over
 * everything after it, the length, the sequence number, and the distance to the newest sequence
 * known to be durable.
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
  if (CHECKED)
    assert(
      synced <= sequence && at + FRAME_BYTES + recordBytes <= bytes.length,
      "a frame lies in its memory",
    );
  view.setUint32(at + 4, recordBytes, true);
  view.setUint32(at + 8, sequence >>> 0, true);
  view.setUint32(at + 12, high, true);
  view.setUint32(at + 16, Math.min(sequence - synced, 0xffff_ffff), true);
  view.setUint32(at, recordChecksum(bytes, at + 4, at + FRAME_BYTES + recordBytes, salt), true);
}

export function frameSequence(view: DataView, at: number): number {
  return view.getUint32(at + 12, true) * 0x1_0000_0000 + view.getUint32(at + 8, true);
}

/** Returns the newest sequence that was durable when this frame was written. */
export function frameSynced(view: DataView, at: number): number {
  return frameSequence(view, at) - view.getUint32(at + 16, true);
}

/** Returns whether a complete, undamaged frame is at `at`. */
export function frameIsWhole({ bytes, view }: Memory, at: number, salt: number): boolean {
  const end = bytes.length;
  if (at + FRAME_BYTES > end) return false;
  const recordBytes = view.getUint32(at + 4, true);
  if (recordBytes === 0 || recordBytes > MAX_STORED_BYTES || at + FRAME_BYTES + recordBytes > end)
    return false;
  return view.getUint32(at, true) === recordChecksum(bytes, at + 4, at + FRAME_BYTES + recordBytes, salt);
}

/** The content of an END, MARK or DROP. */
interface OwnRecord {
  kind: number;
  /** Whether the next segment existed (END). */
  hasNext: boolean;
  /** The oldest segment that counts. */
  oldest: number;
  /** The server never reuses job ids up to this one. */
  maxId: number;
}

/** Writes an END, MARK or DROP of OWN_RECORD_BYTES at `at`. */
export function encodeOwn({ bytes, view }: Memory, at: number, own: OwnRecord): void {
  assert(own.kind >= OwnKind.end && own.kind <= OwnKind.drop, "END, MARK and DROP have one layout");
  assert(at + OWN_RECORD_BYTES <= bytes.length && own.maxId >= 0, "a record of the log fits into its memory");
  bytes[at] = own.kind;
  bytes[at + 1] = own.hasNext ? 1 : 0;
  bytes[at + 2] = 0;
  bytes[at + 3] = 0;
  view.setUint32(at + 4, own.oldest, true);
  view.setFloat64(at + 8, own.maxId, true);
}

// Kinds of a shard's records. Their layouts are in message/record.ts; what they change in the books
// is in books.ts.

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
    case RecordKind.update: {
      const headBytes = RECORD_FIXED_BYTES + bytes[at + 2]! + attributeBytes(bytes[at + 1]!, bytes[at + 3]!);
      return bytes[at] === RecordKind.put ? recordBytes >= headBytes : recordBytes === headBytes;
    }
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
export const EXTRA_REMEMBERED = 0xffff_ffff;
/** The `recordExtra` of a PUT that is a schedule. */
export const EXTRA_SCHEDULE = 0xffff_fffe;

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
