// File beside the log that keeps the histories over a restart. It is a convenience: nothing waits
// for it, a damaged file is ignored, and without one the histories start empty.
//
// Two files take turns, each written in place and without a sync. If a crash interrupts a write,
// the previous file is still complete. Without a rename, the file system doesn't flush data ahead
// of the log's own syncs. A file is: magic, length and CRC-32 of the rest, the time of the save,
// and the packed histories, deflated.

import { constants, readFileSync } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { deserialize, serialize } from "node:v8";
import { crc32, deflateRaw, inflateRawSync } from "node:zlib";
import type { SavedTotals, StatsHistory } from "./stats-history.ts";
import type { SavedTubes, TubeHistory } from "./tube-history.ts";

const MAGIC = 0x31_74_73_68_62_72; // "rbhst1"
const HEADER_BYTES = 24;
/** More than the packed size of all saved histories. */
const UNPACKED_BYTES_MAX = 16 * 1024 * 1024;
const NAMES = ["history.0", "history.1"] as const;
/** Ages and gaps compress well at any level; the first costs least. */
const deflate = promisify(deflateRaw);

export class HistoryFile {
  readonly #paths: readonly string[];
  /** Number of the file that the next save overwrites. */
  #next = 0;
  #saving: Promise<void> | undefined;

  constructor(folder: string) {
    this.#paths = NAMES.map((name) => join(folder, name));
  }

  /** Returns the last saved histories; undefined if there is no intact file. */
  read(): Uint8Array | undefined {
    const found = this.#paths.map(readOne);
    const newest = (found[0]?.savedAtMs ?? 0) >= (found[1]?.savedAtMs ?? 0) ? 0 : 1;
    this.#next = found[newest] === undefined ? 0 : 1 - newest;
    return found[newest]?.bytes;
  }

  /** Saves the result of `pack`, unless the previous save is still in progress. */
  save(pack: () => Uint8Array, atMs: number): Promise<void> {
    this.#saving ??= this.#save(pack(), atMs).finally(() => {
      this.#saving = undefined;
    });
    return this.#saving;
  }

  async #save(packed: Uint8Array, atMs: number): Promise<void> {
    if (packed.length > UNPACKED_BYTES_MAX) throw new RangeError("the histories are too long to be saved");
    const body = await deflate(packed, { level: 1 });
    const path = this.#paths[this.#next]!;
    const header = Buffer.alloc(HEADER_BYTES);
    header.writeUIntLE(MAGIC, 0, 6);
    header.writeUInt32LE(body.length, 8);
    header.writeUInt32LE(crc32(body), 12);
    header.writeDoubleLE(atMs, 16);
    const file = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600);
    try {
      await giveToOwner(file, path);
      await file.writev([header, body], 0);
    } finally {
      await file.close();
    }
    this.#next = 1 - this.#next;
  }
}

/** A file that root creates belongs to the owner of the folder. */
async function giveToOwner(file: FileHandle, path: string): Promise<void> {
  if (process.geteuid?.() !== 0 || (await file.stat()).size > 0) return;
  const { uid, gid } = await stat(dirname(path));
  await file.chown(uid, gid);
}

interface SavedFile {
  readonly savedAtMs: number;
  readonly bytes: Uint8Array;
}

function readOne(path: string): SavedFile | undefined {
  try {
    const file = readFileSync(path);
    if (file.length < HEADER_BYTES || file.readUIntLE(0, 6) !== MAGIC) return undefined;
    const body = file.subarray(HEADER_BYTES, HEADER_BYTES + file.readUInt32LE(8));
    if (crc32(body) !== file.readUInt32LE(12)) return undefined;
    const bytes = inflateRawSync(body, { maxOutputLength: UNPACKED_BYTES_MAX });
    return { savedAtMs: file.readDoubleLE(16), bytes };
  } catch {
    // Missing, unreadable or damaged: the histories start empty.
    return undefined;
  }
}

// Saves the histories of the totals and of the busiest tubes, and restores them after a restart.

/** Interval of saves, ms: a crash loses at most this much. */
export const SAVE_EACH_MS = 60_000;
/** Version of the saved data; others are ignored. */
const VERSION = 2;

interface SavedSeries {
  readonly version: number;
  readonly totals: SavedTotals;
  readonly tubes: SavedTubes;
}

export class SavedHistories {
  readonly #file: HistoryFile;
  readonly #totals: StatsHistory;
  readonly #tubes: TubeHistory;
  readonly #wallMs: () => number;
  /**
   * A server that never served has nothing to save, and would overwrite data that it never read.
   */
  #isRestored = false;

  constructor(folder: string, totals: StatsHistory, tubes: TubeHistory, wallMs: () => number) {
    this.#file = new HistoryFile(folder);
    this.#totals = totals;
    this.#tubes = tubes;
    this.#wallMs = wallMs;
  }

  /** Reads the last saved data, before anything is recorded. */
  restore(): void {
    this.#isRestored = true;
    const bytes = this.#file.read();
    if (bytes === undefined) return;
    const saved: unknown = deserialize(bytes);
    if (!isSaved(saved)) return;
    this.#totals.restore(saved.totals);
    this.#tubes.restore(saved.tubes, this.#wallMs());
  }

  async save(): Promise<void> {
    if (!this.#isRestored) return;
    const pack = (): Uint8Array =>
      serialize({
        version: VERSION,
        totals: this.#totals.saved,
        tubes: this.#tubes.saved,
      } satisfies SavedSeries);
    await this.#file.save(pack, this.#wallMs());
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null;

const areNumbers = (value: unknown): boolean =>
  Array.isArray(value) && value.every((each) => typeof each === "number");

const areRows = (value: unknown): boolean => value instanceof Float64Array;

const isTube = (value: unknown): boolean =>
  isObject(value) &&
  typeof value["name"] === "string" &&
  Number.isInteger(value["from"]) &&
  value["values"] instanceof Float32Array;

function isSaved(value: unknown): value is SavedSeries {
  if (!isObject(value) || value["version"] !== VERSION) return false;
  const { totals, tubes } = value;
  if (!isObject(totals) || !areRows(totals["bySecond"]) || !areRows(totals["byMinute"])) return false;
  if (!isObject(tubes) || !areNumbers(tubes["atMs"])) return false;
  return Array.isArray(tubes["tubes"]) && tubes["tubes"].every(isTube);
}
