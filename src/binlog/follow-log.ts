// Log of a standby: copies another node's segments, with their numbers and sequences, so that the
// standby can take the lead with it. Pure code; see "A node that follows" in README.md.

import { assert } from "../base/assert.ts";
import { copyBytes, Memory } from "../base/bytes.ts";
import { segmentName, segmentNumber } from "../base/text.ts";
import type { KnownBatch } from "../message/group.ts";
import {
  type ChainPlace,
  encodeLogBatchHeader,
  LOG_BATCH_BYTES_MAX,
  LOG_BATCH_HEADER_BYTES,
  type LogBatch,
  type LogBatchHeader,
  LogBatchKind,
  sealLogBatch,
} from "../message/log-batch.ts";
import { BinlogError } from "./disk/binlog-error.ts";
import { damaged, encodeChecked, type FieldChecks, isInteger, readChecked } from "./disk/checked-json.ts";
import { type Disk, type Handle, readFully, replaceWhole, writeWhole } from "./disk/disk.ts";
import { type SyncEvery, SyncPolicy } from "./live/log-writer.ts";
import type { LogVerdict } from "./recovery/log-verdict.ts";
import type { ScannedBatch, SegmentScan } from "./recovery/segment-scan.ts";
import {
  decodeHeader,
  END_BYTES,
  encodeHeader,
  encodeOwn,
  FRAME_BYTES,
  foreignRecordIsKnown,
  HEADER_BYTES,
  MAX_FRAMED_BYTES,
  OWN_RECORD_BYTES,
  OwnKind,
  SPARE_BYTES,
  sealFrame,
} from "./segments/segment-format.ts";

// Segments of a standby's log: creates them ahead of their use, and cuts them after a batch.

/** Zeros to write ahead at a time, because a sync that extends a file waits for the journal. */
const AHEAD_BYTES = 512 * 1024;
const CUT = "cut.json";
const CUT_REMEDY =
  "Move the directory away to get everything from the group; keep it until another server has its jobs.";

/** A batch in the log, after which a cut can be made. */
interface Place {
  segment: number;
  /** Offset of the frame of the LINK record. */
  beginsAt: number;
  /** End of the last frame of the batch. */
  endsAt: number;
  /** Sequence of the last frame. */
  sequence: number;
  sealed: boolean;
  /** The oldest segment that counts at this point. */
  oldest: number;
}

const PLACE_CHECKS: FieldChecks<Place> = {
  segment: isInteger(1),
  beginsAt: isInteger(HEADER_BYTES),
  endsAt: isInteger(HEADER_BYTES + 1),
  sequence: isInteger(1),
  sealed: (value) => typeof value === "boolean",
  oldest: isInteger(0),
};

interface OpenSegment {
  number: number;
  handle: Handle;
  salt: number;
  usedBytes: number;
  fileBytes: number;
}

interface FollowOptions {
  disk: Disk;
  syncEvery: SyncEvery;
  randomSalt: () => number;
  wallMs: () => number;
}

function createSegment(
  { disk, randomSalt, wallMs }: FollowOptions,
  number: number,
  oldest: number,
  zeros: Uint8Array,
): OpenSegment {
  assert(number > 0 && oldest >= 0, "a new segment has a number");
  const salt = randomSalt() >>> 0;
  const handle = disk.open(segmentName(number), "create");
  const bytes = zeros.slice();
  assert(bytes.length >= HEADER_BYTES + SPARE_BYTES, "a new segment has room after its header");
  bytes.set(encodeHeader({ number, createdAtMs: wallMs(), maxId: 0, oldest, salt }));
  disk.truncate(handle, 0);
  disk.write(handle, bytes, 0, bytes.length, 0);
  disk.sync(handle);
  disk.syncFolder();
  return { number, handle, salt, usedBytes: HEADER_BYTES, fileBytes: bytes.length };
}

