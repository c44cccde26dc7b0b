// Extended attributes of a job as a tag-length-value list. The log stores them all in this form,
// and the engine keeps the immutable ones in it.
//
//   0  u8  tag; 0 ends and pads the list
//   1  u8  length of the value
//   2  the value, little endian
//
// Times are wall-clock ms. The shard turns the options of a put (options.ts) into attributes,
// because it knows the time.

import { latin1, type Memory } from "../base/bytes.ts";

export const Attribute = {
  /** 1 to 200 bytes. */
  UniqueKey: 1,
  /** No value. The key ends with the first reservation instead of with the job. */
  UntilReserve: 2,
  /** f64. The earliest time at which the key may be put again. */
  UniqueUntil: 3,
  /** 1 to 200 bytes. */
  Group: 5,
  /** u16, 1 to 1000. */
  Weight: 6,
  /** `<name>:<value>`, up to 200 bytes. A job may have several. */
  Meta: 7,
  /**
   * f64. For a unique key that stays in a tube which its job has left: the id of the job. The
   * record has an id of its own.
   */
  KeyJob: 8,
  /** u16, 1 to 1000. Records of older servers lack it: the job costs 1 then. */
  Cost: 9,
  // Of a schedule (message/schedule-record.ts).
  /** 1 to 128 bytes. */
  ScheduleName: 13,
  /** A ScheduleRule: what its jobs get. */
  ScheduleRule: 14,
  /** The cron expression, a zero byte, and the time zone. */
  ScheduleCron: 15,
  // The attributes from here on are mutable: every UPDATE contains all of them.
  /** f64. The time at which the job expires. */
  ExpiresAt: 16,
  /** u32. Number of reservations that do not count as attempts. */
  AttemptsBase: 18,
  /** The tube in which the job died. */
  Origin: 19,
  /** u8. A DeathReason. */
  Reason: 20,
  /**
   * No value. The job is not in the tube that its PUT names, so each UPDATE has to name the tube.
   */
  Moved: 21,
  /** No value. The job is dead, and moving to the dead-letter tube of its tube. */
  Leaving: 22,
  /** u8. A KeyState: the state of the job's unique key. Records of older servers lack it. */
  Key: 23,
  /**
   * The next bytes of the failures (job-failure.ts): they may take several attributes. Records of
   * older servers lack it.
   */
  Failures: 24,
  /**
   * f64, u8. The number of the batch of which the job is a member, and BatchMarks.
   */
  Batch: 25,
  /** f64, u8. The number of the batch that the job waits for, and 1 for any outcome. */
  After: 26,
  // Of 27 and others, u32: the rare counters of a job (schema/job.ts).
  /**
   * f64. The next tick that a schedule had before the wall clock went back. Records of older
   * servers lack it.
   */
  ScheduleHeld: 30,
  /** The progress of a schedule (message/schedule-record.ts). */
  ScheduleProgress: 31,
  /**
   * 0 to 200 bytes: why the job was cancelled while a client held it. It ends with that
   * reservation, so none comes back after a restart.
   */
  Cancelled: 32,
  /**
   * u8, and up to 200 bytes: the progress and the note of the job's worker. Only in transfers
   * between shards: the log lacks it.
   */
  Said: 33,
} as const;
export type Attribute = (typeof Attribute)[keyof typeof Attribute];

/** What became of a member of a batch, as bits. */
export const BatchMark = {
  /** It has died, so its membership has ended. */
  Ended: 1,
  /** It outlives the cancellation of its batch. Records of older servers lack this. */
  Spared: 2,
} as const;

/** The state of the unique key that a job was put with. */
export const KeyState = {
  /** The job moved, or died, and has no key, or one whose own record states that. */
  Lost: 0,
  /** The job holds the key until the job ends. A record of the key may state a time. */
  Held: 1,
  /** The job holds the key, which is remembered until UniqueUntil. */
  HeldFor: 2,
  /** A reservation or death ended the hold; the key is remembered until UniqueUntil. */
  Remembered: 3,
} as const;
export type KeyState = (typeof KeyState)[keyof typeof KeyState];

/** The reason why a job died. */
export const DeathReason = { None: 0, Attempts: 1, Expired: 2 } as const;
export type DeathReason = (typeof DeathReason)[keyof typeof DeathReason];

/**
 * The first mutable tag. Each UPDATE contains the attributes from this tag on; only the PUT
 * contains those before.
 */
export const FIRST_MUTABLE_ATTRIBUTE: number = Attribute.ExpiresAt;
/**
 * Maximum bytes of the immutable attributes of a job, and of a short list in a record, which stores
 * its size in units of four bytes.
 */
