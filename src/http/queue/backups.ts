// Backups: asks the log for a cut, and reads its segments piece by piece. One at a time.

import { type FileHandle, open, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { assert } from "../../base/assert.ts";
import { backupEnd, backupHead, NEXT_BYTES, paddingOf, segmentHead } from "../../base/backup-archive.ts";
import { segmentName } from "../../base/text.ts";
import { backupWords, binlogBell, type Topology } from "../../message/topology.ts";
import { Doorbell } from "../../ring/doorbell.ts";
import type { BackupWords, CutSegments } from "../../ring/shared-words.ts";

/** Length of a piece. */
const PIECE_BYTES = 256 * 1024;
/** Length of a segment's header, which precedes its records. */
const HEADER_BYTES = 64;
/** Time limit for a cut: the log may wait for room on its disk. */
const CUT_MS_MAX = 10_000;

/** Why most backups break off. */
export const GONE = "the client disconnected, or its token was removed";

export type BackupRefusal = "under-way" | "full" | "late";

interface BackupsOptions {
  readonly topology: Topology;
  /** The directory of the log. */
  readonly directory: string;
  readonly version: string;
  readonly nowMs: () => number;
  readonly wallMs: () => number;
  /** Called with the reason when a backup breaks off. */
  readonly onBrokenOff: (reason: string) => void;
}

export class Backups {
  readonly #options: BackupsOptions;
  readonly #words: BackupWords;
  readonly #bell: Doorbell;
  #number = 0;
  #isUnderWay = false;
  /** Counts for the metrics. */
  done = 0;
  failed = 0;

  constructor(options: BackupsOptions) {
    const { topology } = options;
    this.#options = options;
    this.#words = backupWords(topology);
    this.#bell = new Doorbell(new Int32Array(topology.doorbells), binlogBell(topology));
  }

  get isUnderWay(): boolean {
    return this.#isUnderWay;
  }

  /** Number of segments that only the backup keeps on the disk. */
  get kept(): number {
    return this.#words.kept;
  }

  /** Makes a cut. The caller must `end` the backup. */
  async begin(): Promise<Backup | BackupRefusal> {
    if (this.#isUnderWay) return "under-way";
    this.#isUnderWay = true;
    const number = ++this.#number;
    this.#ask(number);
    const cut = await this.#words.answer(number, CUT_MS_MAX);
    if (cut === "refused" || cut === "late") {
      this.#end(false);
      return cut === "late" ? "late" : "full";
    }
    return new Backup(this.#options, cut, {
      isTakenBack: () => this.#words.isRefused(number),
      onEnd: (isWhole) => this.#end(isWhole),
    });
  }

  #ask(number: number): void {
    this.#words.ask(number);
    this.#bell.ring();
  }

  #end(isWhole: boolean): void {
    assert(this.#isUnderWay, "a backup ends once");
    this.#ask(0);
    this.#isUnderWay = false;
    if (isWhole) this.done++;
    else this.failed++;
  }
}

interface Holder {
  readonly isTakenBack: () => boolean;
  readonly onEnd: (isWhole: boolean) => void;
}

export class Backup {
  readonly #options: BackupsOptions;
  readonly #cut: CutSegments;
  readonly #holder: Holder;
  /**
   * Holds each piece in turn. Memory for each would be garbage at the rate of the backup, which the
   * collector would pay for by marking this thread's whole heap again and again.
   */
  readonly #piece: Uint8Array = new Uint8Array(PIECE_BYTES);
  #hasEnded = false;
  #isWhole = false;

  constructor(options: BackupsOptions, cut: CutSegments, holder: Holder) {
    this.#options = options;
    this.#cut = cut;
    this.#holder = holder;
  }

  /** Gives the segments back to the log; may be called again. */
  readonly end = (): void => {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#holder.onEnd(this.#isWhole);
  };

  /** Ends the backup, and reports why it is incomplete. */
  breakOff(reason: string): void {
    this.end();
    this.#options.onBrokenOff(reason);
  }

  /**
   * Yields the archive, at most `bytesPerSecond`. A piece is valid until the next step. Throws if
   * the log takes the segments back, or if one can't be read.
   */
  async *pieces(bytesPerSecond: number): AsyncGenerator<Uint8Array> {
    const { version, nowMs, wallMs } = this.#options;
    const { oldest, last } = this.#cut;
    const pace = new Pace(bytesPerSecond, nowMs);
    const createdAtMs = wallMs();
    const bytes = NEXT_BYTES + (await this.#bytesOf(oldest, last));
    yield* backupHead({ version, createdAtMs, oldest, last, bytes });
    const checksums: number[] = [];
    const next = await this.#headOf(last + 1);
    checksums.push(crc32(next));
    yield* [segmentHead(last + 1, next.length, createdAtMs), next, paddingOf(next.length)];
    for (let number = oldest; number <= last; number++)
      checksums.push(yield* this.#segment(number, createdAtMs, pace));
    this.#check();
    this.#isWhole = true;
    yield* backupEnd(checksums, createdAtMs);
  }

  async #bytesOf(oldest: number, last: number): Promise<number> {
    let sum = 0;
    for (let number = oldest; number <= last; number++) sum += (await stat(this.#pathOf(number))).size;
    return sum;
  }

  /** Returns the segment after the cut as it was at that moment: empty. */
  async #headOf(number: number): Promise<Uint8Array> {
    const head = new Uint8Array(NEXT_BYTES);
    const file = await open(this.#pathOf(number), "r");
    try {
      await readWhole(file, head.subarray(0, HEADER_BYTES), 0);
    } finally {
      await file.close();
    }
    return head;
  }

  async *#segment(number: number, atMs: number, pace: Pace): AsyncGenerator<Uint8Array, number> {
    const file = await open(this.#pathOf(number), "r");
    try {
      const bytes = (await file.stat()).size;
      yield segmentHead(number, bytes, atMs);
      let checksum = 0;
      for (let at = 0; at < bytes; at += PIECE_BYTES) {
        this.#check();
        const piece = this.#piece.subarray(0, Math.min(PIECE_BYTES, bytes - at));
        await readWhole(file, piece, at);
        checksum = crc32(piece, checksum);
        yield piece;
        await pace.wait(piece.length);
      }
      yield paddingOf(bytes);
      return checksum;
    } finally {
      await file.close();
    }
  }

  #check(): void {
    if (this.#hasEnded) throw new Error(GONE);
    if (this.#holder.isTakenBack()) throw new Error("the disk is full, and the log needs the space itself");
  }

  #pathOf(number: number): string {
    return join(this.#options.directory, segmentName(number));
  }
}

async function readWhole(file: FileHandle, into: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < into.length; ) {
    const { bytesRead } = await file.read(into, done, into.length - done, position + done);
    if (bytesRead === 0) throw new Error("a segment has become shorter");
    done += bytesRead;
  }
}

/** Spreads bytes over time. */
class Pace {
  readonly #bytesPerSecond: number;
  readonly #nowMs: () => number;
  #freeAtMs = 0;

  constructor(bytesPerSecond: number, nowMs: () => number) {
    this.#bytesPerSecond = bytesPerSecond;
    this.#nowMs = nowMs;
  }

  async wait(bytes: number): Promise<void> {
    const nowMs = this.#nowMs();
    // A slow reader may not catch up at once.
    this.#freeAtMs = Math.max(this.#freeAtMs, nowMs) + (bytes / this.#bytesPerSecond) * 1000;
    const waitMs = this.#freeAtMs - nowMs;
    if (waitMs >= 1) await sleep(waitMs);
  }
}
