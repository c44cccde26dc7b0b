// Hands the jobs of a recovered log to the shards: whole segments as shared memory, with lists of
// where jobs begin.

import { assert } from "../../base/assert.ts";
import { copyBytes, Memory } from "../../base/bytes.ts";
import { segmentName } from "../../base/text.ts";
import {
  applyUpdate,
  attributeBytesOf,
  decodeFields,
  emptyRecordFields,
  mergeHead,
  RECORD_FIXED_BYTES,
  RECORD_TAIL_BYTES_MAX,
  type RecordFields,
  recordHeadBytes,
  tubeBytesOf,
  updateHasTail,
} from "../../message/record.ts";
import { type Disk, readFully } from "../disk/disk.ts";
import { wholeJobBytes } from "../live/whole-job.ts";
import type { RecordIndex } from "../segments/books.ts";
import { FRAME_BYTES, isFull, OWN_RECORD_BYTES } from "../segments/segment-format.ts";
import { UpdateFinder } from "./log-recovery.ts";
import type { SegmentScan } from "./segment-scan.ts";

/**
 * Jobs in their final state. `bytes` is shared memory (a SharedArrayBuffer), the same for all
 * shards. `jobs[s]` holds the offsets in it of the PUT records of shard s: decode them with
 * message/record.ts, copy the bodies, and release the memory. Every body is complete, even if it
 * came in pieces. Jobs have no order; burySequence orders the buried ones.
 */
export interface RecoveredBatch {
  bytes: Uint8Array<SharedArrayBuffer>;
  jobs: Uint32Array[];
}

export type ShardOf = (bytes: Uint8Array, start: number, length: number) => number;

interface RecoveredSource {
  disk: Disk;
  scans: readonly SegmentScan[];
  index: RecordIndex;
}

/** Maximum bytes of the rebuilt jobs in one batch, not counting the last of them. */
const REBUILT_BYTES_MAX = 1 << 20;

/**
 * Yields one batch per segment, and further batches for its jobs whose length changed. A big job
 * has a batch of its own.
 */
export function* recoveredJobs(
  source: RecoveredSource,
  shards: number,
  shardOf: ShardOf,
): Generator<RecoveredBatch> {
  const updates = new UpdateFinder(source.scans);
  let found = 0;
  for (const scan of source.scans) {
    const rows = liveRows(source.index, scan);
    found += rows.length;
    if (rows.length === 0) continue;
    const bytes = readSegment(source.disk, scan);
    const { same, rebuilt } = applyUpdates(source.index, scan, rows, bytes, updates);
    assert(same.length + rebuilt.length === rows.length, "each live job is rebuilt or unchanged");
    const isBig = (row: number): boolean => source.index.big.has(scan.columns.ids[row]!);
    const big = source.index.big.size === 0 ? [] : same.filter(isBig);
    const small = big.length === 0 ? same : same.filter((row) => !isBig(row));
    if (small.length > 0) yield { bytes, jobs: offsetsByShard(scan, small, bytes, shards, shardOf) };
    for (const row of big) {
      const at = scan.columns.offsets[row]! + FRAME_BYTES;
      const record = bytes.subarray(at, at + scan.columns.framedBytes[row]! - FRAME_BYTES);
      yield wholeJob(source, scan.columns.ids[row]!, record, shards, shardOf);
    }
    yield* rebuiltJobs(source, rebuilt, shards, shardOf);
  }
  const { jobs, remembered, schedules } = source.index;
  assert(found === jobs + remembered + schedules, "every live job is handed over once");
}

/** A job whose head has changed in length, as one record without the pieces of its body. */
interface RebuiltJob {
  id: number;
  record: Uint8Array;
}