export const ATTRIBUTE_BYTES_MAX = 1020;
/**
 * Maximum bytes of all attributes of a job. A record stores sizes above ATTRIBUTE_BYTES_MAX in
 * larger units.
 */
export const ALL_ATTRIBUTE_BYTES_MAX = 7296;
/** The units of the size of a short list, and of one above ATTRIBUTE_BYTES_MAX. */
export const ATTRIBUTE_UNIT = 4;
export const LONG_ATTRIBUTE_UNIT = 32;

/**
 * Returns where the value of an attribute begins in `bytes[start, end)`, or -1. The byte before it
 * is its length.
 */
export function findAttribute(bytes: Uint8Array, start: number, end: number, tag: number): number {
  let at = start;
  while (at + 2 <= end) {
    const found = bytes[at]!;
    const next = at + 2 + bytes[at + 1]!;
    if (found === 0 || next > end) return -1;
    if (found === tag) return at + 2;
    at = next;
  }
  return -1;
}

/** Returns the value of a u16 in `bytes[0, end)`; 1, the default of all of them, without it. */
export function wholeAttribute(bytes: Uint8Array, end: number, tag: number): number {
  const at = findAttribute(bytes, 0, end, tag);
  return at < 0 ? 1 : bytes[at]! | (bytes[at + 1]! << 8);
}

/** Returns the pairs of `meta` in a list of attributes, Latin-1. */
export function metaOf(fixed: Uint8Array): string[] {
  const pairs: string[] = [];
  for (let at = 0; at + 2 <= fixed.length; at += 2 + fixed[at + 1]!)
    if (fixed[at] === Attribute.Meta) pairs.push(latin1(fixed, at + 2, at + 2 + fixed[at + 1]!));
  return pairs;
}

/** Returns the number of attributes in `bytes[start, end)`. */
export function countAttributes(bytes: Uint8Array, start: number, end: number): number {
  let count = 0;
  for (let at = start; at + 2 <= end && bytes[at] !== 0; at += 2 + bytes[at + 1]!) count++;
  return count;
}

/** Returns whether `bytes[start, end)` is a complete list, padded with zeros only. */
export function attributesAreWhole(bytes: Uint8Array, start: number, end: number): boolean {
  let at = start;
  while (at < end && bytes[at] !== 0) at += 2 + (bytes[at + 1] ?? 0);
  if (at > end) return false;
  for (; at < end; at++) if (bytes[at] !== 0) return false;
  return true;
}

/** Builds an attribute list; `clear` prepares it for the next one. */
export class AttributeWriter {
  readonly #memory: Memory;
  length = 0;

  /** `memory` must hold ATTRIBUTE_BYTES_MAX bytes, with failures ALL_ATTRIBUTE_BYTES_MAX. */
  constructor(memory: Memory) {
    this.#memory = memory;
  }

  get bytes(): Uint8Array {
    return this.#memory.bytes;
  }

  clear(): void {
    this.length = 0;
  }

  flag(tag: Attribute): void {
    this.#head(tag, 0);
  }

  uint8(tag: Attribute, value: number): void {
    this.#memory.bytes[this.#head(tag, 1)] = value;
  }

  uint16(tag: Attribute, value: number): void {
    this.#memory.view.setUint16(this.#head(tag, 2), value, true);
  }

  uint32(tag: number, value: number): void {
    this.#memory.view.setUint32(this.#head(tag, 4), value, true);
  }

  float64(tag: Attribute, value: number): void {
    this.#memory.view.setFloat64(this.#head(tag, 8), value, true);
  }

  /** Appends a number and some bits. */
  flagged(tag: Attribute, value: number, bits: number): void {
    const at = this.#head(tag, 9);
    this.#memory.view.setFloat64(at, value, true);
    this.#memory.bytes[at + 8] = bits;
  }

  /** Appends at most 255 bytes. */
  text(tag: Attribute, source: Uint8Array, start: number, end: number): void {
    const at = this.#head(tag, end - start);
    for (let i = start; i < end; i++) this.#memory.bytes[at + i - start] = source[i]!;
  }

  /** Pads the list with zeros to whole units, as records require; returns its length. */
  pad(): number {
    const unit = this.length > ATTRIBUTE_BYTES_MAX ? LONG_ATTRIBUTE_UNIT : ATTRIBUTE_UNIT;
    while (this.length % unit !== 0) this.#memory.bytes[this.length++] = 0;
    return this.length;
  }

  #head(tag: number, length: number): number {
    const { bytes } = this.#memory;
    bytes[this.length] = tag;
    bytes[this.length + 1] = length;
    this.length += 2 + length;
    return this.length - length;
  }
}
