// The format of a backup: a tar archive of the log's segments up to a cut.
//
//     backup.json                  a description of the rest
//     runnerbean.<last+1>.log      the segment after the cut: its header and zeros
//     runnerbean.<oldest>.log ...  the segments of the cut, oldest first
//     end.json                     their checksums: without it, the archive was cut off
//
// The segment after the cut comes first: a half-restored directory thus lacks a segment, and no
// server starts on it.

import { assert } from "./assert.ts";
import { segmentName } from "./text.ts";

const BLOCK_BYTES = 512;
const FORMAT = 1;
/** The length of the segment after the cut. */
export const NEXT_BYTES = 4096;
const BEGIN_NAME = "backup.json";
const END_NAME = "end.json";
/** Maximum length of the text files. Ten thousand checksums take 110 kB. */
const TEXT_BYTES_MAX = 64 << 20;
const SEGMENT_BYTES_MAX = 2 ** 32;
/** The beginning of the output of `binlog dump`. */
const DUMP_BEGIN = '{"runnerbeanDump":';

interface BackupBegin {
  /** Version of the server that wrote it. */
  readonly version: string;
  readonly createdAtMs: number;
  /** The segments of the cut; none if `last` is below `oldest`. */
  readonly oldest: number;
  readonly last: number;
  /** Bytes of all segments, including the one after the cut. */
  readonly bytes: number;
}

/** Thrown if an archive isn't a complete backup. */
export class BackupFault extends Error {}

// Fields of a tar header (POSIX ustar): offset, length.
const NAME = [0, 100] as const;
const MODE = [100, 8] as const;
const SIZE = [124, 12] as const;
const MTIME = [136, 12] as const;
const CHECKSUM = [148, 8] as const;
const TYPE_AT = 156;
const MAGIC_AT = 257;
const REGULAR = 0x30;

type Field = readonly [at: number, bytes: number];

function putOctal(header: Uint8Array, [at, bytes]: Field, value: number): void {
  const digits = value.toString(8).padStart(bytes - 1, "0");
  assert(digits.length === bytes - 1, "a number fits into its field");
  putText(header, at, digits);
}

function putText(header: Uint8Array, at: number, text: string): void {
  for (let i = 0; i < text.length; i++) header[at + i] = text.charCodeAt(i);
}

function checksumOf(header: Uint8Array): number {
  let sum = 0;
  const [from, bytes] = CHECKSUM;
  for (let i = 0; i < BLOCK_BYTES; i++) sum += i >= from && i < from + bytes ? 0x20 : header[i]!;
  return sum;
}

function encodeHeader(name: string, bytes: number, atMs: number): Uint8Array {
  const header = new Uint8Array(BLOCK_BYTES);
  putText(header, NAME[0], name);
  putOctal(header, MODE, 0o600);
  putOctal(header, [108, 8], 0);
  putOctal(header, [116, 8], 0);
  putOctal(header, SIZE, bytes);
  putOctal(header, MTIME, Math.floor(atMs / 1000));
  header[TYPE_AT] = REGULAR;
  putText(header, MAGIC_AT, "ustar\u000000");
  putText(header, CHECKSUM[0], checksumOf(header).toString(8).padStart(6, "0"));
  header[CHECKSUM[0] + 7] = 0x20;
  return header;
}

/** Returns the zeros after a file of this length. */
export function paddingOf(bytes: number): Uint8Array {
  return new Uint8Array((BLOCK_BYTES - (bytes % BLOCK_BYTES)) % BLOCK_BYTES);
}

export function segmentHead(number: number, bytes: number, atMs: number): Uint8Array {
  return encodeHeader(segmentName(number), bytes, atMs);
}

function textFile(name: string, value: unknown, atMs: number): Uint8Array[] {
  const text = new TextEncoder().encode(`${JSON.stringify(value)}\n`);
  return [encodeHeader(name, text.length, atMs), text, paddingOf(text.length)];
}

