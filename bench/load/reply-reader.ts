// Reader of one reply in received bytes. It allocates nothing: the result is a reused view.
import { CR, LF, SPACE } from "../../src/base/ascii.ts";

export type ReplyKind =
  | "USING"
  | "INSERTED"
  | "RESERVED"
  | "DELETED"
  | "BURIED"
  | "KICKED"
  | "TIMED_OUT"
  /** Anything that no scenario hopes for. */
  | "OTHER";

export interface ReplyView {
  kind: ReplyKind;
  /** Job id, or how many were kicked. */
  number: number;
  lineEnd: number;
  bodyStart: number;
  bodyBytes: number;
}

const LINE_LIMIT = 512;

const WORDS = new Map<number, { kind: ReplyKind; bytes: Buffer; hasNumber: boolean }>();
for (const [kind, hasNumber] of [
  ["USING", false],
  ["INSERTED", true],
  ["RESERVED", true],
  ["DELETED", false],
  ["BURIED", false],
  ["KICKED", true],
  ["TIMED_OUT", false],
] as const) {
  const isWhole = kind === "DELETED" || kind === "BURIED" || kind === "TIMED_OUT";
  const bytes = Buffer.from(isWhole ? `${kind}\r` : `${kind} `);
  WORDS.set(bytes[0]!, { kind, bytes, hasNumber });
}

/** The offset after the reply, or -1 if it isn't complete. */
export function readReply(bytes: Buffer, from: number, to: number, view: ReplyView): number {
  const limit = Math.min(to, from + LINE_LIMIT);
  let lf = from;
  while (lf < limit && bytes[lf] !== LF) lf++;
  view.kind = "OTHER";
  if (lf === limit) {
    if (limit === to) return -1;
    view.lineEnd = limit;
    return limit;
  }
  view.lineEnd = lf - 1;
  if (lf === from || bytes[lf - 1] !== CR) return lf + 1;

  const word = WORDS.get(bytes[from]!);
  if (!word || !begins(bytes, from, lf, word.bytes)) return lf + 1;
  if (word.kind === "RESERVED") return readReserved(bytes, from + word.bytes.length, to, view);
  if (!word.hasNumber || readNumber(bytes, from + word.bytes.length, view) === lf - 1) view.kind = word.kind;
  return lf + 1;
}

/**
 * The same for a reply with a body, whose id begins at `from`; the view knows where its line ends.
 */
function readReserved(bytes: Buffer, from: number, to: number, view: ReplyView): number {
  const cr = view.lineEnd;
  const afterId = readNumber(bytes, from, view);
  if (bytes[afterId] !== SPACE) return cr + 2;
  const id = view.number;
  if (readNumber(bytes, afterId + 1, view) !== cr) return cr + 2;
  view.bodyBytes = view.number;
  view.bodyStart = cr + 2;
  view.number = id;
  const end = view.bodyStart + view.bodyBytes + 2;
  if (end > to) return -1;
  if (bytes[end - 2] === CR && bytes[end - 1] === LF) view.kind = "RESERVED";
  return end;
}

function begins(bytes: Buffer, from: number, to: number, word: Buffer): boolean {
  if (to - from < word.length) return false;
  for (let i = 1; i < word.length; i++) if (bytes[from + i] !== word[i]) return false;
  return true;
}

/** Reads digits into the view; returns where they end, or -1 if there are none. */
function readNumber(bytes: Buffer, from: number, view: ReplyView): number {
  let at = from;
  let n = 0;
  for (let digit = bytes[at]! - 48; digit >= 0 && digit <= 9; digit = bytes[++at]! - 48) n = n * 10 + digit;
  view.number = n;
  return at === from ? -1 : at;
}
