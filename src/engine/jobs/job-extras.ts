// Properties that few jobs have: attributes, a TTL, a unique key, a death. The first such job of a
// page creates a block of columns for the whole page; other pages pay nothing.

import { assert } from "../../base/assert.ts";
import { EMPTY_BODY } from "./body-arena.ts";
import type { JobFlows } from "./job-flows.ts";

const ROW_BYTES = 8 + 4 * 6 + 2 + 1 + 1;

export class JobExtras {
  /** Expiry time in monotonic ms; 0 for never. */
  readonly expiresAtMs: Float64Array;
  /**
   * The immutable attributes, except times, in the log's form, in the body arena; or EMPTY_BODY.
   */
  readonly attributes: Uint32Array;
  /** The tube in which the job died, in the same arena; or EMPTY_BODY. */
  readonly origin: Uint32Array;
  /** Number of reservations that do not count as attempts. */
  readonly attemptsBase: Uint32Array;
  /** Position in the tube's heap of expiring jobs, or -1. */
  readonly expiryPosition: Int32Array;
  /** Row of the unique key; -1 if the job has none or has lost it. */
  readonly keyRow: Int32Array;
  /** Number of the job's group in its tube; 0 for none. */
  readonly groupRow: Int32Array;
  readonly attributeBytes: Uint16Array;
  readonly originBytes: Uint8Array;
  /** A DeathReason in the low four bits, and flags. */
  readonly flags: Uint8Array;
  /** Columns for batches; created for the first job that needs them (JobTable.makeFlows). */
  flows: JobFlows | undefined = undefined;
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

  /** Returns whether the job, ready or delayed, is due to expire. */
  isOver(row: number, nowMs: number): boolean {
    assert(this.expiryPosition[row]! < 0 || this.expiresAtMs[row]! > 0, "a job that expires has a time");
    return this.expiryPosition[row]! >= 0 && this.expiresAtMs[row]! <= nowMs;
  }

  /** Returns whether the job has died and was not revived. */
  isDead(row: number): boolean {
    return (this.flags[row]! & ExtraFlag.Reason) !== 0;
  }

  /** Returns whether no policy applies to the row. The job may have been moved. */
  isPlain(row: number): boolean {
    return (
      this.expiresAtMs[row] === 0 &&
      this.attributes[row] === EMPTY_BODY &&
      this.attemptsBase[row] === 0 &&
      (this.flags[row]! & ~ExtraFlag.Moved) === 0
    );
  }

  /** Clears the row, whose cells and key the caller has already released. */
  clear(row: number): void {
    assert(this.expiryPosition[row] === -1, "a removed job is not among those that expire");
    assert(this.keyRow[row] === -1, "a removed job has no key");
    assert(this.groupRow[row] === 0, "a removed job has left its group");
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

  /** Returns the memory; the block must not be used again. */
  discard(): void {
    this.#buffer.transfer(0);
  }
}

/** Bits of `flags`, besides the reason. */
export const ExtraFlag = {
  Reason: 0x0f,
  /** The job may not be in the tube that its PUT in the log names. */
  Moved: 0x10,
  /** The key ends with the first reservation. */
  UntilReserve: 0x20,
  /** The job is dead, and has to go to the dead-letter tube of its tube. */
  Leaving: 0x40,
  /** The job was put with a unique key, whether it still has it or not. */
  Keyed: 0x80,
} as const;
