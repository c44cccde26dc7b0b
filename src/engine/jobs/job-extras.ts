// What few jobs have: attributes, a time to live, a unique key, a death. One block of columns for a page of
// jobs, made with the first job of the page that has any of it, so that others cost nothing.

import { EMPTY_BODY } from "./body-arena.ts";

const ROW_BYTES = 8 + 4 * 6 + 2 + 1 + 1;

export class JobExtras {
  /** When the job expires, ms of the monotonic clock; 0: never. */
  readonly expiresAtMs: Float64Array;
  /** Its attributes that never change, as the log has them but for times, in the arena of bodies; or EMPTY_BODY. */
  readonly attributes: Uint32Array;
  /** The tube that it died in, in the same arena; or EMPTY_BODY. */
  readonly origin: Uint32Array;
  /** Reservations that do not count as attempts. */
  readonly attemptsBase: Uint32Array;
  /** Position in its tube's heap of jobs that expire, or -1. */
  readonly expiryPosition: Int32Array;
  /** Row of its unique key, or -1: it has none, or has lost it. */
  readonly keyRow: Int32Array;
  /** Number of its group in its tube; 0: it has none. */
  readonly groupRow: Int32Array;
  readonly attributeBytes: Uint16Array;
  readonly originBytes: Uint8Array;
  /** A DeathReason in the low four bits, and flags. */
  readonly flags: Uint8Array;
  readonly #buffer: ArrayBuffer;

  /** Throws RangeError when memory is exhausted. */
  constructor(rows: number) {
    const buffer = new ArrayBuffer(rows * ROW_BYTES);
    let offset = 0;
    const next = (bytes: number): number => {
      offset += rows * bytes;
      return offset - rows * bytes;
    };
    this.expiresAtMs = new Float64Array(buffer, next(8), rows);
    this.attributes = new Uint32Array(buffer, next(4), rows).fill(EMPTY_BODY);
    this.origin = new Uint32Array(buffer, next(4), rows).fill(EMPTY_BODY);
    this.attemptsBase = new Uint32Array(buffer, next(4), rows);
    this.expiryPosition = new Int32Array(buffer, next(4), rows).fill(-1);
    this.keyRow = new Int32Array(buffer, next(4), rows).fill(-1);
    this.groupRow = new Int32Array(buffer, next(4), rows);
    this.attributeBytes = new Uint16Array(buffer, next(2), rows);
    this.originBytes = new Uint8Array(buffer, next(1), rows);
    this.flags = new Uint8Array(buffer, next(1), rows);
    this.#buffer = buffer;
  }

  /** Whether the job, ready or delayed, is due to expire. */
  isOver(row: number, nowMs: number): boolean {
    return this.expiryPosition[row]! >= 0 && this.expiresAtMs[row]! <= nowMs;
  }

  /** Whether the row has nothing that a policy is about: at most it has moved. */
  isPlain(row: number): boolean {
    return (
      this.expiresAtMs[row] === 0 &&
      this.attributes[row] === EMPTY_BODY &&
      this.attemptsBase[row] === 0 &&
      (this.flags[row]! & ~ExtraFlag.Moved) === 0
    );
  }

  /** Forgets what the row had; its cells and its key are given back by then. */
  clear(row: number): void {
    this.expiresAtMs[row] = 0;
    this.attributes[row] = EMPTY_BODY;
    this.origin[row] = EMPTY_BODY;
    this.attemptsBase[row] = 0;
    this.expiryPosition[row] = -1;
    this.keyRow[row] = -1;
    this.groupRow[row] = 0;
    this.attributeBytes[row] = 0;
    this.originBytes[row] = 0;
    this.flags[row] = 0;
  }

  /** Gives the memory back; the block must not be used again. */
  discard(): void {
    this.#buffer.transfer(0);
  }
}

/** In `flags`, besides the reason. */
export const ExtraFlag = {
  Reason: 0x0f,
  /** It is in another tube than its PUT in the log may say. */
  Moved: 0x10,
  /** Its key ends with its first reservation. */
  UntilReserve: 0x20,
  /** It is dead, and has to go to the dead-letter tube of its tube. */
  Leaving: 0x40,
  /** It was put with a unique key, whether it still has it or not. */
  Keyed: 0x80,
} as const;
