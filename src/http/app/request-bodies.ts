// Limits the number of values in a request, because parsed values must fit into this thread's heap.

import { isUtf8 } from "node:buffer";
import type { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Packr } from "msgpackr/pack";
import { latin1 } from "../../base/bytes.ts";
import { Problem } from "../api/problem.ts";

/**
 * Maximum number of values, including nested ones. One byte of input can become an object of fifty.
 */
const VALUES_MAX = 250_000;
/** Maximum number of fields of an object. V8 hashes each name, and no request needs more. */
const FIELDS_MAX = 1000;
/** Fewest characters of a field of JSON, with its colon and comma. */
const FIELD_CHARS = 5;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

const tooMany = (): Problem =>
  new Problem("body-too-big", `A request can have at most ${VALUES_MAX} values; send a large body as it is.`);

const tooManyFields = (): Problem =>
  new Problem("bad-request", `An object in a request can have at most ${FIELDS_MAX} fields.`);

/** Throws if the JSON has too many values or fields. Syntax is checked later. */
export function checkJsonSize(text: string): void {
  if (text.length < FIELDS_MAX * FIELD_CHARS) return;
  let values = 0;
  /** Fields so far of the objects that are open, outermost first. */
  const fields: number[] = [];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === 0x3a || code === 0x7b || code === 0x7d) countField(fields, code);
    // Commas and opening brackets: together at least as many as values, minus one.
    if ((code === 0x2c || code === 0x5b || code === 0x7b) && ++values > VALUES_MAX) throw tooMany();
  }
}

/** Counts the fields of open objects at a colon or a brace. */
function countField(fields: number[], code: number): void {
  if (code === 0x7b) fields.push(0);
  else if (code === 0x7d) fields.pop();
  else if (++fields[fields.length - 1]! > FIELDS_MAX) throw tooManyFields();
}

