// What is fuzzed: each target takes any bytes, and throws when its promise is broken.

import assert from "node:assert/strict";
import { latin1, Memory } from "../../../src/base/bytes.ts";
import { scanSegment } from "../../../src/binlog/recovery/segment-scan.ts";
import {
  encodeHeader,
  FRAME_BYTES,
  HEADER_BYTES,
  sealFrame,
} from "../../../src/binlog/segments/segment-format.ts";
import { decodeCursor, encodeCursor } from "../../../src/http/api/parameters.ts";
import { Problem } from "../../../src/http/api/problem.ts";
import { parseMsgpack } from "../../../src/http/app/request-bodies.ts";
import {
  encodeLogBatchHeader,
  LINK_RECORD_KIND,
  LOG_BATCH_HEADER_BYTES,
  LOG_BATCH_VERSION,
  logBatchesOf,
  sealLogBatch,
} from "../../../src/message/log-batch.ts";
import { CommandParser, Syntax } from "../../../src/protocol/command-parser.ts";

export interface Target {
  readonly name: string;
  /** Words that mean something to it. */
  readonly dictionary: readonly string[];
  /** The first inputs. */
  readonly seeds: readonly string[];
  readonly play: (input: Uint8Array) => void;
}

const bytesOf = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(Buffer.from(text, "latin1"));
export const inputOf = bytesOf;

// --- parser ----------------------------------------------------------------------------------------

const JOB_BYTES_MAX = 65535;
/** Text around the line, which must make no difference. */
const SURROUNDINGS = [
  ["", ""],
  ["put 1 ", "7 quit\r\n"],
] as const;
const NUL = 0;

/** A line is parsed alike wherever it lies, by a parser that has parsed others before. */
function parseLine(line: Uint8Array): void {
  // The line reader lets no NUL through.
  if (line.includes(NUL)) return;
  const text = latin1(line, 0, line.length);
  const results = SURROUNDINGS.map(([before, after]) => {
    const parser = new CommandParser(JOB_BYTES_MAX);
    const bytes = bytesOf(`${before}${text}${after}`);
    const first = described(parser, bytes, before.length, before.length + line.length);
    const other = bytesOf("reserve-batch 7");
    parser.parse(other, 0, other.length);
    const second = described(parser, bytes, before.length, before.length + line.length);
    assert.deepEqual(second, first, "a parser forgets the line before");
    return first;
  });
  assert.deepEqual(results[1], results[0], "a parser looks at nothing around the line");
}

function described(parser: CommandParser, bytes: Uint8Array, start: number, end: number): unknown {
  const syntax = parser.parse(bytes, start, end);
  const { request } = parser;
  assert.ok(Object.values(Syntax).includes(syntax), `syntax ${syntax}`);
  if (syntax !== Syntax.Ok) return { syntax, op: request.op };
  const { op, id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes, timeoutMs, count } = request;
  const numbers = [id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes, timeoutMs, count];
  for (const number of numbers) assert.ok(number >= 0, `${numbers}: none is negative, or no number`);
  const texts = [request.tube.text, request.options.text, request.body.text];
  return { syntax, op, numbers, texts };
}

// --- log -------------------------------------------------------------------------------------------

const SALT = 77;
const NUMBER = 3;

/**
 * A segment of frames whose lengths and records are the input's, with checksums that hold: damage
 * that a checksum finds would hide the reader behind it.
 */
function segmentOf(input: Uint8Array): Uint8Array {
  const frames: number[][] = [];
  for (let at = 0; at < input.length; ) {
    const length = 1 + (input[at]! % 96);
    frames.push([at + 1, Math.min(input.length, at + 1 + length)]);
    at += 1 + length;
  }
  const bytes = new Uint8Array(HEADER_BYTES + frames.length * FRAME_BYTES + input.length + 256);
  bytes.set(encodeHeader({ number: NUMBER, createdAtMs: 1, maxId: 9, oldest: 1, salt: SALT }));
  const memory = new Memory(bytes);
  let end = HEADER_BYTES;
  for (const [index, [from, to]] of frames.entries()) {
    const record = input.subarray(from, to);
    if (record.length === 0) break;
    bytes.set(record, end + FRAME_BYTES);
    sealFrame(memory, end, record.length, SALT, index + 1, index);
    end += FRAME_BYTES + record.length;
  }
  return bytes;
}

function scan(bytes: Uint8Array): void {
  for (const keepBeyond of [false, true]) {
    const found = scanSegment(bytes, NUMBER, keepBeyond);
    assert.ok(found.at >= 0 && found.at <= bytes.length, `records end at ${found.at} of ${bytes.length}`);
    assert.ok(found.lastSequence <= found.highestSequence, "the last record is none beyond the highest");
    for (const { at, endsAt } of found.batches)
      assert.ok(
        at >= HEADER_BYTES && at < endsAt && endsAt <= bytes.length,
        `a batch from ${at} to ${endsAt}`,
      );
    assert.deepEqual(scanSegment(bytes, NUMBER, keepBeyond), found, "a second scan finds the same");
  }
}