function* rebuiltJobs(
  source: RecoveredSource,
  rebuilt: readonly RebuiltJob[],
  shards: number,
  shardOf: ShardOf,
): Generator<RecoveredBatch> {
  let together: RebuiltJob[] = [];
  let usedBytes = 0;
  for (const job of rebuilt) {
    if (source.index.big.has(job.id)) {
      yield wholeJob(source, job.id, job.record, shards, shardOf);
      continue;
    }
    together.push(job);
    usedBytes += job.record.length;
    if (usedBytes < REBUILT_BYTES_MAX) continue;
    yield gathered(together, usedBytes, shards, shardOf);
    together = [];
    usedBytes = 0;
  }
  if (together.length > 0) yield gathered(together, usedBytes, shards, shardOf);
}

function gathered(
  jobs: readonly RebuiltJob[],
  usedBytes: number,
  shards: number,
  shardOf: ShardOf,
): RecoveredBatch {
  const bytes = new Uint8Array(new SharedArrayBuffer(usedBytes));
  const lists = new OffsetLists(shards);
  let at = 0;
  for (const { record } of jobs) {
    bytes.set(record, at);
    lists.add(shardOf(bytes, at + RECORD_FIXED_BYTES, bytes[at + 2]!), at);
    at += record.length;
  }
  assert(at === usedBytes, "rebuilt jobs fill their memory");
  return { bytes, jobs: lists.done() };
}

/** Returns the rows of the segment's records that are the full record of a live job. */
function liveRows(index: RecordIndex, scan: SegmentScan): Uint32Array {
  const { count, kinds, ids, offsets } = scan.columns;
  const rows = new Uint32Array(count);
  let found = 0;
  for (let row = 0; row < count; row++) {
    if (!isFull(kinds[row]!)) continue;
    if (index.fullIsAt(ids[row]!, scan.number, offsets[row]!)) rows[found++] = row;
  }
  return rows.subarray(0, found);
}

/**
 * Applies the latest UPDATE, if any, to each PUT in these rows of the segment `bytes`. Returns the
 * rows whose PUT keeps its length, and the other jobs rebuilt.
 */
function applyUpdates(
  index: RecordIndex,
  { columns }: SegmentScan,
  rows: Uint32Array,
  bytes: Uint8Array,
  updates: UpdateFinder,
): { same: Uint32Array; rebuilt: RebuiltJob[] } {
  const memory = new Memory(bytes);
  const head = Memory.ofSize(RECORD_FIXED_BYTES + RECORD_TAIL_BYTES_MAX);
  const rebuilt: RebuiltJob[] = [];
  let kept = 0;
  for (const row of rows) {
    rows[kept++] = row;
    const id = columns.ids[row]!;
    const segment = index.updateSegmentOf(id);
    if (segment === 0) continue;
    const put = columns.offsets[row]! + FRAME_BYTES;
    const update = updates.memory(segment);
    const position = updates.position(segment, index.updateOffsetOf(id));
    if (!updateHasTail(memory.view, put, update.view, position)) {
      applyUpdate(memory.view, put, update.view, position);
      continue;
    }
    const before = recordHeadBytes(memory.view, put);
    const after = mergeHead(head, memory, put, update, position);
    assert(after <= head.bytes.length, "a merged head fits into its memory");
    if (after === before) {
      copyBytes(bytes, put, head.bytes, 0, after);
      continue;
    }
    kept--;
    const inlineBytes = columns.framedBytes[row]! - FRAME_BYTES - before;
    assert(inlineBytes >= 0, "a full record holds its head");
    const record = new Uint8Array(after + inlineBytes);
    copyBytes(record, 0, head.bytes, 0, after);
    copyBytes(record, after, bytes, put + before, inlineBytes);
    rebuilt.push({ id, record });
  }
  return { same: rows.subarray(0, kept), rebuilt };
}

/** Returns the offsets, in the segment `bytes`, of the PUTs in these rows, by shard. */
function offsetsByShard(
  { columns }: SegmentScan,
  rows: Uint32Array,
  bytes: Uint8Array,
  shards: number,
  shardOf: ShardOf,
): Uint32Array[] {
  const { view } = new Memory(bytes);
  const lists = new OffsetLists(shards);
  for (const row of rows) {
    const record = columns.offsets[row]! + FRAME_BYTES;
    assert(record + RECORD_FIXED_BYTES <= bytes.length, "a job lies in its segment");
    lists.add(shardOf(bytes, record + RECORD_FIXED_BYTES, tubeBytesOf(view, record)), record);
  }
  return lists.done();
}