/** Returns the position of the closing quote of the string that begins at `begin`. */
function endOfString(text: string, begin: number): number {
  for (let end = text.indexOf('"', begin + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end;
  }
  return text.length;
}

/**
 * Throws if the MessagePack has too many values. They follow one another; those of arrays and maps
 * follow their head.
 */
export function checkMsgpackSize(bytes: Buffer): void {
  let values = 0;
  for (let at = 0; at < bytes.length; at += sizeAt(bytes, at)) {
    if (++values > VALUES_MAX) throw tooMany();
  }
}

/** Sizes of the fixed-size types from 0xc0 on; 0 means that a length follows. */
// biome-ignore format: in the order of the specification
const HEADS = [
  1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 5, 9, 2, 3, 5, 9,
  2, 3, 5, 9, 3, 4, 6, 10, 18, 0, 0, 0, 3, 5, 3, 5,
];
/** For types with a length: bytes of the length, and whether an extension type follows. */
const LENGTHS: Readonly<Record<number, readonly [lengthBytes: number, more: number]>> = {
  196: [1, 0],
  197: [2, 0],
  198: [4, 0],
  199: [1, 1],
  200: [2, 1],
  201: [4, 1],
  217: [1, 0],
  218: [2, 0],
  219: [4, 0],
};

/**
 * Returns the size of the value at `at`; for an array or map, that of its head. A truncated value
 * ends past the end of the input.
 */
function sizeAt(bytes: Buffer, at: number): number {
  const head = bytes[at]!;
  if (head >= 0xa0 && head < 0xc0) return 1 + (head & 0x1f);
  if (head < 0xc0 || head >= 0xe0) return 1;
  const lengths = LENGTHS[head];
  if (lengths === undefined) return HEADS[head - 0xc0]!;
  const [lengthBytes, more] = lengths;
  if (at + 1 + lengthBytes > bytes.length) return 1 + lengthBytes;
  return 1 + lengthBytes + more + bytes.readUIntBE(at + 1, lengthBytes);
}

// Checks the raw bytes of a MessagePack request: only values that JSON can express are allowed, and
// bytes as the body of a job. So parsing loses nothing, and no value costs more memory than its
// bytes justify: whatever lists the fields of an object would make millions of texts of bytes.

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
function checkMsgpackShape(bytes: Buffer): void {
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
  if (isMap && count > FIELDS_MAX) throw tooManyFields();
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

// JSON and MessagePack, chosen by Content-Type for requests and by Accept for responses. Both have
// the same shapes, except for job bodies: MessagePack has `body` as bytes, JSON has `body` or
// `bodyBase64`.

const MSGPACK = "application/vnd.msgpack";
export const MSGPACK_TYPES: ReadonlySet<string> = new Set([
  MSGPACK,
  "application/msgpack",
  "application/x-msgpack",
]);

const packr = new Packr({
  useRecords: false,
  moreTypes: false,
  variableMapSize: true,
  int64AsType: "number",
});

/** Tells whether the Accept header begins with MessagePack. */
export function wantsMsgpack(request: FastifyRequest): boolean {
  const { accept } = request.headers;
  return accept?.includes("msgpack") === true && MSGPACK_TYPES.has(accept.split(/[,;]/, 1)[0]!.trim());
}

export const packMsgpack = (value: unknown): Buffer => packr.pack(value);

/**
 * Parses a MessagePack request. It allows only plain values, no extensions, and limits the depth.
 */
export function parseMsgpack(bytes: Buffer): unknown {
  checkMsgpackSize(bytes);
  checkMsgpackShape(bytes);
  try {
    return packr.unpack(bytes);
  } catch (error) {
    throw new Problem("bad-request", `The MessagePack is broken: ${(error as Error).message}.`);
  }
}

/** Encodes the response in the format that the client wants. */
export function encodeAs(request: FastifyRequest, reply: FastifyReply): void {
  if (!wantsMsgpack(request)) return;
  reply.type(MSGPACK);
  // The types of Fastify allow only text, but it sends bytes unchanged.
  reply.serializer(packMsgpack as (payload: unknown) => never);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Returns a job's body in the response format: `{body}` for text, else `{bodyBase64}`; in
 * MessagePack always `{body}`.
 */
export function bodyField(
  body: Uint8Array,
  isMsgpack: boolean,
): { body: string | Uint8Array } | { bodyBase64: string } {
  if (isMsgpack) return { body };
  try {
    return { body: utf8.decode(body) };
  } catch {
    return { bodyBase64: Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("base64") };
  }
}

// JSON requests as text. A `json` field is stored byte for byte, because parsing and serialising
// can change a value: integers beyond 2^53 are rounded, 1e400 becomes null, and duplicate keys are
// dropped.

declare module "fastify" {
  interface FastifyContextConfig {
    /** The route also needs the text of a JSON request. */
    keepsText?: true;
  }
  interface FastifyRequest {
    text: string | undefined;
  }
}

/**
 * Returns the text of a request. Throws a Problem if it is not UTF-8 or has too many values. Syntax
 * is checked later.
 */
export function jsonText(body: Buffer): string {
  if (!isUtf8(body)) throw new Problem("bad-request", "The JSON is not UTF-8.");
  const text = body.toString("utf8");
  checkJsonSize(text);
  return text;
}

/**
 * Returns the source texts of the `json` fields of a put: that of its job, or those of all its jobs
 * in order. `text` must be well formed.
 */
export function jsonValues(text: string): (string | undefined)[] {
  const begin = behindBlanks(text, 0);
  const jobs = lastField(text, begin, "jobs");
  if (jobs === undefined) return [textOf(text, lastField(text, begin, "json"))];
  const values: (string | undefined)[] = [];
  for (let at = behindBlanks(text, jobs.start + 1); at < jobs.end - 1; ) {
    values.push(textOf(text, lastField(text, at, "json")));
    // Skip the comma, or stop at the end of the array.
    at = behindBlanks(text, behindBlanks(text, endOfValue(text, at)) + 1);
  }
  return values;
}

interface Span {
  readonly start: number;
  readonly end: number;
}

const textOf = (text: string, span: Span | undefined): string | undefined =>
  span === undefined ? undefined : text.slice(span.start, span.end);

/**
 * Returns the value of a field of the object at `at`. Among duplicates the last one counts, as with
 * JSON.parse.
 */
function lastField(text: string, at: number, name: string): Span | undefined {
  let found: Span | undefined;
  let keyStart = behindBlanks(text, at + 1);
  while (text[keyStart] === '"') {
    const keyEnd = endOfString(text, keyStart) + 1;
    const start = behindBlanks(text, behindBlanks(text, keyEnd) + 1);
    const end = endOfValue(text, start);
    if (JSON.parse(text.slice(keyStart, keyEnd)) === name) found = { start, end };
    keyStart = behindBlanks(text, behindBlanks(text, end) + 1);
  }
  return found;
}

/** Returns the end of the value at `at`, exclusive. */
function endOfValue(text: string, at: number): number {
  const first = text[at]!;
  if (first === '"') return endOfString(text, at) + 1;
  if (first === "{" || first === "[") return endOfBrackets(text, at);
  // A number or a literal ends at the first character that can't be part of it.
  const rest = /[\s,\]}]|$/g;
  rest.lastIndex = at;
  return rest.exec(text)!.index;
}

function endOfBrackets(text: string, at: number): number {
  let [end, depth] = [at, 0];
  do {
    const char = text[end]!;
    if (char === '"') end = endOfString(text, end);
    else if (char === "{" || char === "[") depth++;
    else if (char === "}" || char === "]") depth--;
    end++;
  } while (depth > 0 && end < text.length);
  return end;
}

function behindBlanks(text: string, at: number): number {
  let end = at;
  while (BLANKS.has(text.charCodeAt(end))) end++;
  return end;
}

/** A byte order mark may come first. */
const BLANKS: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d, 0xfeff]);