/** Messages of a group's shared log, with checksums that hold. */
function readBatches(input: Uint8Array): void {
  logBatchesOf(input.slice());
  const bytes = new Uint8Array(Math.max(LOG_BATCH_HEADER_BYTES, input.length));
  bytes.set(input);
  bytes[0] = LINK_RECORD_KIND;
  bytes[1] = LOG_BATCH_VERSION;
  const memory = new Memory(bytes);
  memory.view.setUint32(60, bytes.length - LOG_BATCH_HEADER_BYTES, true);
  sealLogBatch(memory, 0);
  const [batch, ...rest] = logBatchesOf(bytes) ?? assert.fail("a sealed batch is valid");
  assert.equal(rest.length, 0);
  const again = new Memory(bytes.slice());
  encodeLogBatchHeader(again, 0, batch!.header);
  const read = new Memory(again.bytes.slice());
  sealLogBatch(read, 0);
  assert.deepEqual(logBatchesOf(read.bytes)?.[0]?.header, batch!.header, "a header survives its encoding");
}

// --- HTTP ------------------------------------------------------------------------------------------

/** A request is refused as a problem, or is something that JSON can say. */
function readMsgpack(input: Uint8Array): void {
  let value: unknown;
  try {
    value = parseMsgpack(Buffer.from(input));
  } catch (error) {
    if (error instanceof Problem) return;
    throw error;
  }
  assertPlain(value, 0);
}

function assertPlain(value: unknown, depth: number): void {
  assert.ok(depth <= 40, "a request is not deep");
  if (value === null || ["string", "boolean", "undefined"].includes(typeof value)) return;
  if (typeof value === "number") {
    assert.ok(Number.isFinite(value), `${value} is a number of JSON`);
    return;
  }
  if (value instanceof Uint8Array) return;
  assert.equal(typeof value, "object", `a value of type ${typeof value}`);
  const prototype = Object.getPrototypeOf(value);
  assert.ok(Array.isArray(value) || prototype === Object.prototype || prototype === null, "a plain object");
  for (const each of Object.values(value as object)) assertPlain(each, depth + 1);
}

function readCursor(input: Uint8Array): void {
  const text = latin1(input, 0, input.length);
  for (const types of [["string", "number"], ["number"], ["string"]] as const) {
    let values: (string | number)[];
    try {
      values = decodeCursor(text, types);
    } catch (error) {
      if (error instanceof Problem) continue;
      throw error;
    }
    assert.deepEqual(decodeCursor(encodeCursor(values), types), values, "a cursor survives its encoding");
  }
}

const le = (...words: number[]): string => words.map((word) => String.fromCharCode(word)).join("");

export const TARGETS: readonly Target[] = [
  {
    name: "parser",
    dictionary: [
      ..."0123456789 =-_*",
      "put ",
      "reserve-batch ",
      "put-in-tube ",
      "4294967295",
      "tubes=yes",
      "ttl=",
      "unique=",
      "group=",
      "weight=",
      "cost=",
      "delay=",
      "limit=",
      "state=ready",
      "contains=",
    ],
    seeds: [
      "put 0 0 1 5",
      "reserve-with-timeout 3",
      "list-jobs default state=ready limit=3",
      "put-in-tube a 1 0 2 3 ttl=5 group=x",
    ],
    play: parseLine,
  },
  {
    name: "segment",
    dictionary: [
      le(1),
      le(2),
      le(3),
      le(4),
      le(5),
      le(16),
      le(17),
      le(18),
      le(19),
      le(20),
      le(0, 0, 0, 0),
      le(255, 255, 255, 255),
    ],
    seeds: [
      le(20, 16, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
      le(80, 1).padEnd(82, "\0"),
      le(16, 3).padEnd(18, "\0"),
    ],
    play: (input) => {
      scan(segmentOf(input));
    },
  },
  {
    name: "damaged-segment",
    dictionary: ["RBEANLOG", le(0, 0, 0, 0), le(1, 0, 0, 0)],
    seeds: [latin1(segmentOf(bytesOf(le(20, 16).padEnd(40, "\x01"))), 0, 120)],
    play: scan,
  },
  {
    name: "batch",
    dictionary: [le(20, 1), le(0, 0, 0, 0)],
    seeds: [le(20, 1).padEnd(90, "\0")],
    play: readBatches,
  },
  {
    name: "msgpack",
    dictionary: [
      le(0x80),
      le(0x90),
      le(0xa0),
      le(0xc0),
      le(0xc4, 1, 7),
      le(0xca),
      le(0xcb),
      le(0xcf),
      le(0xd3),
      le(0xdc, 0, 1),
      le(0xde, 0, 1),
      le(0xdf, 0, 0, 0, 1),
      "\xa1a",
      "\xa9__proto__",
    ],
    seeds: ["\x81\xa3pri\x05", "\x82\xa4body\xc4\x02ab\xa3ttr\xcd\x01\x00", "\x93\x01\xa1a\xc3"],
    play: readMsgpack,
  },
  {
    name: "cursor",
    dictionary: ["W", "WyJhIiwxXQ", "MV0", "ey", "==", "-", "_"],
    seeds: [encodeCursor(["a", 1]), encodeCursor([7]), encodeCursor(["b"])],
    play: readCursor,
  },
];
