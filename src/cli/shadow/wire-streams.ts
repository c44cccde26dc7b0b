// Splits the two directions of a connection into commands and replies, without changing a byte.

const LINE_BYTES_MAX = 4096;
const CR = 13;
const LF = 10;
const PUT = /^put \d+ \d+ \d+ (\d{1,10})$/;
const WITH_BODY = /^(?:OK|(?:RESERVED|FOUND) \d+) (\d{1,10})$/;

/** The stream contains something unknown, so the rest can't be split. */
class NotUnderstood extends Error {}

/** A command or a reply: its line without CR LF, and its body without CR LF, if it has one. */
export interface WirePart {
  readonly line: string;
  readonly body: Buffer | undefined;
}

type BodyOf = (line: string) => number | undefined;

/** Collects the bytes of one direction. */
export class WireSplitter {
  readonly #bodyOf: BodyOf;
  readonly #bytesMax: number;
  #pieces: Buffer[] = [];
  #bytes = 0;
  #line: string | undefined;
  #bodyBytes = 0;

  /** `bodyOf` returns the length of the body that follows a line; undefined for none. */
  constructor(bodyOf: BodyOf, bytesMax: number) {
    this.#bodyOf = bodyOf;
    this.#bytesMax = bytesMax;
  }

  /** Bytes of incomplete parts. */
  get heldBytes(): number {
    return this.#bytes;
  }

  /** Drops all bytes that it holds. */
  clear(): void {
    this.#keep(Buffer.alloc(0));
    this.#line = undefined;
  }

  /** Yields the parts that are complete now. Throws NotUnderstood. */
  *take(piece: Buffer): Generator<WirePart> {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    if (this.#bytes > this.#bytesMax) throw new NotUnderstood(`more than ${this.#bytesMax} bytes at once`);
    for (let part = this.#next(); part !== undefined; part = this.#next()) if (part !== "line") yield part;
  }

  /** Returns the next part, "line" if a body follows, or undefined if more bytes are needed. */
  #next(): WirePart | "line" | undefined {
    return this.#line === undefined ? this.#nextLine() : this.#nextBody(this.#line);
  }

  #nextLine(): WirePart | "line" | undefined {
    const all = this.#joined();
    const end = all.indexOf(LF);
    if (end < 0 && all.length > LINE_BYTES_MAX) throw new NotUnderstood("a line is too long");
    if (end < 0) return undefined;
    if (end === 0 || all[end - 1] !== CR) throw new NotUnderstood("a line ends without CR");
    const line = all.toString("latin1", 0, end - 1);
    this.#keep(all.subarray(end + 1));
    const bodyBytes = this.#bodyOf(line);
    if (bodyBytes === undefined) return { line, body: undefined };
    this.#line = line;
    this.#bodyBytes = bodyBytes;
    return "line";
  }

  #nextBody(line: string): WirePart | undefined {
    const bodyBytes = this.#bodyBytes;
    // Joins the pieces of a long body once, when all have arrived.
    if (this.#bytes < bodyBytes + 2) return undefined;
    const all = this.#joined();
    if (all[bodyBytes] !== CR || all[bodyBytes + 1] !== LF)
      throw new NotUnderstood("a body ends without CR LF");
    this.#line = undefined;
    this.#keep(all.subarray(bodyBytes + 2));
    return { line, body: Buffer.from(all.subarray(0, bodyBytes)) };
  }

  #joined(): Buffer {
    if (this.#pieces.length !== 1) this.#pieces = [Buffer.concat(this.#pieces)];
    return this.#pieces[0]!;
  }

  #keep(rest: Buffer): void {
    this.#pieces = [rest];
    this.#bytes = rest.length;
  }
}

/** Returns the length of the body that follows a command line. */
export function bodyOfCommand(line: string): number | undefined {
  if (!/^put\b/.test(line)) return undefined;
  const bytes = PUT.exec(line)?.[1];
  if (bytes === undefined) throw new NotUnderstood(`an invalid put: ${line.slice(0, 80)}`);
  return Number(bytes);
}

/** Returns the length of the body that follows a reply line. */
export function bodyOfReply(line: string): number | undefined {
  const bytes = WITH_BODY.exec(line)?.[1];
  return bytes === undefined ? undefined : Number(bytes);
}