// The encodings that a client accepts for a response.

/** Tells whether an Accept-Encoding allows gzip: by its name or by "*", with a weight above 0. */
export function takesGzip(accepted: string | string[] | undefined): boolean {
  let other = false;
  for (const each of `${accepted ?? ""}`.toLowerCase().split(",")) {
    const [coding, ...parameters] = each.split(";").map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith("q="));
    const isTaken = weight === undefined || Number(weight.slice(2)) > 0;
    if (coding === "gzip" || coding === "x-gzip") return isTaken;
    if (coding === "*") other = isTaken;
  }
  return other;
}

// Received pieces of a body. Each piece is an object of about 200 bytes, and a client may send one
// for every byte.

/** After the first few, shorter pieces are merged. */
const SHORT_BYTES = 1024;
const FIRST = 8;
const BLOCK_BYTES = 4 * SHORT_BYTES;

export class BodyPieces {
  /** In order, without those in the block. */
  readonly #pieces: Buffer[] = [];
  /** Memory that collects short pieces, and its filled length. */
  #block: Buffer | undefined;
  #filled = 0;
  /** Total length of all pieces, in bytes. */
  length = 0;

  add(piece: Buffer): void {
    this.length += piece.length;
    if (this.#pieces.length < FIRST || piece.length >= SHORT_BYTES) {
      this.#endBlock();
      this.#pieces.push(piece);
      return;
    }
    if (this.#filled + piece.length > BLOCK_BYTES) this.#endBlock();
    this.#block ??= Buffer.allocUnsafeSlow(BLOCK_BYTES);
    this.#block.set(piece, this.#filled);
    this.#filled += piece.length;
  }

  /** Returns all pieces: at most two for each `SHORT_BYTES`, plus a few. Nothing is added later. */
  all(): readonly Buffer[] {
    this.#endBlock();
    return this.#pieces;
  }

  #endBlock(): void {
    if (this.#filled === 0) return;
    // Trimmed, since a long piece may follow each short one.
    this.#pieces.push(Buffer.from(this.#block!.subarray(0, this.#filled)));
    this.#filled = 0;
  }
}

// Long request bodies: gathers their pieces in one buffer, and frees it as soon as it is read.
//
// V8 counts the memory of buffers as external, and collects garbage more often the more there is.
// With requests of 400 KB, every tenth one triggered a full collection, which took two thirds of a
// put's CPU time. A detached buffer is freed without a collection. Some buffers are kept for reuse,
// because fresh pages from the kernel take as much time as everything else in reading a body.

/** Below this size, freeing is not worth the call. */
const FREED_BYTES_MIN = 16 * 1024;

/** Maximum size and number of buffers that are kept for reuse. */
const KEPT_BYTES_MAX = 1 << 20;
const KEPT_MAX = 8;
const kept: Buffer[] = [];
/** All buffers that were allocated for reuse. */
const reusable = new WeakSet<Buffer>();

declare module "fastify" {
  interface FastifyRequest {
    /** Memory that the request's values may refer to. */
    gathered: Buffer | undefined;
  }
}

/**
 * Calls `done` with the whole body, of at most `bytesMax` bytes, in separate memory. `grow`
 * receives the number of bytes so far, and may throw.
 */
export function gatherBody(
  request: FastifyRequest,
  payload: Readable,
  bytesMax: number,
  done: (error: Error | null, body?: Buffer) => void,
  grow: (bytes: number) => void = () => {},
): void {
  const declared = request.raw.headers["content-length"];
  const pieces = new BodyPieces();
  const tooBig = (): Problem => new Problem("body-too-big", `A request can have at most ${bytesMax} bytes.`);
  const stop = (error: Error): void => {
    payload.off("data", onData).off("end", onEnd).off("error", stop);
    done(error);
  };
  const onData = (chunk: Buffer): void => {
    pieces.add(chunk);
    try {
      if (pieces.length > bytesMax) throw tooBig();
      grow(pieces.length);
    } catch (refusal) {
      stop(refusal as Error);
    }
  };
  const onEnd = (): void => {
    const { length } = pieces;
    if (declared !== undefined && Number(declared) !== length) {
      stop(new Problem("bad-request", "The length of the body differs from its Content-Length."));
      return;
    }
    const chunks = pieces.all();
    const whole = chunks.length === 1 ? chunks[0]! : joined(chunks, length);
    request.gathered = whole;
    done(null, whole.length === length ? whole : whole.subarray(0, length));
  };
  if (declared !== undefined && Number(declared) > bytesMax) done(tooBig());
  else payload.on("data", onData).on("end", onEnd).on("error", stop);
}

/** Returns a buffer that begins with all pieces, and frees theirs. */
function joined(chunks: readonly Buffer[], length: number): Buffer {
  const whole = bufferOf(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
    free(chunk);
  }
  return whole;
}

function bufferOf(length: number): Buffer {
  if (length < FREED_BYTES_MIN || length > KEPT_BYTES_MAX) return Buffer.allocUnsafeSlow(length);
  const found = kept.findIndex((each) => each.length >= length);
  if (found >= 0) return kept.splice(found, 1)[0]!;
  const made = Buffer.allocUnsafeSlow(2 ** Math.ceil(Math.log2(length)));
  reusable.add(made);
  return made;
}

/**
 * Frees the gathered body. No value of the request may be read afterwards, since another request
 * may get the same memory.
 */
export function freeGathered(request: FastifyRequest): void {
  const { gathered } = request;
  request.gathered = undefined;
  if (gathered === undefined) return;
  if (reusable.has(gathered) && kept.length < KEPT_MAX) kept.push(gathered);
  else free(gathered);
}

/** Memory that is shared with other buffers, as small buffers do, can't be freed. */
function free({ buffer, length }: Buffer): void {
  if (length >= FREED_BYTES_MIN && length === buffer.byteLength) (buffer as ArrayBuffer).transfer(0);
}
