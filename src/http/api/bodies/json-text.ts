// JSON requests as text. A `json` field is stored byte for byte, because parsing and serialising
// can change a value: integers beyond 2^53 are rounded, 1e400 becomes null, and duplicate keys are
// dropped.

import { isUtf8 } from "node:buffer";
import { Problem } from "../problem.ts";
import { checkJsonSize, endOfString } from "./request-size.ts";

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
