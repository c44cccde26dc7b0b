// Hands the jobs of a recovered log to the shards: whole segments as shared memory, with lists of where jobs begin.

import {
  applyUpdate,
  decodeFields,
  emptyRecordFields,
  RECORD_FIXED_BYTES,
  type RecordFields,
  RecordKind,
  tubeBytesOf,
} from "../../message/record.ts";
import type { JobIndex } from "../books/job-index.ts";
import { type Disk, readFully } from "../disk/disk.ts";
import { FRAME_BYTES, OWN_RECORD_BYTES, segmentName } from "../format/segment-format.ts";
import { wholeJobBytes } from "../live/whole-job.ts";
import { UpdateFinder } from "./log-recovery.ts";
import type { SegmentScan } from "./segment-scan.ts";

/**
 * Jobs in their final state. `bytes` is shared memory (a SharedArrayBuffer), the same for all shards; `jobs[s]` are the
 * offsets of PUT records in it that belong to shard s: read them with message/record.ts, copy the bodies out, let go.
 * Every body is whole, also one that came in pieces. Jobs come in no order: buried ones are ordered by burySequence.
 */
export interface RecoveredBatch {
  bytes: Uint8Array<SharedArrayBuffer>;
  jobs: Uint32Array[];
}

export type ShardOf = (bytes: Uint8Array, start: number, length: number) => number;

export interface RecoveredSource {
  disk: Disk;
  scans: readonly SegmentScan[];
  index: JobIndex;
}

/** The batches one by one, a segment each; a big job is a batch of its own. */
export function* recoveredJobs(
  source: RecoveredSource,
  shards: number,
  shardOf: ShardOf,
): Generator<RecoveredBatch> {
  const updates = new UpdateFinder(source.scans);
  for (const scan of source.scans) {
    const lists = new OffsetLists(shards);
    const big: number[] = [];
    const { count, kinds, ids, offsets } = scan.columns;
    let bytes: Uint8Array<SharedArrayBuffer> | undefined;
    let view: DataView | undefined;
    for (let i = 0; i < count; i++) {
      if (kinds[i] !== RecordKind.put) continue;
      const id = ids[i]!;
      const offset = offsets[i]!;
      if (!source.index.fullIsAt(id, scan.number, offset)) continue;
      if (bytes === undefined || view === undefined) {
        bytes = readSegment(source.disk, scan);
        view = new DataView(bytes.buffer);
      }
      const record = offset + FRAME_BYTES;
      const updateSegment = source.index.updateSegmentOf(id);
      if (updateSegment !== 0) {
        const position = updates.position(updateSegment, source.index.updateOffsetOf(id));
        applyUpdate(view, record, updates.view(updateSegment), position);
      }
      if (source.index.big.size > 0 && source.index.big.has(id)) {
        big.push(i);
        continue;
      }
      const shard = shardOf(bytes, record + RECORD_FIXED_BYTES, tubeBytesOf(view, record));
      lists.add(shard, record);
    }
    if (bytes === undefined) continue;
    if (lists.count > 0) yield { bytes, jobs: lists.done() };
    for (const i of big) yield wholeJob(source, scan, i, bytes, shards, shardOf);
  }
}

export interface WholeJob {
  /** Reused for the next job. */
  fields: RecordFields;
  tube: Uint8Array<SharedArrayBuffer>;
  body: Uint8Array<SharedArrayBuffer>;
}

/** The jobs of batches for a single shard, one by one. */
export function* wholeJobs(batches: Iterable<RecoveredBatch>): Generator<WholeJob> {
  const fields = emptyRecordFields();
  for (const { bytes, jobs } of batches) {
    const view = new DataView(bytes.buffer);
    for (const at of jobs[0]!) {
      decodeFields(view, at, fields);
      const tubeAt = at + RECORD_FIXED_BYTES;
      const bodyAt = tubeAt + tubeBytesOf(view, at);
      yield {
        fields,
        tube: bytes.subarray(tubeAt, bodyAt),
        body: bytes.subarray(bodyAt, at + wholeJobBytes(view, at)),
      };
    }
  }
}

function readSegment(disk: Disk, scan: SegmentScan): Uint8Array<SharedArrayBuffer> {
  const bytes = new Uint8Array(new SharedArrayBuffer(scan.fileBytes));
  const handle = disk.open(segmentName(scan.number), "read");
  try {
    readFully(disk, handle, bytes, 0, bytes.length, 0);
  } finally {
    disk.close(handle);
  }
  return bytes;
}

/** Puts a job together whose body lies in pieces all over the log. */
function wholeJob(
  source: RecoveredSource,
  scan: SegmentScan,
  row: number,
  from: Uint8Array,
  shards: number,
  shardOf: ShardOf,
): RecoveredBatch {
  const { ids, offsets, framedBytes } = scan.columns;
  const big = source.index.big.get(ids[row]!)!;
  const start = offsets[row]! + FRAME_BYTES;
  const headBytes = framedBytes[row]! - FRAME_BYTES;
  const bytes = new Uint8Array(new SharedArrayBuffer(headBytes + big.missingBytes));
  bytes.set(from.subarray(start, start + headBytes));
  const tubeBytes = bytes[2]!;
  for (const piece of big.pieces.values()) {
    const to = RECORD_FIXED_BYTES + tubeBytes + piece.bodyOffset;
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

/** One growing list of offsets a shard. */
class OffsetLists {
  readonly #lists: Uint32Array[];
  readonly #counts: number[];
  count = 0;

  constructor(shards: number) {
    this.#lists = Array.from({ length: shards }, () => new Uint32Array(64));
    this.#counts = new Array<number>(shards).fill(0);
  }

  add(shard: number, offset: number): void {
    let list = this.#lists[shard]!;
    const n = this.#counts[shard]!++;
    if (n === list.length) {
      const larger = new Uint32Array(2 * n);
      larger.set(list);
      this.#lists[shard] = list = larger;
    }
    list[n] = offset;
    this.count++;
  }

  done(): Uint32Array[] {
    return this.#lists.map((list, shard) => list.slice(0, this.#counts[shard]));
  }
}
