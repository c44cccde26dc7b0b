// Self-checking messages: length and every byte follow from the number.

import {
  FULL,
  type MessageSource,
  messageBytesMax,
  RING_BYTES_MIN,
  type RingWriter,
} from "../../src/ring/ring.ts";

const HEADER_BYTES = 8;

/** From the bare header to the largest that the smallest ring takes. */
export function lengthOf(number: number): number {
  const mixed = Math.imul(number, 0x9e3779b1) >>> 0;
  return HEADER_BYTES + (mixed % (messageBytesMax(RING_BYTES_MIN) - HEADER_BYTES + 1));
}

const byteAt = (number: number, at: number): number => (number * 31 + at) & 0xff;

/** Claims and fills message `number`; false if the ring is full. */
export function writeMessage(writer: RingWriter, number: number): boolean {
  const length = lengthOf(number);
  const offset = writer.claim(length);
  if (offset === FULL) return false;
  writer.int32[(offset >> 2) + 1] = number;
  for (let at = HEADER_BYTES; at < length; at++) writer.bytes[offset + at] = byteAt(number, at);
  return true;
}

/** Returns what is wrong with the message at `offset`, which should be `number`, or undefined. */
export function faultOf(source: MessageSource, offset: number, number: number): string | undefined {
  const found = source.int32[(offset >> 2) + 1];
  if (found !== number) return `number ${found} instead of ${number} at ${offset}`;
  const length = lengthOf(number);
  const stated = source.int32[offset >> 2];
  if (stated !== ((length + 7) & ~7))
    return `message ${number} at ${offset}: length ${stated}, not ${length}`;
  for (let at = HEADER_BYTES; at < length; at++) {
    if (source.bytes[offset + at] !== byteAt(number, at))
      return `message ${number} at ${offset}: byte ${at} of ${length} is ${source.bytes[offset + at]}`;
  }
  return undefined;
}
