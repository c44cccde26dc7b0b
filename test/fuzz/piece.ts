// Input of a fuzzer: writes of one or two clients, as texts that are easy to shrink and print.
//
// A text is latin1, one character per byte, with two kinds of marks: a cut, where a write ends and
// another begins, and the id of the n-th put of the conversation, whatever id a reused server
// assigns.

/** One write, or some if it has cuts, of one client. */
export interface Piece {
  readonly client: number;
  readonly text: string;
}

export const CUT = "\u2702";
const FIRST_ID_MARK = 0xe000;
const LAST_ID_MARK = 0xe0ff;
/**
 * Ids are written with leading zeros, so that a text has the same length, and its lines the same
 * ends, whatever the ids are.
 */
const ID_DIGITS = 8;
/** Puts of one conversation that can be named. */
const NAMED_PUTS_MAX: number = LAST_ID_MARK - FIRST_ID_MARK;

/** The texts of all pieces, one behind the other. */
export function textOf(pieces: readonly Piece[]): string {
  return pieces.map((piece) => piece.text).join("");
}

/** Stands for the id of put number `n` of the conversation, from 1 on. */
export function idMark(n: number): string {
  return String.fromCharCode(FIRST_ID_MARK + Math.min(n, NAMED_PUTS_MAX));
}

/**
 * The bytes of a text without its cuts, as latin1; `lastId` is the id given out last before the
 * conversation.
 */
export function bytesWithIds(text: string, lastId = 0): string {
  return text.replace(/[\u2702\ue000-\ue0ff]/g, (mark) =>
    mark === CUT ? "" : idDigits(lastId + mark.charCodeAt(0) - FIRST_ID_MARK),
  );
}

function idDigits(id: number): string {
  return `${id}`.padStart(ID_DIGITS, "0");
}

/** The writes of a text. */
export function writesOf(text: string, lastId = 0): string[] {
  return text
    .split(CUT)
    .map((part) => bytesWithIds(part, lastId))
    .filter((part) => part !== "");
}

/** Repetitions from this length on are written shorter. */
const LONG_RUN = 16;

/** A text in the notation of transcripts (test/transcripts/README.md). Cuts are left out. */
export function written(text: string): string {
  return (text.match(/(.)\1*/gs) ?? []).map(writtenRun).join("").replace(/ $/, "\\s");
}

/** One character, some times. */
function writtenRun(run: string): string {
  const character = run.charAt(0);
  if (run.length < LONG_RUN) return escaped(character).repeat(run.length);
  return `{${character === "*" ? "\\x2a" : escaped(character)}*${run.length}}`;
}

const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  "\r": "\\r",
  "\n": "\\n",
  "\t": "\\t",
  "\\": "\\\\",
};

function escaped(character: string): string {
  const code = character.charCodeAt(0);
  if (character === CUT) return "";
  if (code >= FIRST_ID_MARK) return idDigits(code - FIRST_ID_MARK);
  const isPlain = code >= 0x20 && code < 0x7f && !"\\{}".includes(character);
  return isPlain ? character : (SHORT_ESCAPES[character] ?? `\\x${code.toString(16).padStart(2, "0")}`);
}