export function backupHead(begin: BackupBegin): Uint8Array[] {
  return textFile(BEGIN_NAME, { runnerbeanBackup: FORMAT, ...begin }, begin.createdAtMs);
}

/** Returns the end of an archive. `checksums` are the CRC-32 of its segments in their order. */
export function backupEnd(checksums: readonly number[], atMs: number): Uint8Array[] {
  return [...textFile(END_NAME, { checksums }, atMs), new Uint8Array(2 * BLOCK_BYTES)];
}

/** The parts that a reader finds, in the order of the archive. */
export type BackupPart =
  | { readonly part: "begin"; readonly begin: BackupBegin }
  | { readonly part: "segment"; readonly number: number; readonly bytes: number }
  /** Some bytes of the segment, valid during the step. */
  | { readonly part: "bytes"; readonly bytes: Uint8Array }
  /** The segment has all its bytes. */
  | { readonly part: "complete" }
  /** The checksums are right, and nothing is missing. */
  | { readonly part: "end" };

/** Continues a CRC-32 with more bytes, as node:zlib's function does. */
type Crc32 = (bytes: Uint8Array, before: number) => number;

/** Reads an archive piece by piece, and checks it. */
export class BackupReader {
  readonly #crc32: Crc32;
  /** Bytes taken so far. */
  taken = 0;
  #begin: BackupBegin | undefined;
  readonly #header = new Uint8Array(BLOCK_BYTES);
  #headerBytes = 0;
  /** The file being read; "" between two files. */
  #name = "";
  #left = 0;
  #padding = 0;
  #segments = 0;
  #crc = 0;
  readonly #checksums: number[] = [];
  #text: Uint8Array[] = [];
  #ended = false;

  constructor(crc32: Crc32) {
    this.#crc32 = crc32;
  }

