// Checks the raw bytes of a MessagePack request: only values that JSON can express are allowed, and
// bytes as the body of a job. So parsing loses nothing, and no value costs more memory than its
// bytes justify: whatever lists the fields of an object would make millions of texts of bytes.

import { isUtf8 } from "node:buffer";
import { latin1 } from "../../../base/bytes.ts";
import { Problem } from "../problem.ts";
import { sizeAt } from "./request-size.ts";

/** No request has a schema deeper than this. */
const DEPTH_MAX = 32;
/** High word of the first integer that a double can't hold exactly. */
const UNSAFE_HIGH_WORD = 2 ** 21;
/** Keys with a special meaning in JavaScript objects. */
const FORBIDDEN: ReadonlySet<string> = new Set(["__proto__", "constructor"]);

const Head = { Never: 0xc1, Float32: 0xca, Float64: 0xcb, Uint64: 0xcf, Int64: 0xd3 } as const;

/** An array or map with values still to come. */
interface Open {
  left: number;
  /** Keys so far, for a map. */
  readonly keys: Set<string> | undefined;
  /** The last key of a map. */
  key: string;
}

const refuse = (detail: string): never => {
  throw new Problem("bad-request", detail);
};

/**
 * Throws a Problem for values that are not allowed. Truncated or malformed input is found later.
 */
export function checkMsgpackShape(bytes: Buffer): void {
  const open: Open[] = [];
  for (let at = 0; at < bytes.length; at += sizeAt(bytes, at)) {
    const parent = open.at(-1);
    if (parent !== undefined) {
      // A map has two values per field; the first is the key.
      if (parent.keys !== undefined && parent.left % 2 === 0) parent.key = checkKey(bytes, at, parent.keys);
      parent.left--;
    }
    const head = bytes[at]!;
    if (isBytes(head) && !isBodyOfJob(open))
      refuse("Bytes can only be the body of a job; send other values as text.");
    const count = countAt(bytes, at, head);
    if (count === undefined) checkPlain(bytes, at, head);
    else open.push(opened(head, count, open.length));
    while (open.length > 0 && open.at(-1)!.left === 0) open.pop();
  }
}

function opened(head: number, count: number, depth: number): Open {
  if (depth > DEPTH_MAX) refuse(`The request is nested more than ${DEPTH_MAX} deep.`);
  const isMap = head < 0x90 || head >= 0xde;
  return isMap ? { left: 2 * count, keys: new Set(), key: "" } : { left: count, keys: undefined, key: "" };
}

/** Returns whether the value inside of `open` is the body of the only job or of one in "jobs". */
function isBodyOfJob(open: readonly Open[]): boolean {
  const isOfJob = open.length === 1 || (open.length === 3 && open[0]!.key === "jobs");
  return isOfJob && open.at(-1)!.key === "body";
}

/**
 * Returns the number of fields or values of the map or array at `at`; undefined for other values.
 */
function countAt(bytes: Buffer, at: number, head: number): number | undefined {
  if (head >= 0x80 && head < 0xa0) return head & 0x0f;
  if (head < 0xdc || head > 0xdf) return undefined;
  const lengthBytes = head % 2 === 0 ? 2 : 4;
  return at + lengthBytes < bytes.length ? bytes.readUIntBE(at + 1, lengthBytes) : 0;
}

function checkPlain(bytes: Buffer, at: number, head: number): void {
  if (isExtension(head)) refuse("MessagePack extension types are not supported.");
  // The library would make an object of it.
  if (head === Head.Never) refuse("The MessagePack is broken: it has the byte 0xc1, which never occurs.");
  if (at + sizeAt(bytes, at) > bytes.length) return;
  if (isText(head)) textAt(bytes, at);
  else if (head === Head.Float32) checkFinite(bytes.readFloatBE(at + 1));
  else if (head === Head.Float64) checkFinite(bytes.readDoubleBE(at + 1));
  else if (head === Head.Uint64) checkHighWord(bytes.readUInt32BE(at + 1));
  else if (head === Head.Int64) checkHighWord(bytes.readInt32BE(at + 1));
}

const isExtension = (head: number): boolean =>
  (head >= 0xc7 && head <= 0xc9) || (head >= 0xd4 && head <= 0xd8);

function checkFinite(value: number): void {
  if (!Number.isFinite(value)) refuse(`${value} is not a finite number.`);
}

function checkHighWord(word: number): void {
  if (word >= UNSAFE_HIGH_WORD || word < -UNSAFE_HIGH_WORD)
    refuse("An integer in a MessagePack request must be between -2^53 and 2^53 - 1; send it as text.");
}

/** Returns the key; "" if it is truncated. */
function checkKey(bytes: Buffer, at: number, keys: Set<string>): string {
  if (!isText(bytes[at]!)) refuse("Keys of a MessagePack map must be strings.");
  if (at + sizeAt(bytes, at) > bytes.length) return "";
  const key = textAt(bytes, at);
  if (FORBIDDEN.has(key)) refuse(`A field can't be ${key}.`);
  if (keys.has(key)) refuse(`The field ${key} appears twice.`);
  keys.add(key);
  return key;
}

const isBytes = (head: number): boolean => head >= 0xc4 && head <= 0xc6;

const isText = (head: number): boolean => (head >= 0xa0 && head < 0xc0) || (head >= 0xd9 && head <= 0xdb);

/** Returns the bytes of a string, one character per byte. */
function textAt(bytes: Buffer, at: number): string {
  const head = bytes[at]!;
  const headBytes = head < 0xc0 ? 1 : 1 + 2 ** (head - 0xd9);
  const [start, end] = [at + headBytes, at + sizeAt(bytes, at)];
  if (!isUtf8(bytes.subarray(start, end)))
    refuse("A MessagePack string is not valid UTF-8; send it as bytes.");
  return latin1(bytes, start, end);
}
