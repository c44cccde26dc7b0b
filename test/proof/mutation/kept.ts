// Mutants that no test can kill, each with the reason.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./covered.ts";
import type { Mutant } from "./mutants.ts";

interface Kept {
  /** Below src. */
  readonly file: string;
  /** The line without the blanks around it. */
  readonly code: string;
  /** As `Mutant.what`, of all mutants with this reason. */
  readonly what: readonly string[];
  readonly why: string;
}

// biome-ignore format: a table
const ROWS: readonly (readonly [file: string, code: string, what: readonly string[], why: string])[] = [
  ["access/client-address.ts", "return [address, address.kind() === \"ipv4\" ? 32 : 128];", ["32 → (32 + 1)", "128 → (128 + 1)", "address.kind() === \"ipv4\" ? 32 : 128 → (128)"], "an address has no bits beyond these to compare"],
  ["access/authenticator.ts", "if (token.proof.kind === \"sha256\") this.#byHash.set(token.proof.hash, token);", ["if (token.proof.kind === \"sha256\") → true"], "byToken checks the kind of proof once more"],
  ["access/authenticator.ts", "if (stands === undefined) {", ["if (stands === undefined) → true"], "only saves doing the same again"],
  ["access/authenticator.ts", "this.#standing.set(identity, stands);", ["this.#standing.set(identity, stands); removed"], "only saves doing the same again"],
  ["access/client-address.ts", "else if (underWay.count === 0) this.#underWay.delete(network);", ["if (underWay.count === 0) → false", "this.#underWay.delete(network); removed"], "frees memory, which no answer shows"],
  ["access/secrets.ts", "if (error === null) resolve(key);", ["if (error === null) → true"], "scrypt only fails here if OpenSSL has no memory"],
  ["access/secrets.ts", "else reject(error);", ["reject(error); removed"], "scrypt only fails here if OpenSSL has no memory"],
  ["access/token-file.ts", "if (!(error instanceof LineFault)) throw error;", ["if (!(error instanceof LineFault)) → false"], "only a fault of this file would get there"],
  ["access/token-file.ts", "const [N = 0, r = 0, p = 0] = parts.slice(0, 3).map(Number);", ["0 → 1", "3 → (3 + 1)"], "there are always five parts, and the first three count"],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: code
  ["access/token-file.ts", "const ms = DATE.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;", ["DATE.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.N → (Date.parse(`${text}T00:00:00Z`))"], "the next line refuses each text that isn't written as the day is"],
  ["engine/state/ready-order.ts", "else for (const tube of readyTubes) if (watched.has(tube)) this.#append(tube);", ["if (watched.has(tube)) → true"], "the choice leaves out a tube that isn't watched"],
  ["engine/state/ready-order.ts", "if (this.#size <= 2 * watched + CAPACITY_MIN) return;", ["2 * watched + CAPACITY_MIN: + → -"], "the order is made anew more often than needed"],
  ["engine/schedules.ts", "for (let at = 0; at + 2 <= fixed.length; at += 2 + fixed[at + 1]!)", ["2 → (2 + 1)"], "the attributes of a schedule have values, and fill their list"],
  ["engine/policies/unique-keys.ts", "return holds || untilMs > 0 ? { id, record: NO_RECORD, holds, untilMs, isGuess: false } : undefined;", ["0 → 1"], "a key whose time is over is forgotten before the first command"],
  ["engine/jobs/job-table.ts", "const buffer = new ArrayBuffer(rows * 17);", ["17 → (17 + 1)"], "a block with bytes to spare"],
  ["binlog/segments/segment-format.ts", "const tables = new Int32Array(8 * 256);", ["8 → (8 + 1)"], "a table with entries to spare"],
  ["binlog/live/segment-writer.ts", "const extent = Math.ceil(this.segmentBytes / 16 / PAGE_BYTES) * PAGE_BYTES;", ["16 → (16 + 1)"], "room is made in pieces a little smaller"],
  ["binlog/following.ts", "return randomInt(1, 2 ** 32 - 1);", ["2 ** 32 - 1: - → +"], "only one draw in 2^32 shows it"],
  ["engine/state/waiters.ts", "if (session.watches.size > NARROW_WATCHES_MAX) this.#linkWide(watch);", ["if (session.watches.size > NARROW_WATCHES_MAX) → true"], "links at once what a look at the wide waiters takes out again"],
  ["protocol/commands.ts", "let length = 0;", ["0 → 1"], "a line of --help may be broken a character earlier"],
  ["protocol/command-parser.ts", "while (start < end && bytes[start] === SPACE) start++;", ["start < end: < → <="], "no name begins at the end"],
  ["protocol/command-parser.ts", "if (number.at < end && bytes[number.at] !== SPACE) return false;", ["false → true", "if (number.at < end && bytes[number.at] !== SPACE) → false"], "the next number or the end of the line refuses the same"],
  ["protocol/command-parser.ts", "return syntax === OptionsSyntax.Ok && this.request.options.length > 0 ? Syntax.Ok : Syntax.BadFormat;", ["syntax === OptionsSyntax.Ok && this.request.options.length > 0: && → ||", "this.request.options.length > 0: > → >="], "only a name with text behind it comes here, and without an option that is malformed"],
  ["protocol/command-parser.ts", "while (start < end && bytes[start] === SPACE) start++;", ["start < end: < → <="], "no name begins at the end"],
  ["protocol/command-parser.ts", "const byFirstByte: (CommandWord[] | undefined)[] = new Array(256).fill(undefined);", ["256 → (256 + 1)"], "no byte is 256"],
  ["protocol/number-reader.ts", "while (at < this.#last && this.#bytes[at] === SPACE) at++;", ["at < this.#last: < → <="], "no number begins at the end"],
  ["protocol/job-attribute.ts", "while (at + 2 <= end) {", ["at + 2: + → -"], "a head cut off by the end has a value beyond it"],
  ["protocol/job-attribute.ts", "while (at < end && bytes[at] !== 0) at += 2 + (bytes[at + 1] ?? 0);", ["0 → 1"], "a tag without a length ends beyond the list with either"],
  ["protocol/job-attribute.ts", "for (let i = start; i < end; i++) this.#memory.bytes[at + i - start] = source[i]!;", ["i < end: < → <="], "the next attribute or the padding overwrites the byte"],
  ["protocol/command-parser.ts", "if (nameEnd === start) return Syntax.BadFormat;", ["if (nameEnd === start) → false"], "no number begins where no name does"],
  ["protocol/number-reader.ts", "for (let i = 0; i < digits; i++) {", ["i < digits: < → <="], "a comparison with a digit beyond the limit's is false"],
  ["protocol/number-reader.ts", "if (difference !== 0) return difference > 0;", ["difference > 0: > → >="], "it is not 0 there"],
  ["protocol/number-reader.ts", "while (at < end && bytes[at] === SPACE) at++;", ["at < end: < → <="], "no number begins at the end"],
  ["protocol/number-reader.ts", "while (at < end && bytes[at] === SPACE) at++;", ["at < end: < → <="], "no number begins at the end"],
  ["protocol/number-reader.ts", "while (at < end && (bytes[at] === SPACE || (bytes[at]! >= TAB && bytes[at]! <= CR))) at++;", ["at < end: < → <="], "no number begins at the end"],
  ["protocol/number-reader.ts", "const negative = at < end && bytes[at] === HYPHEN;", ["at < end: < → <="], "no number follows a sign at the end"],
  ["protocol/number-reader.ts", "if (at < end && (negative || bytes[at] === PLUS)) at++;", ["at < end: < → <="], "no number follows a sign at the end"],
  ["protocol/number-reader.ts", "else if (negative || this.value === 0 || this.value > U32_MAX) this.value = U32_MAX;", ["this.value > U32_MAX: > → >="], "the largest number is what it becomes"],
  ["protocol/option-parser.ts", "for (let at = start; at < end; at++)", ["at < end: < → <="], "no reason begins at the end"],
  ["protocol/option-parser.ts", "if (nameEnd < 0) return OptionsSyntax.Bad;", ["nameEnd < 0: < → <="], "a name ends behind its first byte"],
  ["protocol/option-parser.ts", "if (length < 0 || length > REASON_BYTES_MAX) return false;", ["0 → 1", "length < 0: < → <="], "a value has at least a byte there"],
  ["protocol/option-parser.ts", "return length >= 0 && this.#writer.text(row.tag, this.#text, 0, length);", ["length >= 0: >= → >", "0 → 1"], "a value has at least a byte there"],
  ["protocol/option-parser.ts", "while (position < end && bytes[position] === SPACE) position++;", ["position < end: < → <="], "no option begins at the end, or behind it"],
  ["protocol/option-parser.ts", "while (at < end && ((bytes[at]! >= LOWER_A && bytes[at]! <= LOWER_Z) || bytes[at] === HYPHEN)) at++;", ["at < end: < → <="], "the name must end before the end"],
  ["protocol/option-parser.ts", "for (let i = at; i < end; i++) if (bytes[i]! < SPACE || bytes[i] === DELETE) return false;", ["bytes[i]! < SPACE: < → <="], "a blank ends the option"],
  ["protocol/option-parser.ts", "while (position < end && isNameByte(bytes[position]!)) position++;", ["position < end: < → <="], "the name must end before the end"],
  ["protocol/option-parser.ts", "if (byte < SPACE || byte === DELETE) return -1;", ["byte < SPACE: < → <="], "a blank ends the option"],
  ["protocol/option-parser.ts", "if (byte < SPACE || byte === DELETE) return -1;", ["1 → (1 + 1)"], "callers look for a number below 0"],
  ["protocol/option-parser.ts", "position + 2 < end ? hexValue(bytes[position + 1]!) * 16 + hexValue(bytes[position + 2]!) : -1;", ["1 → (1 + 1)"], "the next line looks for a number below 0"],
  ["protocol/options.ts", "return valueAt(this.#bytes, 0, this.#end, tag) >= 0;", ["valueAt(this.#bytes, 0, this.#end, tag) >= 0: >= → >"], "a value begins behind its head"],
  ["protocol/options.ts", "copyBytes(this.#bytes, this.#end, bytes, start, end - start);", ["end - start: - → +"], "the next option or the padding overwrites the bytes"],
  ["protocol/options.ts", "return at < 0 ? undefined : numberAt(options.bytes, at);", ["0 → 1", "at < 0: < → <="], "a value begins behind its head"],
  ["protocol/options.ts", "return -1;", ["1 → (1 + 1)"], "callers look for a number below 0"],
  ["protocol/request.ts", "return this.start === this.end ? \"\" : latin1(this.bytes, this.start, this.end);", ["this.start === this.end ? \"\" : latin1(this.bytes, this.start → (latin1(this.bytes, this.start, this.end))"], "only saves a call"],
  ["protocol/schedule-list.ts", "const end = ends.reduce<string | undefined>((a, b) => (a === undefined || b < a ? b : a), undefined);", ["b < a: < → <="], "of two that are the same either is"],
  ["protocol/schedule-list.ts", "const sorted = [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));", ["1 → (1 + 1)", "a.name < b.name: < → <="], "a sort asks for the sign, and names differ"],
  ["ring/connection-words.ts", "let hash = Math.imul(this.#seed ^ (row * 0x9e3779b9), 0x85ebca6b);", ["0x9e3779b9 → (0x9e3779b9 + 1)"], "another hash that is as good"],
  ["ring/connection-words.ts", "for (let i = 0; i < address.length; i++) {", ["i < address.length: < → <="], "another hash that is as good"],
  ["ring/connection-words.ts", "hash ^= hash >>> 15;", ["15 → (15 + 1)", "hash >>> 15: >>> → <<"], "another hash that is as good"],
  ["ring/connection-words.ts", "hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);", ["0xc2b2ae35 → (0xc2b2ae35 + 1)", "13 → (13 + 1)", "hash >>> 13: >>> → <<"], "another hash that is as good"],
  ["ring/connection-words.ts", "return 1 + row * COLUMNS + ((hash ^ (hash >>> 16)) & (COLUMNS - 1));", ["16 → (16 + 1)", "hash >>> 16: >>> → <<"], "another hash that is as good"],
  ["ring/shared-words.ts", "Atomics.store(this.words, word, 1);", ["1 → (1 + 1)"], "any number but 0 is a flag"],
  ["ring/doorbell.ts", "Atomics.pause();", ["Atomics.pause(); removed"], "a hint for the processor"],
  ["ring/doorbell.ts", "if (Atomics.load(this.#words, this.#word) === AWAKE) return false;", ["if (Atomics.load(this.#words, this.#word) === AWAKE) → false"], "only saves the exchange"],
  ["ring/doorbell.ts", "if (descriptor > 0) {", ["0 → 1"], "descriptor 1 is the standard output"],
  ["ring/shared-words.ts", "const id = this.#complete(Atomics.add(this.#words, this.#low, 1) >>> 0);", ["Atomics.add(this.#words, this.#low, 1) >>> 0: >>> → <<"], "the completion adds 2^32 to a number below 0"],
  ["ring/shared-words.ts", "if (id % HINT_UNIT === 0) Atomics.store(this.#words, this.#hint, id / HINT_UNIT);", ["if (id % HINT_UNIT === 0) → true"], "the hint is stored more often than needed"],
  ["ring/shared-words.ts", "return this.#complete(Atomics.load(this.#words, this.#low) >>> 0);", ["Atomics.load(this.#words, this.#low) >>> 0: >>> → <<"], "the completion adds 2^32 to a number below 0"],
  ["ring/shared-words.ts", "const next = this.#complete(Atomics.load(this.#words, this.#low) >>> 0);", ["Atomics.load(this.#words, this.#low) >>> 0: >>> → <<"], "the completion adds 2^32 to a number below 0"],
  ["ring/shared-words.ts", "if (id < near - LOW_RANGE / 2) return id + LOW_RANGE;", ["2 → (2 + 1)", "id < near - LOW_RANGE / 2: < → <="], "no hint is so far ahead"],
  ["ring/shared-words.ts", "return id > near + LOW_RANGE / 2 ? id - LOW_RANGE : id;", ["id > near + LOW_RANGE / 2: > → >="], "no hint is so far behind"],
  ["ring/shared-words.ts", "return ((low - id) | 0) >= 0;", ["0 → 1"], "the lowest bit doesn't change the sign"],
  ["ring/shared-words.ts", "return ((Atomics.load(this.#words, at) - number) | 0) >= 0;", ["0 → 1"], "the lowest bit doesn't change the sign"],
  ["ring/shared-words.ts", "if (pages > 0 && this.usedPages > pages) this.noteFull();", ["pages > 0: > → >="], "without a limit, the next question clears the flag"],
  ["ring/shared-words.ts", "Atomics.store(this.#words, this.#full, 1);", ["1 → (1 + 1)"], "any number but 0 is a flag"],
  ["ring/monotonic-clock.ts", "let offsetMs = 0;", ["0 → 1"], "the first look replaces it"],
  ["ring/monotonic-clock.ts", "for (let looks = 0; looks < LOOKS_MAX && shortestMs > GOOD_ENOUGH_MS; looks++) {", ["0 → 1", "looks < LOOKS_MAX: < → <=", "shortestMs > GOOD_ENOUGH_MS: > → >="], "one look more or less"],
  ["ring/monotonic-clock.ts", "if (afterMs - beforeMs >= shortestMs) continue;", ["afterMs - beforeMs >= shortestMs: >= → >"], "two looks that are as short are as good"],
  ["ring/ring.ts", "if (capacity < RING_BYTES_MIN || (capacity & (capacity - 1)) !== 0) {", ["1 → (1 + 1)"], "the same numbers are powers of two"],
  ["ring/ring.ts", "this.#words = new Int32Array(ring, 0, DATA_OFFSET / 4);", ["4 → (4 + 1)", "DATA_OFFSET / 4: / → *"], "the view still has all three words"],
  ["ring/ring.ts", "if (this.#head === this.#tail) {", ["if (this.#head === this.#tail) → true"], "only saves looking for what is published"],
  ["ring/ring.ts", "const offset = this.#head & (this.#capacity - 1);", ["1 → (1 + 1)"], "positions are multiples of 8"],
  ["ring/ring.ts", "if (length > 0) {", ["0 → 1", "length > 0: > → >="], "lengths are multiples of 8, and never 0"],
  ["ring/ring.ts", "this.#words = new Int32Array(ring, 0, DATA_OFFSET / 4);", ["4 → (4 + 1)", "DATA_OFFSET / 4: / → *"], "the view still has all three words"],
  ["ring/ring.ts", "if (needed <= this.#capacity - ((this.#tail - this.#head) | 0)) return true;", ["0 → 1", "if (needed <= this.#capacity - ((this.#tail - this.#head) | 0)) → false", "needed <= this.#capacity - ((this.#tail - this.#head) | 0): <= → <"], "only saves looking for what the reader released"],
  ["ring/ring.ts", "let offset = this.#tail & (this.#capacity - 1);", ["1 → (1 + 1)"], "positions are multiples of 8"],
  ["ring/ring.ts", "Atomics.store(this.#words, WANTED_WORD, 1);", ["1 → (1 + 1)"], "any number but 0 is a flag"],
  ["ring/ring.ts", "const toEnd = this.#capacity - (this.#tail & (this.#capacity - 1));", ["1 → (1 + 1)"], "positions are multiples of 8"],
  ["ring/connection-words.ts", "Atomics.store(this.#words, word, before + CHANGE);", ["before + CHANGE: + → -"], "the word changes by as much the other way"],
  ["ring/connection-words.ts", "for (let i = 0; i < length; i++) Atomics.store(this.#bytes, word * 4 + 4 + i, name.charCodeAt(i));", ["i < length: < → <="], "a name's end is its length; the entry has the byte"],
  ["ring/connection-words.ts", "Atomics.store(this.#words, word, ((before & ~LENGTH_MASK) + 2 * CHANGE) | length);", ["(before & ~LENGTH_MASK) + 2 * CHANGE: + → -"], "the word changes by as much the other way"],
  ["ring/connection-words.ts", "for (let left = TRIES; left > 0; left--) {", ["0 → 1", "left > 0: > → >="], "one try more or less"],
];

export const KEPT: readonly Kept[] = ROWS.map(([file, code, what, why]) => ({ file, code, what, why }));

/** The line of a mutant without the blanks around it. */
export function codeOf({ file, line }: Mutant): string {
  const path = join(ROOT, file);
  return existsSync(path) ? (readFileSync(path, "utf8").split("\n")[line - 1]?.trim() ?? "") : "";
}

export function keptReason(mutant: Mutant): string | undefined {
  const code = codeOf(mutant);
  return KEPT.find(
    (each) => `src/${each.file}` === mutant.file && each.code === code && each.what.includes(mutant.what),
  )?.why;
}