  /** Takes the next piece of the archive. Throws a BackupFault. */
  *take(piece: Uint8Array): Generator<BackupPart> {
    let at = 0;
    this.taken += piece.length;
    while (at < piece.length) {
      if (this.#ended) {
        this.#onlyZeros(piece.subarray(at));
        return;
      }
      if (this.#padding > 0) {
        const some = Math.min(this.#padding, piece.length - at);
        this.#padding -= some;
        at += some;
        continue;
      }
      if (this.#name === "") {
        const some = Math.min(BLOCK_BYTES - this.#headerBytes, piece.length - at);
        this.#header.set(piece.subarray(at, at + some), this.#headerBytes);
        this.#headerBytes += some;
        at += some;
        if (this.#headerBytes === BLOCK_BYTES) yield* this.#open();
      } else {
        const some = Math.min(this.#left, piece.length - at);
        const bytes = piece.subarray(at, at + some);
        at += some;
        this.#left -= some;
        yield* this.#bytes(bytes);
      }
    }
  }

  /** Ends the input. Throws a BackupFault if the archive is incomplete. */
  finish(): void {
    if (this.#ended) return;
    if (this.#begin === undefined) throw this.#noBackup();
    const of = this.#begin.bytes;
    throw new BackupFault(`it is truncated: it ends after ${this.taken} bytes, for a log of ${of} bytes`);
  }

  #noBackup(): BackupFault {
    const isDump = textOf(this.#header, NAME).startsWith(DUMP_BEGIN);
    return new BackupFault(
      isDump ? "it is a dump: use runnerbean binlog restore" : "it is not a backup of runnerbean",
    );
  }

  #onlyZeros(bytes: Uint8Array): void {
    if (bytes.some((byte) => byte !== 0)) throw new BackupFault("there are bytes after its end");
  }

  *#open(): Generator<BackupPart> {
    const header = this.#header;
    this.#headerBytes = 0;
    const name = textOf(header, NAME);
    const bytes = Number.parseInt(textOf(header, SIZE), 8);
    const isWhole = Number.parseInt(textOf(header, CHECKSUM), 8) === checksumOf(header);
    const isFile = isWhole && header[TYPE_AT] === REGULAR && Number.isSafeInteger(bytes);
    const expected = this.#expectedName();
    if (this.#begin === undefined && (!isFile || name !== expected)) throw this.#noBackup();
    if (!isFile) throw new BackupFault(`it is damaged: no file begins where ${expected} is expected`);
    if (name !== expected) throw new BackupFault(`it holds ${name} where ${expected} is expected`);
    const isText = name === BEGIN_NAME || name === END_NAME;
    if (bytes === 0 || bytes > (isText ? TEXT_BYTES_MAX : SEGMENT_BYTES_MAX))
      throw new BackupFault(`${name} in it has ${bytes} bytes`);
    this.#name = name;
    this.#left = bytes;
    this.#padding = 0;
    this.#text = [];
    this.#crc = 0;
    if (!isText) yield { part: "segment", number: this.#numberOf(this.#segments), bytes };
  }

  #numberOf(place: number): number {
    const { oldest, last } = this.#begin!;
    return place === 0 ? last + 1 : oldest + place - 1;
  }

  #expectedName(): string {
    if (this.#begin === undefined) return BEGIN_NAME;
    const { oldest, last } = this.#begin;
    return this.#segments > Math.max(0, last - oldest + 1)
      ? END_NAME
      : segmentName(this.#numberOf(this.#segments));
  }

  *#bytes(bytes: Uint8Array): Generator<BackupPart> {
    const isText = this.#name === BEGIN_NAME || this.#name === END_NAME;
    if (isText) this.#text.push(bytes.slice());
    else {
      this.#crc = this.#crc32(bytes, this.#crc);
      yield { part: "bytes", bytes };
    }
    if (this.#left > 0) return;
    const name = this.#name;
    this.#name = "";
    this.#padding = this.#paddingBehind();
    if (name === BEGIN_NAME) {
      this.#begin = beginOf(jsonOf(this.#text));
      yield { part: "begin", begin: this.#begin };
    } else if (name === END_NAME) {
      this.#check(jsonOf(this.#text));
      this.#ended = true;
      yield { part: "end" };
    } else {
      this.#checksums.push(this.#crc);
      this.#segments++;
      yield { part: "complete" };
    }
  }

  #paddingBehind(): number {
    const bytes = Number.parseInt(textOf(this.#header, SIZE), 8);
    return paddingOf(bytes).length;
  }

  #check(end: unknown): void {
    const { checksums } = (end ?? {}) as { checksums?: unknown };
    if (!Array.isArray(checksums) || checksums.length !== this.#segments)
      throw new BackupFault(`its ${END_NAME} is damaged`);
    for (const [place, crc] of this.#checksums.entries())
      if (crc !== checksums[place])
        throw new BackupFault(
          `${segmentName(this.#numberOf(place))} in it is damaged: its checksum is wrong`,
        );
  }
}

function textOf(header: Uint8Array, [at, bytes]: Field): string {
  let text = "";
  for (let i = at; i < at + bytes && header[i] !== 0; i++) text += String.fromCharCode(header[i]!);
  return text.trim();
}

function jsonOf(pieces: readonly Uint8Array[]): unknown {
  const decoder = new TextDecoder();
  const text = pieces.map((piece) => decoder.decode(piece, { stream: true })).join("");
  try {
    return JSON.parse(text);
  } catch {
    throw new BackupFault("its description is damaged");
  }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function beginOf(value: unknown): BackupBegin {
  const { runnerbeanBackup, version, createdAtMs, oldest, last, bytes } = (value ?? {}) as Record<
    string,
    unknown
  >;
  if (runnerbeanBackup !== FORMAT)
    throw new BackupFault(
      `its format is ${JSON.stringify(runnerbeanBackup)}, and this program reads ${FORMAT}`,
    );
  if (!isCount(oldest) || !isCount(last) || !isCount(bytes) || oldest < 1 || last + 1 < oldest)
    throw new BackupFault("its description is damaged");
  return { version: `${version}`, createdAtMs: isCount(createdAtMs) ? createdAtMs : 0, oldest, last, bytes };
}
