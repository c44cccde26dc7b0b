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

export function bodyOfCommand(line: string): number | undefined {
  if (!/^put\b/.test(line)) return undefined;
  const bytes = PUT.exec(line)?.[1];
  if (bytes === undefined) throw new NotUnderstood(`an invalid put: ${line.slice(0, 80)}`);
  return Number(bytes);
}

export function bodyOfReply(line: string): number | undefined {
  const bytes = WITH_BODY.exec(line)?.[1];
  return bytes === undefined ? undefined : Number(bytes);
}

// Compares the replies of two servers to one command, and ignores parts that may differ.

/** Figures of the process, its clock or its own history. */
const MAY_DIFFER: ReadonlySet<string> = new Set(["id", "file", "age", "time-left", "pause-time-left"]);

/** Returns "key: value" lines as a map. */
function fieldsOf(body: Buffer | undefined): Map<string, string> {
  const lines = (body?.toString("latin1") ?? "").split("\n");
  return new Map(
    lines.flatMap((line) => {
      const [, key, value] = /^([\w-]+): (.*)$/.exec(line) ?? [];
      return key === undefined ? [] : [[key, value!] as const];
    }),
  );
}

/** Returns the first word of a reply, and for KICKED its number: ids and lengths are left out. */
const resultOf = (line: string): string => (line.startsWith("KICKED ") ? line : line.split(" ", 1)[0]!);

/** Returns the difference of the shadow's reply, or undefined if there is none. */
export function differenceOf(command: string, old: WirePart, shadow: WirePart): string | undefined {
  const [word = ""] = command.split(" ", 1);
  if (resultOf(old.line) !== resultOf(shadow.line)) return "different reply";
  if (word === "watch" || word === "ignore" || word === "list-tube-used" || old.line.startsWith("USING"))
    return old.line === shadow.line ? undefined : "different reply";
  if (old.body === undefined || shadow.body === undefined)
    return old.body === shadow.body ? undefined : "a body in only one reply";
  if (word.startsWith("stats")) return differenceOfStats(word, old.body, shadow.body);
  if (word.startsWith("list-")) return differenceOfLists(old.body, shadow.body);
  return old.body.equals(shadow.body) ? undefined : "different body";
}

/** Compares only the keys of `stats`, which counts the whole past of all connections. */
function differenceOfStats(word: string, old: Buffer, shadow: Buffer): string | undefined {
  const theirs = fieldsOf(old);
  const ours = fieldsOf(shadow);
  for (const [key, value] of theirs) {
    const other = ours.get(key);
    if (other === undefined) return `no ${key}`;
    if (word !== "stats" && value !== other && !MAY_DIFFER.has(key)) return `${key}: ${value} and ${other}`;
  }
  return undefined;
}

function differenceOfLists(old: Buffer, shadow: Buffer): string | undefined {
  const sorted = (body: Buffer): string => body.toString("latin1").split("\n").sort().join("\n");
  return sorted(old) === sorted(shadow) ? undefined : "different tubes";
}

/** Commands whose reply depends on what other connections did to other jobs at that moment. */
const DEPENDS_ON_OTHERS =
  /^(?:peek-ready|peek-delayed|peek-buried|kick|stats|stats-tube|stats-job|list-tubes|pause-tube)\b/;

/** Returns whether a difference can come from the order of two connections' commands alone. */
export const dependsOnOthers = (command: string): boolean => DEPENDS_ON_OTHERS.test(command);
