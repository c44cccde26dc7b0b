// Jobs: one known by its id, one in a listing, and one that this client holds.

import type { FixedCounterName, JobCounters } from "../schema/job.ts";
import {
  fromLatin1,
  optionsText,
  parseJobReport,
  parseReport,
  shortText,
  unescaped,
  type Words,
  whole,
  wholeLong,
  wholeSeconds,
} from "./command-text.ts";
import { JobCancelled, JobLost, NotFound } from "./errors.ts";
import { type Held, type Link, TIMER_MS_MAX } from "./link.ts";
import type { Codec, Meta } from "./meta.ts";
import type { Reply, ReservedBody, Wire } from "./wire.ts";

export type JobState = "ready" | "delayed" | "reserved" | "buried";
type Facts = Words<"id pri age delay ttr timeLeft file">;

/** Result of `stats-job`; times in seconds. */
export type JobStats = { readonly tube: string; readonly state: JobState } & Readonly<Record<Facts, number>> &
  Pick<JobCounters, FixedCounterName>;
/**
 * Result of `inspect-job`: more values, but only those that the job has. Older servers don't tell
 * the rare counters.
 */
export type JobReport = JobStats &
  Partial<JobCounters> & {
    /** The last failures, newest first. */
    readonly failures: readonly JobFailure[];
  } & Readonly<Record<string, string | number | readonly JobFailure[]>>;

/**
 * Omitted values stay as they are. `delay` and `tube` give a held job back. Durations in seconds.
 */
export interface UpdateOptions {
  readonly pri?: number;
  readonly delay?: number;
  readonly ttr?: number;
  readonly ttl?: number;
  readonly tube?: string;
}

/** A failed attempt of a job. */
interface JobFailure {
  /** The attempt that failed, from 1; 0 for none. */
  readonly attempt: number;
  readonly cause: "released" | "buried" | "timed-out" | "disconnected" | "expired";
  /** Seconds since the failure. */
  readonly age: number;
  /** Name or address of the worker; "" for none. */
  readonly worker: string;
  /** The worker's reason; "" for none. */
  readonly reason: string;
}

const REASON_BYTES_MAX = 1024;

