// Model of a byte stream: splits it into lines and bodies as the protocol demands, and expects one
// reply to each.

import { isOurs } from "../support/conversations/command-lines.ts";
import { meaningOf } from "./expected-reply.ts";
import type { After, LineMeaning } from "./line-meaning.ts";

export interface Expectation {
  readonly command: string;
  /** The whole line, without its CR LF. */
  readonly line: string;
  /** Replies that may come, in the notation of transcripts. */
  readonly replies: readonly string[];
  readonly mayWait: boolean;
  readonly delays: boolean;
  /** The body of the put that this answers. */
  readonly body: string | undefined;
}

const LINE_TEXT_BYTES_MAX = 222;
/** The same for a command that beanstalkd does not have. */
const EXTENSION_TEXT_BYTES_MAX = 16_382;
/**
 * beanstalkd 1.12 reads lines in windows of this size, and does not answer those whose CR is the
 * last byte of one.
 */
const WINDOW_BYTES = 224;

/** One connection. Feed it the bytes, as latin1, in any pieces. */
export class StreamModel {
  readonly expectations: Expectation[] = [];
  /** Puts that have taken an id, also those whose body has not come. */
  putsTaken = 0;
  /** Something since the start is answered by 1.12 in another way on purpose. */
  differsFrom112 = false;
  readonly #jobBytesMax: number;
  #pending = "";
  #consumed = 0;
  #after: After = { kind: "line" };
  #line: LineMeaning | undefined;
  #text = "";
  #used = "default";
  #watched: ReadonlySet<string> = new Set(["default"]);

  constructor(jobBytesMax: number) {
    this.#jobBytesMax = jobBytesMax;
  }

  clone(): StreamModel {
    const copy = new StreamModel(this.#jobBytesMax);
    copy.expectations.push(...this.expectations);
    copy.putsTaken = this.putsTaken;
    copy.differsFrom112 = this.differsFrom112;
    copy.#pending = this.#pending;
    copy.#consumed = this.#consumed;
    copy.#after = this.#after;
    copy.#line = this.#line;
    copy.#text = this.#text;
    copy.#used = this.#used;
    copy.#watched = this.#watched;
    return copy;
  }

  /** The client has quit: nothing that follows is answered. */
  get hasEnded(): boolean {
    return this.#after.kind === "end";
  }

  /** Bytes of a body still to come, with its CR LF; 0 where a line is expected. */
  get bodyBytesMissing(): number {
    if (this.#after.kind !== "body" && this.#after.kind !== "dropped") return 0;
    return this.#after.bytes + (this.#after.kind === "body" ? 2 : 0) - this.#pending.length;
  }

  /** Nothing is half received. */
  get isBetweenCommands(): boolean {
    return this.hasEnded || (this.#after.kind === "line" && this.#pending === "");
  }

  /** Bytes at the end that belong to a line without its end. */
  get unfinishedLine(): string {
    return this.#after.kind === "line" ? this.#pending : "";
  }

  /** Position behind the last byte that was used. */
  get consumed(): number {
    return this.#consumed;
  }

  feed(bytes: string): void {
    this.#pending += bytes;
    while (this.#step()) {}
  }

  #step(): boolean {
    switch (this.#after.kind) {
      case "line":
        return this.#takeLine();
      case "body":
        return this.#takeBody(this.#after.bytes);
      case "dropped":
        if (this.#pending.length < this.#after.bytes) return false;
        this.#take(this.#after.bytes);
        this.#expect(this.#line?.replies ?? []);
        return true;
      default:
        return false;
    }
  }

  #take(bytes: number): void {
    this.#pending = this.#pending.slice(bytes);
    this.#consumed += bytes;
  }

  #takeLine(): boolean {
    const length = this.#pending.indexOf("\r\n");
    if (length < 0) return false;
    const line = this.#pending.slice(0, length);
    const total = length + 2;
    this.#take(total);
    this.#text = line;
    if (line.includes("\r") || (total > WINDOW_BYTES && total % WINDOW_BYTES === 1))
      this.differsFrom112 = true;
    const asShort = meaningOf(line, this.#jobBytesMax);
    // Those with a reason may be long, too.
    const hasReason = /^(?:release|bury) /.test(line) && line.slice(0, WINDOW_BYTES).includes(" reason=");
    const mayBeLong = hasReason || isOurs(asShort.command);
    const isOverlong = length > (mayBeLong ? EXTENSION_TEXT_BYTES_MAX : LINE_TEXT_BYTES_MAX);
    this.#line = isOverlong ? { ...meaningOf("", 0), command: "overlong", replies: ["BAD_FORMAT"] } : asShort;
    if (this.#line.differsFrom112 || isOurs(this.#line.command)) this.differsFrom112 = true;
    this.#after = this.#line.after;
    if (this.#after.kind === "body") this.putsTaken++;
    if (this.#after.kind === "line") this.#expect(this.#repliesWithState(line, this.#line));
    return true;
  }

  #takeBody(bytes: number): boolean {
    if (this.#pending.length < bytes + 2) return false;
    const body = this.#pending.slice(0, bytes);
    const isGood = this.#pending.slice(bytes, bytes + 2) === "\r\n";
    this.#take(bytes + 2);
    if (isGood) this.#expect(this.#line?.replies ?? [], body);
    else this.#expect(["EXPECTED_CRLF"]);
    return true;
  }

  #expect(replies: readonly string[], body?: string): void {
    const { command = "", mayWait = false, delays = false } = this.#line ?? {};
    this.expectations.push({ command, line: this.#text, replies, mayWait, delays, body });
    this.#after = { kind: "line" };
  }

  /** State of a connection: the tube it uses, and how many it watches. */
  #repliesWithState(line: string, { command, replies }: LineMeaning): readonly string[] {
    if (replies[0] === "BAD_FORMAT") return replies;
    const name = line.slice(command.length + 1);
    switch (command) {
      case "use":
        this.#used = name;
        return [`USING ${name}`];
      case "list-tube-used":
        return [`USING ${this.#used}`];
      case "watch":
        // Behind the name there may be a weight.
        this.#watched = new Set([...this.#watched, name.split(" ", 1)[0]!]);
        return [`WATCHING ${this.#watched.size}`];
      case "ignore":
        if (this.#watched.has(name) && this.#watched.size === 1) return ["NOT_IGNORED"];
        this.#watched = new Set([...this.#watched].filter((each) => each !== name));
        return [`WATCHING ${this.#watched.size}`];
      default:
        return replies;
    }
  }
}

/**
 * `writes` without what lies behind a quit: a kernel that has to drop it breaks the connection
 * before all replies are read.
 */
export function upToQuit(writes: readonly string[], jobBytesMax: number): string[] {
  const model = new StreamModel(jobBytesMax);
  model.feed(writes.join(""));
  if (!model.hasEnded) return [...writes];
  let left = model.consumed;
  return writes.map((bytes) => {
    const part = bytes.slice(0, left);
    left -= part.length;
    return part;
  });
}
