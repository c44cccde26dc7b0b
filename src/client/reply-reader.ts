// Splits the server's data into replies, by their first words alone.

import { ProtocolError } from "./errors.ts";
import { type Meta, metaOf } from "./meta.ts";

export interface ReservedBody {
  readonly id: number;
  readonly bytes: Uint8Array;
  readonly tube: string | undefined;
  /** With `meta=yes`, and in no other reply. */
  readonly meta: Meta;
}

export interface Reply {
  /** Without its CR LF. */
  readonly line: string;
  readonly words: readonly string[];
  /** For OK and FOUND. */
  readonly body?: Uint8Array;
  /** For RESERVED and RESERVED_BATCH. */
  readonly jobs: readonly ReservedBody[];
}

/** The longest line is DELETED_BATCH with a thousand missing ids. */
const LINE_BYTES_MAX = 65_536;
const BODY_BYTES_MAX = 2 ** 30;
const JOBS_MAX = 1000;
/** Position of the word with the length of the body. */
const LENGTH_AT: Readonly<Record<string, number>> = { OK: 1, RESERVED: 2, FOUND: 2 };

export class ReplyReader {
  readonly #onReply: (reply: Reply) => void;
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Number of bytes that must arrive before it is worth looking again. */
  #needed = 1;
  #batch: { line: string; words: string[]; left: number; jobs: ReservedBody[] } | undefined;

  constructor(onReply: (reply: Reply) => void) {
    this.#onReply = onReply;
  }

  /** Throws ProtocolError for invalid data. */
  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) return;
    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#bytes);
    let at = 0;
    for (let end = 0; end >= 0; at = Math.max(at, end)) end = this.#next(bytes, at);
    // A copy, so that a small rest doesn't keep the whole chunk alive.
    this.#chunks = at === bytes.length ? [] : [Buffer.from(bytes.subarray(at))];
    this.#bytes = bytes.length - at;
  }

  /** Returns the end of the line at `at` and its body, or -1 if they are incomplete. */
  #next(bytes: Buffer, at: number): number {
    const lineEnd = bytes.indexOf("\r\n", at);
    if ((lineEnd < 0 ? bytes.length : lineEnd) - at > LINE_BYTES_MAX)
      throw new ProtocolError("an endless line");
    this.#needed = bytes.length - at + 1;
    if (lineEnd < 0) return -1;
    const line = bytes.toString("latin1", at, lineEnd);
    const words = line.split(" ");
    const lengthAt = LENGTH_AT[words[0]!];
    if (!/^[A-Z_]+$/.test(words[0]!))
      throw new ProtocolError(`${JSON.stringify(line.slice(0, 60))} is not a valid reply`);
    const start = lineEnd + 2;
    if (lengthAt === undefined) {
      this.#reply(line, words, undefined);
      return start;
    }
    const end = start + numberOf(words[lengthAt], BODY_BYTES_MAX);
    this.#needed = end + 2 - at;
    if (bytes.length < end + 2) return -1;
    if (bytes.toString("latin1", end, end + 2) !== "\r\n")
      throw new ProtocolError("a body is longer than announced");
    this.#reply(line, words, new Uint8Array(bytes.subarray(start, end)));
    return end + 2;
  }

  #reply(line: string, words: string[], body: Uint8Array | undefined): void {
    const [word, id] = words;
    if (word === "RESERVED_BATCH") this.#batch = { line, words, left: numberOf(id, JOBS_MAX), jobs: [] };
    else if (word === "RESERVED") {
      this.#batch ??= { line, words, left: 1, jobs: [] };
      this.#batch.jobs.push({ id: numberOf(id, Number.MAX_SAFE_INTEGER), bytes: body!, ...detailsOf(words) });
      this.#batch.left--;
    } else if (this.#batch !== undefined) throw new ProtocolError(`${word} within a batch`);
    const batch = this.#batch ?? { line, words, left: 0, jobs: [], ...(body && { body }) };
    if (batch.left > 0) return;
    this.#batch = undefined;
    this.#onReply(batch);
  }
}

const META = "meta=";
const NO_META: Meta = Object.freeze({});

/** Returns the part after the length of a job. The name of a tube has no `=`. */
function detailsOf([, , , ...details]: readonly string[]): Pick<ReservedBody, "tube" | "meta"> {
  const [first] = details;
  const tube = first?.startsWith(META) ? undefined : first;
  const pairs = details.filter((word) => word.startsWith(META)).map((word) => word.slice(META.length));
  return { tube, meta: pairs.length === 0 ? NO_META : metaOf(pairs) };
}

function numberOf(word: string | undefined, most: number): number {
  if (word === undefined || !/^\d{1,16}$/.test(word) || Number(word) > most)
    throw new ProtocolError(`${word} is not a number up to ${most}`);
  return Number(word);
}
