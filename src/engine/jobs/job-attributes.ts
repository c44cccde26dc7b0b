// The attributes of one job on its way into an engine: what its put says, or the log. One object is used for
// one job after the other.

import { Memory } from "../../base/memory.ts";
import {
  ATTRIBUTE_BYTES_MAX,
  Attribute,
  AttributeWriter,
  DeathReason,
  FIRST_MUTABLE_ATTRIBUTE,
} from "../../protocol/job-attribute.ts";

const NO_BYTES = new Uint8Array(0);

/** Times are ms of the monotonic clock, 0 for never. */
export class JobAttributes {
  /** Those that never change, without times, as the log has them. */
  readonly fixed: AttributeWriter = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
  /** Where in `fixed` the unique key is; no bytes: it has none. */
  keyStart = 0;
  keyEnd = 0;
  untilReserve = false;
  /** Until when its key may not be put again, even if it is gone. */
  uniqueUntilMs = 0;
  expiresAtMs = 0;
  attemptsBase = 0;
  /** The tube that it died in, or none. */
  origin: Uint8Array = NO_BYTES;
  reason: number = DeathReason.None;
  moved = false;
  leaving = false;
  /** A KeyState; undefined if the log doesn't say what has become of its key. */
  keyState: number | undefined;

  clear(): this {
    this.fixed.clear();
    this.keyStart = this.keyEnd = 0;
    this.untilReserve = false;
    this.uniqueUntilMs = 0;
    this.expiresAtMs = 0;
    this.attemptsBase = 0;
    this.origin = NO_BYTES;
    this.reason = DeathReason.None;
    this.moved = false;
    this.leaving = false;
    this.keyState = undefined;
    return this;
  }

  /** At most 200 bytes. */
  setKey(bytes: Uint8Array, start: number, end: number, untilReserve: boolean): void {
    this.fixed.text(Attribute.UniqueKey, bytes, start, end);
    this.keyEnd = this.fixed.length;
    this.keyStart = this.keyEnd - (end - start);
    this.untilReserve = untilReserve;
    if (untilReserve) this.fixed.flag(Attribute.UntilReserve);
  }

  /** Fills it from a list in the log; `wallOffsetMs` is wall clock minus monotonic clock. */
  read(bytes: Uint8Array, start: number, end: number, wallOffsetMs: number): this {
    this.clear();
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    for (let at = start; at + 2 <= end && bytes[at] !== 0; at += 2 + bytes[at + 1]!)
      this.#take(bytes, view, at, wallOffsetMs);
    return this;
  }

  #take(bytes: Uint8Array, view: DataView, at: number, wallOffsetMs: number): void {
    const tag = bytes[at]!;
    const valueAt = at + 2;
    const end = valueAt + bytes[at + 1]!;
    switch (tag) {
      case Attribute.UniqueKey:
        this.setKey(bytes, valueAt, end, false);
        break;
      case Attribute.UntilReserve:
        this.untilReserve = true;
        this.fixed.flag(Attribute.UntilReserve);
        break;
      case Attribute.UniqueUntil:
        this.uniqueUntilMs = sinceStart(view.getFloat64(valueAt, true), wallOffsetMs);
        break;
      case Attribute.ExpiresAt:
        this.expiresAtMs = sinceStart(view.getFloat64(valueAt, true), wallOffsetMs);
        break;
      case Attribute.AttemptsBase:
        this.attemptsBase = view.getUint32(valueAt, true);
        break;
      case Attribute.Origin:
        this.origin = bytes.slice(valueAt, end);
        break;
      case Attribute.Reason:
        this.reason = bytes[valueAt]!;
        break;
      case Attribute.Moved:
        this.moved = true;
        break;
      case Attribute.Leaving:
        this.leaving = true;
        break;
      case Attribute.Key:
        this.keyState = bytes[valueAt]!;
        break;
      default:
        // What a later version adds is kept, as long as it does not change.
        if (tag < FIRST_MUTABLE_ATTRIBUTE) this.fixed.text(tag as Attribute, bytes, valueAt, end);
    }
  }
}

/**
 * A time of the log by the monotonic clock. One before that clock began is over, and must not read
 * as "never", which is 0: the job's next record would lose it.
 */
function sinceStart(atMs: number, wallOffsetMs: number): number {
  return atMs === 0 ? 0 : Math.max(Number.MIN_VALUE, atMs - wallOffsetMs);
}