function reopen(disk: Disk, number: number, usedBytes: number): OpenSegment {
  assert(usedBytes >= HEADER_BYTES, "a reopened segment has its header");
  const name = segmentName(number);
  const handle = disk.open(name, "write");
  const bytes = new Uint8Array(HEADER_BYTES);
  readFully(disk, handle, bytes, 0, bytes.length, 0);
  const header = decodeHeader(bytes);
  if ("problem" in header) throw new Error(`${name} has lost its header`);
  return { number, handle, salt: header.salt, usedBytes, fileBytes: disk.bytes(handle) };
}

/** Finishes an interrupted cut; call before reading the directory. */
export function finishCut(options: FollowOptions, extentBytes = AHEAD_BYTES): void {
  const { disk } = options;
  if (!disk.names().includes(CUT)) return;
  const place = readPlace(disk);
  if (place !== undefined) {
    const zeros = new Uint8Array(extentBytes);
    cut(disk, place, zeros);
    // The END promises that a next segment exists.
    if (place.sealed) disk.close(createSegment(options, place.segment + 1, 0, zeros).handle);
  }
  endCut(disk);
}

/** Records where to cut, so that the next start can finish an interrupted cut, and cuts. */
function beginCut(disk: Disk, place: Place, zeros: Uint8Array): void {
  assert(place.segment > 0 && place.endsAt > place.beginsAt, "a cut follows a batch");
  writeWhole(disk, CUT, encodeChecked(place));
  disk.syncFolder();
  cut(disk, place, zeros);
}

function endCut(disk: Disk): void {
  disk.unlink(CUT);
  disk.syncFolder();
}

/** Removes everything after the place: newer segments, newest first, then its own rest. */
function cut(disk: Disk, { segment, endsAt, sealed }: Place, zeros: Uint8Array): void {
  assert(zeros.length > 0 && endsAt >= HEADER_BYTES, "a cut leaves the header");
  const numbers = disk.names().map(segmentNumber);
  for (const number of numbers.filter((each) => each > segment).sort((a, b) => b - a))
    disk.unlink(segmentName(number));
  disk.syncFolder();
  const name = segmentName(segment);
  const handle = disk.open(name, "write");
  try {
    if (sealed) {
      if (disk.bytes(handle) > endsAt) disk.truncate(handle, endsAt);
      disk.sync(handle);
      return;
    }
    const bytes = new Uint8Array(Math.ceil((endsAt + SPARE_BYTES) / zeros.length) * zeros.length);
    readFully(disk, handle, bytes, 0, endsAt, 0);
    // Replace the file: remains of the cut could reappear after a crash and look like damage.
    replaceWhole(disk, name, ".cut", bytes);
  } finally {
    disk.close(handle);
  }
}