/** Returns the option for a reason, cut to the length that the server accepts. */
export function reasonText(reason: string | undefined): string {
  if (reason === undefined || reason === "") return "";
  const bytes = new Uint8Array(REASON_BYTES_MAX);
  const { written } = new TextEncoder().encodeInto(reason, bytes);
  const text = Buffer.from(bytes.buffer, 0, written).toString("latin1");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a line can't have these
  return ` reason=${text.replace(/[\x00-\x20%\x7f]/g, (byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, "0")}`)}`;
}

/** A job that this client need not hold. */
export class JobHandle<Out> {
  readonly id: number;
  declare protected readonly link: Link;
  declare protected readonly codec: Codec<Out, never>;
  /** @internal The connection to the server that gave the id. */
  declare readonly giver: Wire | undefined;

  constructor(id: number, link: Link, codec: Codec<Out, never>, giver = link.giver) {
    this.id = Number(wholeLong(id));
    // Not enumerable, so that printing a job doesn't print its connection.
    Object.defineProperties(this, {
      link: { value: link },
      codec: { value: codec },
      giver: { value: giver },
    });
    void giver?.origins();
  }

  #ask(command: string, accept: string, again = false): Promise<Reply> {
    return this.#run((wire) => wire.request(command, accept), again);
  }

  #askExtended(command: string, accept: string, again = false): Promise<Reply> {
    return this.#run((wire) => wire.extended(command, accept), again);
  }

  #run(action: (wire: Wire) => Promise<Reply>, again: boolean): Promise<Reply> {
    return this.link.runAbout(`job ${this.id}`, this.id, this.giver, action, again);
  }

  /** Deletes the job. A reserved job can only be deleted by its holder. */
  async delete(): Promise<void> {
    await this.#ask(`delete ${this.id}`, "DELETED");
  }

  /** Makes a buried or delayed job ready. */
  async kick(): Promise<void> {
    await this.#ask(`kick-job ${this.id}`, "KICKED");
  }

  /**
   * Extension `cancel-job`. Returns true if the job is gone; false if a client holds it, which is
   * told by its next touch, and then the job goes unless that client deletes it as done. The reason
   * is cut to 200 bytes, in which a blank takes three.
   */
  async cancel({ reason = "" }: { readonly reason?: string } = {}): Promise<boolean> {
    const text = reason === "" ? "" : ` reason=${shortText(reason)}`;
    const { words } = await this.#askExtended(`cancel-job ${this.id}${text}`, "CANCELLED CANCELLING");
    return words[0] === "CANCELLED";
  }

  async peek(): Promise<Out> {
    return this.codec.decode((await this.#ask(`peek ${this.id}`, "FOUND", true)).body!);
  }

  async stats(): Promise<JobStats> {
    return parseReport((await this.#ask(`stats-job ${this.id}`, "OK", true)).body);
  }

  /** Extension `inspect-job`. */
  async inspect(): Promise<JobReport> {
    const { body } = await this.#askExtended(`inspect-job ${this.id}`, "OK", true);
    const report = parseJobReport<JobReport & { readonly failures: string | undefined }>(body);
    const listed = JSON.parse(report.failures ?? "[]") as JobFailure[];
    const failures = listed.map((failure) => ({
      ...failure,
      worker: fromLatin1(failure.worker),
      reason: fromLatin1(failure.reason),
    }));
    return { ...report, failures };
  }

  /** Returns how often the job has been reserved, as `max-attempts` counts it. */
  async attempts(): Promise<number> {
    return Number((await this.inspect())["attempts"]);
  }

  /** Returns the last failures, newest first. */
  async failures(): Promise<readonly JobFailure[]> {
    return (await this.inspect()).failures;
  }

  /** Returns the last failure; undefined if the job has never failed. */
  async lastError(): Promise<JobFailure | undefined> {
    return (await this.failures())[0];
  }

  /** Extension `update-job`. */
  async update(options: UpdateOptions): Promise<void> {
    await this.#askExtended(`update-job ${this.id}${optionsText(options)}`, "UPDATED");
  }
}

/**
 * Delay of the first touch and of the query for the time to run: less than half of the shortest
 * one.
 */
const FIRST_TOUCH_MS = 400;
const TOUCH_MS_MAX = 3_600_000;
/** The same if touches tell whether the job was cancelled. */
const ASK_MS_MAX = 10_000;

/** What a worker says of its job. Omitted values stay as they are. */
export interface TouchOptions {
  /** Percent, 0 to 100. */
  readonly progress?: number;
  /** Cut to 200 bytes, in which a blank takes three; "" removes it. */
  readonly note?: string;
}

/** Begins the second word of the answer to touch-job, if the job was cancelled. */
const CANCELLED = "cancelled=";

/** A held job, until it is deleted, released, buried, given back or lost. */
export class Job<Out> extends JobHandle<Out> implements Held {
  /** Known if the server has extensions or only one tube is watched. */
  readonly tube: string | undefined;
  readonly bytes: Uint8Array;
  /** The `meta` of the job's put; empty if the server doesn't support it. */
  readonly meta: Meta;
  readonly #wire: Wire;
  readonly #controller = new AbortController();
  #decoded: { readonly body: Out } | undefined;
  #isOver = false;
  #isKept = false;
  #ttr: number | undefined;
  #touchTimer: NodeJS.Timeout | undefined;
  #lostTimer: NodeJS.Timeout | undefined;

  constructor(
    reserved: ReservedBody,
    link: Link,
    wire: Wire,
    codec: Codec<Out, never>,
    tube = reserved.tube,
  ) {
    super(reserved.id, link, codec, wire);
    this.bytes = reserved.bytes;
    this.meta = reserved.meta;
    this.tube = tube;
    this.#wire = wire;
    link.held.set(this.id, this);
  }

  /** Decoded at the first access; throws the codec's error. */
  get body(): Out {
    this.#decoded ??= { body: this.codec.decode(this.bytes) };
    return this.#decoded.body;
  }

  /**
   * Aborts with a JobLost when the job is lost, and with a JobCancelled when a touch tells that it
   * was cancelled. A cancelled job is still held: a delete finishes it, and when it is released,
   * buried or lost, it goes.
   */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** True once the job is no longer held. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Deletes the job, even if it was lost: if no other client holds it, the finished work need not
   * be repeated. Throws OtherServer, and sends nothing, if the id comes from another server.
   */
  override async delete(): Promise<void> {
    this.#stopKeeping();
    try {
      await super.delete();
    } catch (error) {
      if (error instanceof NotFound) this.lose("another holds it, or has deleted it");
      throw error;
    }
    this.end();
  }

  /**
   * Releases the job after a `delay` in seconds. Without `pri`, it first asks for the job's
   * priority. With a `reason`, the server records a failure; servers without reasons don't get it.
   */
  async release(
    options: { readonly pri?: number; readonly delay?: number; readonly reason?: string } = {},
  ): Promise<void> {
    const delay = wholeSeconds(options.delay ?? 0, "delay");
    await this.#asHolder(
      async () => `release ${this.id} ${await this.#pri(options.pri)} ${delay}${this.#reason(options)}`,
      "RELEASED",
    );
    this.end();
  }

  /** Buries the job. The server records a failure, with the `reason` if it supports reasons. */
  async bury(options: { readonly pri?: number; readonly reason?: string } = {}): Promise<void> {
    await this.#asHolder(
      async () => `bury ${this.id} ${await this.#pri(options.pri)}${this.#reason(options)}`,
      "BURIED",
    );
    this.end();
  }

  /** A server that lists the extension `name` also accepts reasons. */
  #reason({ reason }: { readonly reason?: string }): string {
    return this.link.has("name") ? reasonText(reason) : "";
  }

  /**
   * Restarts the job's time to run, and says how far the job is, unless the server lacks
   * `touch-job`.
   */
  async touch({ progress, note }: TouchOptions = {}): Promise<void> {
    if (!this.#tells) return void (await this.#asHolder(`touch ${this.id}`, "TOUCHED"));
    const percent = progress === undefined ? "" : ` progress=${whole(progress, "progress", 100)}`;
    const text = note === undefined ? "" : ` note=${shortText(note)}`;
    const { words } = await this.#asHolder(`touch-job ${this.id}${percent}${text}`, "TOUCHED");
    const reason = words[1]?.startsWith(CANCELLED) === true ? words[1].slice(CANCELLED.length) : undefined;
    if (reason !== undefined) this.#cancelled(unescaped(reason));
  }

  /** Whether touches tell if the job was cancelled. */
  get #tells(): boolean {
    return this.link.has("touch-job");
  }

  #cancelled(reason: string): void {
    const why = reason === "" ? "" : `: ${reason}`;
    this.#controller.abort(new JobCancelled(`job ${this.id} was cancelled${why}`, reason));
  }

  override async update(options: UpdateOptions): Promise<void> {
    if (this.#loss !== undefined) throw this.#loss;
    await super.update(options);
    if (options.delay !== undefined || options.tube !== undefined) this.end();
    else if (options.ttr !== undefined) this.#hasTime(Math.max(1, options.ttr), performance.now());
  }

  /** Touches the job each time half of its time to run has passed, as long as it is held. */
  keep(): this {
    if (this.#isKept || this.#isOver) return this;
    this.#isKept = true;
    this.#touchTimer = setTimeout(() => void this.#keepOn(), FIRST_TOUCH_MS);
    return this;
  }

  /**
   * @internal Gives the job back: without counting an attempt if the server has `update-job`, else
   * when the connection ends.
   */
  async giveBack(): Promise<void> {
    const isOver = this.#isOver;
    this.lose("it was given back");
    if (!isOver && this.link.has("update-job")) await super.update({ delay: 0 });
  }

  /** @internal Whether the job's tube limits its attempts; false if the server can't tell. */
  async hasLimit(): Promise<boolean> {
    if (this.tube === undefined || !this.link.has("inspect-tube")) return false;
    const { body } = await this.#wire.request(`inspect-tube ${this.tube}`, "OK");
    return Number(parseReport<Record<string, string | number>>(body)["maxAttempts"]) > 0;
  }

  /** @internal Returns the number of the present attempt, from 1. */
  async attempt(): Promise<number> {
    return this.link.has("inspect-job") ? await this.attempts() : (await this.stats()).reserves;
  }

  /** @internal */
  lose(why: string): void {
    if (this.#isOver) return;
    this.end();
    this.#controller.abort(new JobLost(`job ${this.id} is lost: ${why}`));
  }

  async #keepOn(): Promise<void> {
    const sentAtMs = performance.now();
    try {
      const [ttr] = await Promise.all([this.#ttr ?? this.stats().then((stats) => stats.ttr), this.touch()]);
      this.#hasTime(this.#ttr ?? ttr, sentAtMs);
    } catch {
      // If the job is lost, its state already shows that.
      if (this.#isKept) this.#touchTimer = setTimeout(() => void this.#keepOn(), FIRST_TOUCH_MS);
    }
  }

  /**
   * Schedules the next touch. `fromMs` is before the request, so the time is never overestimated.
   */
  #hasTime(ttr: number, fromMs: number): void {
    this.#ttr = ttr;
    if (!this.#isKept) return;
    const goneMs = performance.now() - fromMs;
    this.#stopTimers();
    const touchMs = Math.min(this.#tells ? ASK_MS_MAX : TOUCH_MS_MAX, ttr * 500 - goneMs);
    this.#touchTimer = setTimeout(() => void this.#keepOn(), touchMs);
    const lose = (): void => this.lose("its time to run expired");
    if (ttr * 1000 < TIMER_MS_MAX) this.#lostTimer = setTimeout(lose, ttr * 1000 - goneMs);
  }

  async #pri(pri: number | undefined): Promise<string> {
    return whole(pri ?? (await this.stats()).pri, "pri");
  }

  /** Sends a command that only the holder may use. */
  async #asHolder(command: string | (() => Promise<string>), accept: string): Promise<Reply> {
    if (this.#isOver) throw this.#loss ?? new JobLost(`job ${this.id} is no longer held`);
    try {
      const line = typeof command === "string" ? command : await command();
      if (typeof command !== "string") this.#stopKeeping();
      return await this.#wire.request(line, accept);
    } catch (error) {
      if (error instanceof NotFound) this.lose("its time to run expired, or another client took it away");
      throw error;
    }
  }

  get #loss(): JobLost | undefined {
    const { reason } = this.signal;
    return reason instanceof JobLost ? reason : undefined;
  }

  #stopKeeping(): void {
    this.#isKept = false;
    this.#stopTimers();
  }

  #stopTimers(): void {
    clearTimeout(this.#touchTimer);
    clearTimeout(this.#lostTimer);
  }

  /** @internal */
  end(): void {
    this.#stopKeeping();
    this.#isOver = true;
    if (this.link.held.get(this.id) === this) this.link.held.delete(this.id);
  }
}