interface WholeJob {
  /** Reused for the next job. */
  fields: RecordFields;
  tube: Uint8Array<SharedArrayBuffer>;
  /** Padded; see protocol/job-attribute.ts. */
  attributes: Uint8Array<SharedArrayBuffer>;
  body: Uint8Array<SharedArrayBuffer>;
}

/** Yields the jobs of batches for a single shard. */
export function* wholeJobs(batches: Iterable<RecoveredBatch>): Generator<WholeJob> {
  const fields = emptyRecordFields();
  for (const { bytes, jobs } of batches) {
    const view = new DataView(bytes.buffer);
    assert(jobs.length === 1, "the jobs belong to one shard");
    for (const at of jobs[0]!) {
      decodeFields(view, at, fields);
      const tubeAt = at + RECORD_FIXED_BYTES;
      const attributesAt = tubeAt + tubeBytesOf(view, at);
      const bodyAt = attributesAt + attributeBytesOf(view, at);
      yield {
        fields,
        tube: bytes.subarray(tubeAt, attributesAt),
        attributes: bytes.subarray(attributesAt, bodyAt),
        body: bytes.subarray(bodyAt, at + wholeJobBytes(view, at)),
      };
    }
  }
}

function readSegment(disk: Disk, scan: SegmentScan): Uint8Array<SharedArrayBuffer> {
  assert(scan.at <= scan.fileBytes, "the records of a segment end inside its file");
  const bytes = new Uint8Array(new SharedArrayBuffer(scan.fileBytes));
  const handle = disk.open(segmentName(scan.number), "read");
  try {
    readFully(disk, handle, bytes, 0, bytes.length, 0);
  } finally {
    disk.close(handle);
  }
  return bytes;
}

/** Assembles a job whose body lies in several pieces in the log; `record` is its full record. */
function wholeJob(
  source: RecoveredSource,
  id: number,
  record: Uint8Array,
  shards: number,
  shardOf: ShardOf,
): RecoveredBatch {
  const big = source.index.big.get(id);
  assert(big !== undefined && big.missingBytes > 0, "a big job lacks bytes in its full record");
  const bytes = new Uint8Array(new SharedArrayBuffer(record.length + big.missingBytes));
  bytes.set(record);
  const tubeBytes = bytes[2]!;
  const bodyAt = recordHeadBytes(new DataView(bytes.buffer), 0);
  for (const piece of big.pieces.values()) {
    const to = bodyAt + piece.bodyOffset;
    const handle = source.disk.open(segmentName(piece.segment), "read");
    try {
      const at = piece.offset + FRAME_BYTES + OWN_RECORD_BYTES;
      readFully(source.disk, handle, bytes, to, piece.bodyBytes, at);
    } finally {
      source.disk.close(handle);
    }
  }
  const lists = new OffsetLists(shards);
  lists.add(shardOf(bytes, RECORD_FIXED_BYTES, tubeBytes), 0);
  return { bytes, jobs: lists.done() };
}

/** Growing lists of offsets, one per shard. */
class OffsetLists {
  readonly #lists: Uint32Array[];
  readonly #counts: number[];

  constructor(shards: number) {
    this.#lists = Array.from({ length: shards }, () => new Uint32Array(64));
    this.#counts = new Array<number>(shards).fill(0);
  }

  add(shard: number, offset: number): void {
    let list = this.#lists[shard];
    assert(list !== undefined, "a job belongs to a shard");
    const n = this.#counts[shard]!++;
    if (n === list.length) {
      const larger = new Uint32Array(2 * n);
      larger.set(list);
      this.#lists[shard] = list = larger;
    }
    list[n] = offset;
  }

  done(): Uint32Array[] {
    return this.#lists.map((list, shard) => list.slice(0, this.#counts[shard]));
  }
}