/** Returns undefined if the file is incomplete, in which case nothing was cut yet. */
function readPlace(disk: Disk): Place | undefined {
  let place: Place;
  try {
    place = readChecked(disk, CUT, PLACE_CHECKS, CUT_REMEDY);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
  // A cut removes everything after it: a wrong place would remove segments that count.
  const name = segmentName(place.segment);
  const bytes = disk.names().includes(name) ? bytesOf(disk, name) : 0;
  if (bytes >= place.endsAt) return place;
  throw damaged(disk, CUT, `it cuts ${name} at byte ${place.endsAt} of ${bytes}`, CUT_REMEDY);
}

function bytesOf(disk: Disk, name: string): number {
  const handle = disk.open(name, "read");
  try {
    return disk.bytes(handle);
  } finally {
    disk.close(handle);
  }
}

export class FollowLog {
  readonly #disk: Disk;
  readonly #options: FollowOptions;
  readonly #policy: SyncPolicy;
  readonly #buffer: Memory = Memory.ofSize(2 * LOG_BATCH_BYTES_MAX + MAX_FRAMED_BYTES);
  readonly #zeros: Uint8Array;
  readonly #places = new Map<number, Place>();
  readonly known: KnownBatch[] = [];
  /** Existing segments without records. */
  readonly #empty = new Set<number>();
  #current: OpenSegment | undefined;
  #next: OpenSegment | undefined;
  #sequence: number;
  #syncedSequence: number;
  #unsynced = false;
  #kept: ChainPlace = { epoch: 0, n: 0, tag: 0 };
  /** The first segment of a node without batches. */
  readonly #begin: number;
  #oldest: number;
  #first: number;
  #idsLent: number;

  /**
   * `verdict` must report no damage. Only batches after record `adoptAfter` are the group's; other
   * jobs are the directory's own. Truncates after the last complete batch.
   */
  constructor(options: FollowOptions, verdict: LogVerdict, adoptAfter: number, extentBytes = AHEAD_BYTES) {
    this.#options = options;
    this.#disk = options.disk;
    this.#policy = new SyncPolicy(options.syncEvery);
    this.#zeros = new Uint8Array(extentBytes);
    this.#sequence = this.#syncedSequence = verdict.lastSequence;
    this.#oldest = verdict.oldest;
    this.#idsLent = verdict.maxId;
    const numbers = this.#numbers();
    this.#first = numbers[0] ?? 0;
    // They count again if the shared log lacks the last DROP, so they stay until the next DROP.
    for (const number of verdict.discard) this.#disk.unlink(segmentName(number));
    const kept = verdict.kept.at(-1);
    this.#begin = kept === undefined ? 1 : kept.number + 1;
    this.#learn(verdict, adoptAfter);
    const last = this.known.at(-1);
    if (last !== undefined) this.cutAfter(last.n);
    else {
      if (kept === undefined) this.#removeAll();
      else for (const { number } of verdict.empty) this.#empty.add(number);
    }
  }

  /** Removes segments that were created and never used, perhaps by an older version. */
  #removeAll(): void {
    for (const number of this.#numbers().reverse()) this.#disk.unlink(segmentName(number));
    this.#disk.syncFolder();
    this.#first = 0;
  }

  #learn(verdict: LogVerdict, adoptAfter: number): void {
    for (const scan of uncountedBefore(verdict)) this.#learnBatches(scan, adoptAfter);
    for (const scan of verdict.kept) {
      this.#learnBatches(scan, adoptAfter);
      const first = scan.batches.find(({ header }) => header.sequence > adoptAfter);
      const from = first?.at ?? (this.known.length > 0 ? 0 : Number.POSITIVE_INFINITY);
      if (scan.strayAt > from) throw strays(this.#disk.path);
    }
  }

  #learnBatches(scan: SegmentScan, adoptAfter: number): void {
    for (const batch of scan.batches) {
      if (batch.header.sequence <= adoptAfter) continue;
      const isLast = batch === scan.batches.at(-1);
      this.#know(batch, scan.number, isLast && scan.end === "sealed" && batch.endsAt === scan.at);
    }
  }

  #know({ header, at: beginsAt, endsAt }: ScannedBatch, segment: number, sealed: boolean): void {
    const { n, tag, epoch, node, unacknowledged, message, oldest } = header;
    this.known.push({ n, tag, epoch, node, unacknowledged, message });
    const sequence = header.sequence + header.frames;
    assert(endsAt - beginsAt >= FRAME_BYTES + LOG_BATCH_HEADER_BYTES, "a batch in the log has its header");
    this.#places.set(n, { segment, beginsAt, endsAt, sequence, sealed, oldest });
    this.#oldest = Math.max(this.#oldest, oldest);
  }

  /** The place that the next batch follows. */
  get place(): ChainPlace {
    return this.known.at(-1) ?? { epoch: 0, n: 0, tag: 0 };
  }

  /** Whether all segments that count are present; a node that joined late may lack some. */
  get isComplete(): boolean {
    return this.#first === 0 || this.#first <= this.#oldest;
  }

  /** Whether the log has jobs that did not come in a batch. */
  get hasOwnJobs(): boolean {
    return this.known.length === 0 && this.#sequence > 0;
  }

  /** Segments below this one hold jobs that did not come in a batch; 0 for none. */
  get rewriteBelow(): number {
    const [first] = this.known;
    if (first !== undefined) return first.n === 1 ? this.#placeOf(1).segment : 0;
    return this.#begin;
  }

  #placeOf(n: number): Place {
    const place = this.#places.get(n);
    assert(place !== undefined, "a known batch has a place");
    return place;
  }

  get sequence(): number {
    return this.#sequence;
  }

  #numbers(): number[] {
    const numbers = this.#disk.names().map(segmentNumber);
    return numbers.filter((number) => number > 0).sort((a, b) => a - b);
  }

  // --- writing --------------------------------------------------------------------------------

  /** Writes a valid batch: the successor of the last one, or the first. */
  apply({ header, bytes }: LogBatch): void {
    assert(this.known.length === 0 || header.n === this.place.n + 1, "a batch follows the last one");
    checkFrames(header, bytes);
    const segment = this.#segmentFor(header.segment, header.sequence);
    const framed = this.#frame(segment, header.sequence, bytes);
    this.#makeRoom(segment, framed.bytes);
    this.#disk.write(segment.handle, this.#buffer.bytes, 0, framed.bytes, segment.usedBytes);
    const at = segment.usedBytes;
    segment.usedBytes += framed.bytes;
    assert(segment.usedBytes + SPARE_BYTES <= segment.fileBytes, "zeros follow the last record");
    this.#sequence = framed.sequence;
    this.#unsynced = true;
    this.#idsLent = Math.max(framed.idsLent, header.idsLent);
    const batch = { header, at, endsAt: segment.usedBytes };
    this.#know(batch, segment.number, framed.sealed);
    this.#oldest = Math.max(this.#oldest, framed.oldest);
    if (framed.sealed) this.#leave(segment);
    if (framed.drops) this.#drop();
  }

  #segmentFor(number: number, sequence: number): OpenSegment {
    if (this.#current === undefined) {
      this.#first ||= number;
      this.#current = this.#create(number);
      this.#next = this.#create(number + 1);
      // The sequence of a node without batches begins at its first one.
      if (this.known.length === 0) this.#syncedSequence = sequence - 1;
    }
    if (this.#current.number !== number)
      throw new Error(`a batch for segment ${number} while ${this.#current.number} is the current one`);
    return this.#current;
  }

  /** Frames the batch with the segment's salt. Returns the facts from the storage's own records. */
  #frame(
    { salt }: OpenSegment,
    first: number,
    from: Uint8Array,
  ): { bytes: number; sequence: number; oldest: number; idsLent: number; sealed: boolean; drops: boolean } {
    const buffer = this.#buffer;
    const view = new DataView(from.buffer, from.byteOffset, from.byteLength);
    const said = { bytes: 0, sequence: first, oldest: 0, idsLent: 0, sealed: false, drops: false };
    copyBytes(buffer.bytes, FRAME_BYTES, from, 0, LOG_BATCH_HEADER_BYTES);
    sealFrame(buffer, 0, LOG_BATCH_HEADER_BYTES, salt, first, this.#syncedSequence);
    let to = FRAME_BYTES + LOG_BATCH_HEADER_BYTES;
    for (let at = LOG_BATCH_HEADER_BYTES; at < from.length; ) {
      const length = view.getUint32(at + 4, true);
      const record = at + FRAME_BYTES;
      copyBytes(buffer.bytes, to + FRAME_BYTES, from, record, length);
      sealFrame(buffer, to, length, salt, ++said.sequence, this.#syncedSequence);
      const kind = from[record]!;
      if (kind === OwnKind.end || kind === OwnKind.mark || kind === OwnKind.drop) {
        said.oldest = Math.max(said.oldest, view.getUint32(record + 4, true));
        said.idsLent = view.getFloat64(record + 8, true);
        if (kind === OwnKind.end) said.sealed = true;
        if (kind === OwnKind.drop) said.drops = true;
      }
      at = record + length;
      to += FRAME_BYTES + length;
    }
    said.bytes = to;
    return said;
  }

  /** Zeros always follow the last record, so a file that ends earlier has lost data. */
  #makeRoom(segment: OpenSegment, bytes: number): void {
    const wanted = segment.usedBytes + bytes + SPARE_BYTES;
    if (wanted <= segment.fileBytes) return;
    while (segment.fileBytes < wanted) {
      this.#disk.write(segment.handle, this.#zeros, 0, this.#zeros.length, segment.fileBytes);
      segment.fileBytes += this.#zeros.length;
    }
    assert(segment.fileBytes >= wanted, "a segment has the requested room");
    this.#disk.sync(segment.handle);
  }

  #create(number: number): OpenSegment {
    assert(number > 0, "segments of a standby are counted from 1");
    if (this.#empty.delete(number)) return reopen(this.#disk, number, HEADER_BYTES);
    return createSegment(this.#options, number, this.#oldest, this.#zeros);
  }

  #leave(segment: OpenSegment): void {
    assert(segment === this.#current, "only the current segment is left");
    assert(this.#next?.number === segment.number + 1, "a next segment exists");
    this.sync();
    assert(!this.#unsynced, "a standby leaves only a durable segment");
    this.#disk.truncate(segment.handle, segment.usedBytes);
    this.#disk.close(segment.handle);
    this.#current = this.#next;
    this.#next = this.#create(segment.number + 2);
  }

  /** Handles a DROP: makes it durable, then removes the segments that no longer count. */
  #drop(): void {
    this.sync();
    const gone = this.#numbers().filter((number) => number < this.#oldest);
    for (const number of gone) this.#disk.unlink(segmentName(number));
    if (gone.length === 0) return;
    this.#disk.syncFolder();
    this.#first = Math.max(this.#first, this.#oldest);
    while (this.known.length > 1 && this.#placeOf(this.known[0]!.n).segment < this.#oldest)
      this.#places.delete(this.known.shift()!.n);
  }

  sync(): void {
    if (!this.#unsynced) return;
    assert(this.#current !== undefined, "records that are not durable lie in a segment");
    this.#disk.sync(this.#current.handle);
    this.#unsynced = false;
    this.#syncedSequence = this.#sequence;
  }

  /** Syncs if the policy says so. */
  flush(nowMs: number): void {
    if (!this.#unsynced) return;
    assert(this.#sequence > this.#syncedSequence, "there are records that are not durable");
    this.#policy.dirty(nowMs);
    if (nowMs < this.#policy.syncAtMs) return;
    this.sync();
    this.#policy.synced(nowMs, 0, true);
  }

  /** The last batch that is durable or, with -F, written. */
  get kept(): ChainPlace {
    if (!this.#unsynced || this.#policy.never) {
      const { epoch, n, tag } = this.place;
      if (tag !== this.#kept.tag) this.#kept = { epoch, n, tag };
    }
    return this.#kept;
  }

  /** Returns a LEAD for this node, which seals the segment: its own log begins with the next. */
  leadBatch(node: number, tag: number): Uint8Array {
    const { epoch, n, tag: previousTag } = this.place;
    const memory = Memory.ofSize(LOG_BATCH_HEADER_BYTES + END_BYTES);
    encodeOwn(memory, LOG_BATCH_HEADER_BYTES + FRAME_BYTES, {
      kind: OwnKind.end,
      hasNext: true,
      oldest: this.#oldest,
      maxId: this.#idsLent,
    });
    assert(tag > 0, "a LEAD has a tag");
    assert(node > 0, "a LEAD names its node");
    const sequence = this.#sequence + 1;
    sealFrame(memory, LOG_BATCH_HEADER_BYTES, OWN_RECORD_BYTES, 0, sequence + 1, sequence - 1);
    encodeLogBatchHeader(memory, 0, {
      kind: LogBatchKind.lead,
      epoch: epoch + 1,
      segment: this.#current?.number ?? this.#begin,
      n: n + 1,
      previousTag,
      tag,
      sequence,
      idsLent: this.#idsLent,
      frames: 1,
      bodyBytes: END_BYTES,
      node,
      oldest: this.#oldest,
      unacknowledged: 0,
      message: 0,
    });
    sealLogBatch(memory, 0);
    return memory.bytes;
  }

  /** Returns the batches after batch `after` in the form of messages. */
  tail(after: number): Uint8Array[] {
    assert(after <= this.place.n, "a tail begins after a batch of the log");
    return this.known.filter(({ n }) => n > after).map(({ n }) => this.#read(this.#placeOf(n)));
  }

  /** Returns a batch with a new checksum, because its frames have this log's own salt. */
  #read({ segment, beginsAt, endsAt }: Place): Uint8Array {
    assert(endsAt - beginsAt > FRAME_BYTES, "a batch has bytes");
    const memory = Memory.ofSize(endsAt - beginsAt - FRAME_BYTES);
    const handle = this.#disk.open(segmentName(segment), "read");
    try {
      readFully(this.#disk, handle, memory.bytes, 0, memory.bytes.length, beginsAt + FRAME_BYTES);
    } finally {
      this.#disk.close(handle);
    }
    sealLogBatch(memory, 0);
    return memory.bytes;
  }

  /** Syncs and closes the files, so that other code can open the log. */
  close(): void {
    this.sync();
    if (this.#current !== undefined) this.#disk.close(this.#current.handle);
    if (this.#next !== undefined) this.#disk.close(this.#next.handle);
    this.#current = this.#next = undefined;
  }

  // --- cutting --------------------------------------------------------------------------------

  /** Truncates the log after batch `n`; the next start finishes an interrupted cut. */
  cutAfter(n: number): void {
    const place = this.#places.get(n);
    if (place === undefined) throw new Error(`batch ${n} is not in the log`);
    this.close();
    while (this.known.at(-1)!.n > n) this.#places.delete(this.known.pop()!.n);
    assert(this.place.n === n, "a cut keeps the batch before it");
    beginCut(this.#disk, place, this.#zeros);
    assert(place.sequence <= this.#sequence, "a cut lowers the sequence");
    this.#sequence = this.#syncedSequence = place.sequence;
    this.#oldest = place.oldest;
    const number = place.sealed ? place.segment + 1 : place.segment;
    this.#current = place.sealed ? this.#create(number) : reopen(this.#disk, place.segment, place.endsAt);
    this.#next = this.#create(number + 1);
    endCut(this.#disk);
  }
}

/** Returns the complete segments that count again if the DROP is cut. */
function uncountedBefore({ stale, kept }: LogVerdict): SegmentScan[] {
  const found: SegmentScan[] = [];
  let next = kept[0];
  for (const scan of stale.toReversed()) {
    const isNext = scan.number + 1 === next?.number && scan.lastSequence + 1 === next.firstSequence;
    if (scan.end !== "sealed" || !isNext) break;
    found.unshift(scan);
    next = scan;
  }
  return found;
}

function strays(path: string): BinlogError {
  return new BinlogError(
    "REPLICA_STRAYS",
    `${path} was served without --replicate after it was last in its group: it holds changes that the group does not know`,
    'Give them to the group with "runnerbean replica reseed", or move the directory away to follow the group without them.',
  );
}

/** A start would find damage in a record that this version doesn't know, or misread it. */
function newerThanThis(n: number): BinlogError {
  return new BinlogError(
    "BINLOG_VERSION",
    `batch ${n} of the group has a record that this version does not know: the primary is newer`,
    "The batch was not written. Upgrade this server and start it again: it follows and gets everything.",
  );
}

/**
 * Throws unless the frames fill the batch, as many as its header says. Its checksum is right, so
 * its writer framed it wrongly: no part of it may reach the disk.
 */
function checkFrames({ n, frames }: LogBatchHeader, bytes: Uint8Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let count = 0;
  for (let at = LOG_BATCH_HEADER_BYTES; at < bytes.length; count++) {
    const left = bytes.length - at - FRAME_BYTES;
    const length = left > 0 ? view.getUint32(at + 4, true) : 0;
    const record = at + FRAME_BYTES;
    const kind = bytes[record];
    const isOwn = kind === OwnKind.end || kind === OwnKind.mark || kind === OwnKind.drop;
    if (length === 0 || length > left || (isOwn && length < OWN_RECORD_BYTES))
      throw new Error(`batch ${n} is framed wrongly: ${length} bytes at ${at} of ${bytes.length}`);
    if (!foreignRecordIsKnown(bytes, record, length)) throw newerThanThis(n);
    at += FRAME_BYTES + length;
  }
  if (count !== frames) throw new Error(`batch ${n} has ${count} frames, and says ${frames}`);
}
