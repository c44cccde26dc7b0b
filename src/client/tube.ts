// A tube and its management.

import type { FinishedJob } from "../schema/job.ts";
import type { SettingChanges } from "../schema/setting.ts";
import {
  camelCase,
  finishedOf,
  listedJob,
  listOf,
  optionsText,
  parseReport,
  tubeName,
  tubePattern,
  type Words,
  whole,
  wholeSeconds,
} from "./command-text.ts";
import { NotFound } from "./errors.ts";
import { JobHandle, type JobState } from "./job.ts";
import type { Link } from "./link.ts";
import type { Codec } from "./meta.ts";
import type { Wire } from "./wire.ts";

type JobCounts =
  Words<"currentJobsUrgent currentJobsReady currentJobsReserved currentJobsDelayed currentJobsBuried">;
type Counts =
  Words<"totalJobs currentUsing currentWatching currentWaiting cmdDelete cmdPauseTube pause pauseTimeLeft">;

/** Result of `stats-tube`; times in seconds. */
export type TubeStats = { readonly name: string } & Readonly<Record<JobCounts | Counts, number>>;

/** Filter for the jobs of a tube. Omitted fields don't restrict it. */
export interface Filter {
  readonly state?: JobState | readonly JobState[];
  /** Minimum age in seconds. */
  readonly older?: number;
  /** Text or bytes in the body. */
  readonly contains?: string | Uint8Array;
  readonly group?: string;
}
export type LimitedFilter = Filter & { readonly limit?: number };
/** `show` adds the first bytes of each body, up to that many. */
export type ListFilter = Filter & { readonly show?: number };

/** A job as it was when it was listed, with its methods. `shown` is the beginning of its body. */
export type ListedJob<Out> = JobHandle<Out> & {
  readonly state: JobState;
  readonly shown: Uint8Array;
  /** In a list of all tubes. */
  readonly tube?: string;
  /** Reservations that ended with the connection of their worker, if there were any. */
  readonly disconnects?: number;
  /** Percent, and a text, if a worker has said them. */
  readonly progress?: number;
  readonly note?: string;
  /** The reason, if the job was cancelled while its worker held it. */
  readonly cancelled?: string;
} & Readonly<Record<Words<"pri age ttr timeLeft reserves bytes">, number>>;

/** Omitted settings stay as they are; null removes one. Durations in seconds. */
export type TubeSettings = SettingChanges;

export class Tube<Out> {
  readonly #name: string;
  readonly #link: Link;
  readonly #codec: Codec<Out, never>;

  constructor(name: string, link: Link, codec: Codec<Out, never>) {
    this.#name = tubePattern(name);
    this.#link = link;
    this.#codec = codec;
  }

  /** Throws TypeError for a pattern. */
  get name(): string {
    return tubeName(this.#name);
  }

  /** Throws NotFound if the tube doesn't exist. */
  async stats(): Promise<TubeStats> {
    return parseReport((await this.#link.ask(`stats-tube ${this.name}`, "OK", true)).body);
  }

  /** Stops handing out the tube's jobs for this time. */
  async pause(seconds: number): Promise<void> {
    await this.#link.ask(`pause-tube ${this.name} ${wholeSeconds(seconds, "pause")}`, "PAUSED");
  }

  /** Makes buried jobs ready or, if there are none, delayed ones. Returns how many. */
  async kick(most: number): Promise<number> {
    const { name } = this;
    const command = `kick ${whole(most, "most")}`;
    return Number((await this.#link.run((wire) => wire.inTube(name, command, "KICKED"))).words[1]);
  }

  /** Returns the next job in a state, or undefined. */
  async peek(state: "ready" | "delayed" | "buried"): Promise<{ id: number; body: Out } | undefined> {
    const { name } = this;
    const reply = await this.#link
      .run((wire) => wire.inTube(name, `peek-${state}`, "FOUND"), true)
      .catch((error) => (error instanceof NotFound ? undefined : Promise.reject(error)));
    return reply && { id: Number(reply.words[1]), body: this.#codec.decode(reply.body!) };
  }

  /** Extension `inspect-tube`: counters and settings. */
  async inspect(): Promise<Readonly<Record<string, string | number>>> {
    return parseReport((await this.#link.askExtended(`inspect-tube ${this.name}`, "OK", true)).body);
  }

  /** Extension `set-tube`; the name may be a pattern (`mails-*`, `*`). */
  async set(settings: TubeSettings): Promise<void> {
    await this.#link.askExtended(`set-tube ${this.#name}${optionsText(settings)}`, "SET");
  }

  /**
   * Extension `clear-tube`: deletes ready, delayed and buried jobs, or those that match the filter.
   * Returns how many.
   */
  async clear(filter: LimitedFilter = {}): Promise<number> {
    return await this.#bulk(`clear-tube ${this.name}`, filter, "CLEARED");
  }

  /** Extension `move-jobs`. Returns how many jobs were moved. With `as`, they become ready. */
  async move(to: string, options: LimitedFilter & { readonly as?: "ready" } = {}): Promise<number> {
    return await this.#bulk(`move-jobs ${this.name} ${tubeName(to)}`, options, "MOVED");
  }

  /**
   * Extension `move-jobs`: moves each job back to the tube where its attempts were exhausted.
   * Returns how many.
   */
  async redrive(filter: LimitedFilter = {}): Promise<number> {
    return await this.#bulk(`move-jobs ${this.name} *`, filter, "MOVED");
  }

  /**
   * Extension `list-jobs`: yields jobs by id, page by page. A job that exists throughout is listed
   * once. `*` stands for all tubes.
   */
  async *jobs(filter: ListFilter = {}): AsyncGenerator<ListedJob<Out>, void, undefined> {
    const name = this.#name === "*" ? "*" : this.name;
    const command = `list-jobs ${name}${optionsText(filter, true)} limit=1000`;
    let after = 0;
    let giver: Wire | undefined;
    do {
      const { body, wire } = await this.#link.page(`${command} after=${after}`, after, giver);
      const { next, items } = listOf(body, after);
      for (const item of items) yield this.#listed(item, wire);
      giver = wire;
      after = next;
    } while (after > 0);
  }

  /**
   * Extension `finished-jobs`: yields the last jobs of the tube that have ended, newest first, if
   * it has the setting `keepFinished`.
   */
  async *finished(): AsyncGenerator<FinishedJob, void, undefined> {
    let before = Number.MAX_SAFE_INTEGER;
    do {
      const command = `finished-jobs ${this.name} before=${before} limit=1000`;
      const { next, items } = finishedOf((await this.#link.askExtended(command, "OK", true)).body, before);
      yield* items;
      before = next;
    } while (before > 0);
  }

  #listed(item: string, giver: Wire): ListedJob<Out> {
    const facts = Object.entries(listedJob(item)).map(([key, value]) => [camelCase(key), value]);
    const { id, body = "", ...more } = Object.fromEntries(facts);
    const shown = new Uint8Array(Buffer.from(body, "latin1"));
    return Object.assign(new JobHandle(id, this.#link, this.#codec, giver), more, { shown });
  }

  async #bulk(command: string, options: object, accept: string): Promise<number> {
    const reply = await this.#link.askExtended(`${command}${optionsText(options, true)}`, accept);
    return Number(reply.words[1]);
  }
}
