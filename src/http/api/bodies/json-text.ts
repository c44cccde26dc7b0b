// Requests in JSON as they were written: what a client calls `json` is kept byte for byte, since a value that has been read and
// written again may be another one. Integers beyond 2^53 are rounded, 1e400 becomes null, and of equal keys one is left.

import { isUtf8 } from "node:buffer";
import { Problem } from "../problem.ts";
import { checkJsonSize, endOfString } from "./request-size.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** The route wants the text of a request in JSON, too. */
    keepsText?: true;
  }
  interface FastifyRequest {
    text: string | undefined;
  }
}

/** The text of a request. Throws a Problem for what is no text, or too large; whether it is well formed is found out later. */
export function jsonText(body: Buffer): string {
  if (!isUtf8(body)) throw new Problem("bad-request", "The JSON is not UTF-8.");
  const text = body.toString("utf8");
  checkJsonSize(text);
  return text;
}

/** The texts of the values that a put calls `json`: of its job or, in their order, of all its jobs. `text` is well formed. */
export function jsonValues(text: string): (string | undefined)[] {
  const begin = behindBlanks(text, 0);
  const jobs = lastField(text, begin, "jobs");
  if (jobs === undefined) return [textOf(text, lastField(text, begin, "json"))];
  const values: (string | undefined)[] = [];
  for (let at = behindBlanks(text, jobs.start + 1); at < jobs.end - 1; ) {
    values.push(textOf(text, lastField(text, at, "json")));
    // Behind the comma, or at the end of the array.
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

/** The value of a field of the object at `at`; of several of the same name the last, which is the one that JSON.parse takes. */
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

/** Where the value at `at` ends: behind its last character. */
function endOfValue(text: string, at: number): number {
  const first = text[at]!;
  if (first === '"') return endOfString(text, at) + 1;
  if (first === "{" || first === "[") return endOfBrackets(text, at);
  // A number or a word goes on to what can't be part of it.
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

/** A byte order mark may stand before everything. */
const BLANKS: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d, 0xfeff]);
