// Removes the oldest segment once all that is live in it has been appended again: first a DROP that says so, and the file only
// when that is durable, in a group also when the shared log has it.

import type { SegmentTable } from "../books/segment-table.ts";
import type { Disk } from "../disk/disk.ts";
import { OWN_RECORD_BYTES, OwnKind, segmentName } from "../format/segment-format.ts";
import type { LogTail } from "./log-tail.ts";
import type { RoomShortage } from "./room-shortage.ts";
import type { SegmentReader } from "./segment-reader.ts";

/** How long until the next look at whether the shared log has a DROP. */
const LOOK_MS = 5;

export interface SegmentDropOptions {
  disk: Disk;
  table: SegmentTable;
  reader: SegmentReader;
  tail: LogTail;
  /** Looks for room again when a segment is gone. */
  shortage: RoomShortage;
}

export class SegmentDrop {
  readonly #disk: Disk;
  readonly #table: SegmentTable;
  readonly #reader: SegmentReader;
  readonly #tail: LogTail;
  readonly #shortage: RoomShortage;
  #sequence = 0;
  /** Its file is gone, and its name may not be yet. */
  #unlinked = false;
  /** The batch that holds the DROP under way, or a later one; 0: it is not written. */
  #batch = 0;

  constructor(options: SegmentDropOptions) {
    this.#disk = options.disk;
    this.#table = options.table;
    this.#reader = options.reader;
    this.#tail = options.tail;
    this.#shortage = options.shortage;
  }

  get isUnderWay(): boolean {
    return this.#tail.dropping !== 0;
  }

  /** Nothing in the oldest segment is live any more: appends its DROP. */
  begin(): void {
    const tail = this.#tail;
    tail.makeOwnFit();
    tail.records.makeRoom(OWN_RECORD_BYTES);
    // From here on nothing may fail: a segment is only dropped by a DROP that is in the log.
    this.#batch = 0;
    tail.dropping = this.#table.oldest!.number;
    tail.oldest = tail.dropping + 1;
    tail.appendOwn(OwnKind.drop);
    this.#sequence = tail.sequence;
  }

  /** Removes the segment whose DROP is durable; false while the shared log does not have that. */
  finish(nowMs: number): boolean {
    const tail = this.#tail;
    if (tail.syncedSequence < this.#sequence) tail.syncAll(nowMs, false);
    if (!this.#isAcknowledged()) return false;
    this.#remove();
    return true;
  }

  /** The same outside of a group, where nobody has to acknowledge it. */
  finishNow(nowMs: number): void {
    this.#tail.syncAll(nowMs, false);
    this.#remove();
  }

  /** In a group a segment is needed until the shared log has all copies, and the DROP behind them. */
  #isAcknowledged(): boolean {
    const { chain } = this.#tail;
    if (chain === undefined) return true;
    this.#batch ||= chain.place.n;
    return chain.isAcknowledged(this.#batch);
  }

  #remove(): void {
    const { number } = this.#table.oldest!;
    this.#reader.forget(number);
    // A quota may refuse even this: the segment is booked out when it is gone, so that each step is tried
    // again.
    if (!this.#unlinked) this.#disk.unlink(segmentName(number));
    this.#unlinked = true;
    this.#disk.syncFolder();
    this.#unlinked = false;
    this.#table.removeOldest();
    this.#tail.dropping = 0;
    this.#shortage.retryAtMs = 0;
  }

  /** When to look again whether the shared log has the DROP; undefined: nothing is known to wait for. */
  lookAtMs(nowMs: number): number | undefined {
    return this.#tail.chain === undefined || this.#batch === 0 ? undefined : nowMs + LOOK_MS;
  }
}
