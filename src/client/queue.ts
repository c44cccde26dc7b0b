// A queue server, as a program sees it.

import type { ConnectionOptions } from "node:tls";
import { Batch, type ListedBatch, listBatches } from "./batch.ts";
import { parseReport, reportLines, tubeName, unquoted, type Words, wholeLong } from "./command-text.ts";
import { ConnectionLost } from "./errors.ts";
import { Job, JobHandle } from "./job.ts";
import { clientName, Link, type LinkOptions } from "./link.ts";
import { type Codec, type Meta, metaOf, plain } from "./meta.ts";
import { type Put, type PutCounts, type PutOptions, put, putMany } from "./put.ts";
import { type FillOptions, Reserver } from "./reserver.ts";
import { type ListedSchedule, listSchedules, Schedule } from "./schedule.ts";
import { findTracer, type Tracer } from "./tracing.ts";
import { type ListedJob, type ListFilter, Tube } from "./tube.ts";
import { dialer, type ReserveOrder, serverOf, type Wire } from "./wire.ts";

export interface ConnectOptions extends LinkOptions {
  /** Enables TLS with these options of `node:tls`. */
  readonly tls?: ConnectionOptions;
  /** Whether puts and handlers get spans if @opentelemetry/api is installed; true by default. */
  readonly tracing?: boolean;
}

export interface ReserveOptions {
  /** In seconds; may have decimals with extensions. */
  readonly timeout?: number;
  /** Ends the wait. A job that arrived before that is still returned. */
  readonly signal?: AbortSignal;
}

/** Extension `reserve-batch`: `min` and `linger` let a batch fill. */
export interface ReserveManyOptions extends ReserveOptions, FillOptions {
  /** Take only jobs of the tube and group of the first. */
  readonly oneGroup?: boolean;
}

/** The most used keys of `stats`; there are more. */
type Known =
  Words<"currentJobsReady currentJobsReserved currentJobsDelayed currentJobsBuried totalJobs uptime">;
export type ServerStats = Readonly<Record<Known, number>> & Readonly<Record<string, string | number>>;

/** Maximum number of ids in a line. */
const IDS_A_COMMAND = 900;

export class Queue<Out, In = Out> {
  readonly #codec: Codec<Out, In>;
  readonly #newLink: (name: string) => Link;
  readonly #name: string | undefined;
  /** For everything except reserves, so that nothing waits behind a reserve. */
  readonly #link: Link;
  readonly #reserver: Reserver<Out>;
  /** @internal */
  readonly tracer: Tracer | undefined;

  /** @internal Use `connect`. */
  constructor(address: string, codec: Codec<Out, In>, options: ConnectOptions) {
    if (!/^[!-~]*$/.test(options.token ?? "")) throw new TypeError("a token must not contain spaces");
    const dial = dialer(address, options.tls, options.connectMs);
    this.#codec = codec;
    this.#newLink = (name) => new Link(dial, options, name);
    this.#name = options.name;
    this.#link = this.#newLink(clientName(options.name));
    this.#reserver = this.reserver();
    this.tracer = (options.tracing ?? true) ? findTracer(serverOf(address)) : undefined;
  }

  async put(tube: string, body: In, options: PutOptions = {}): Promise<Put> {
    return await this.#put(tube, this.#codec.encode(body), options);
  }

  /**
   * Puts many jobs, pipelined, with at most 1 MiB unanswered. It stops at the first error and
   * throws it, once all pending puts are answered. `onPut` is called for each successful put.
   */
  putMany(
    tube: string,
    bodies: AsyncIterable<In> | Iterable<In>,
    options: PutOptions | ((body: In, index: number) => PutOptions) = {},
    onPut?: (put: Put, index: number) => void,
  ): Promise<PutCounts> {
    const one = async (bytes: Uint8Array, own: PutOptions, index: number): Promise<Put> => {
      const done = await this.#put(tube, bytes, own);
      onPut?.(done, index);
      return done;
    };
    const codec = this.#codec;
    async function* puts(): AsyncGenerator<[number, () => Promise<Put>], void, undefined> {
      let count = 0;
      for await (const body of bodies) {
        const index = count++;
        const own = typeof options === "function" ? options(body, index) : options;
        const bytes = codec.encode(body);
        yield [bytes.length, () => one(bytes, own, index)];
      }
    }
    return putMany(puts());
  }

  #put(tube: string, body: Uint8Array, options: PutOptions): Promise<Put> {
    return put(this.#link, tube, body, options, this.tracer);
  }

  /** Takes jobs from these tubes only, from the next `reserve` on. */
  watch(...tubes: string[]): void;
  /**
   * Extension `reserve-order`: the same, with a weight from 1 to 1000 for each tube. Weights are
   * shares of the jobs or, with `"weighted-time"`, of the time for which jobs are held.
   */
  watch(weights: Readonly<Record<string, number>>, order?: ReserveOrder): void;
  watch(first?: string | Readonly<Record<string, number>>, ...more: (string | undefined)[]): void {
    if (typeof first === "string") this.#reserver.watch([first, ...(more as string[])]);
    else this.#reserver.watch(first ?? [], more[0] as ReserveOrder | undefined);
  }

  /** Waits for a job. With a timeout, the result may be undefined. */
  reserve(options: ReserveOptions & { readonly timeout: number }): Promise<Job<Out> | undefined>;
  reserve(options?: Omit<ReserveOptions, "timeout">): Promise<Job<Out>>;
  async reserve(options: ReserveOptions = {}): Promise<Job<Out> | undefined> {
    return (await this.#reserver.take({ ...options, count: () => 1 }))[0];
  }

  /**
   * Waits for a job, or as long as `min` and `linger` say, and returns all that are ready by then:
   * at most 1000 jobs, and about 1 MiB.
   */
  async reserveMany(most: number, options: ReserveManyOptions = {}): Promise<Job<Out>[]> {
    if (!Number.isInteger(most) || most < 1) throw new RangeError(`${most} jobs can't be reserved`);
    const { min, linger, ...demand } = options;
    if (min !== undefined && min > most) throw new RangeError(`min is ${min}, more than ${most} jobs`);
    const fill = { ...(min === undefined ? {} : { min }), ...(linger === undefined ? {} : { linger }) };
    return await this.#reserver.take({ ...demand, fill, count: () => most });
  }

  /** Reserves this job, whatever tube it is in. */
  async reserveJob(id: number): Promise<Job<Out>> {
    const command = `reserve-job ${wholeLong(id)}`;
    const giver = this.#link.giver;
    return await this.#link.runAbout(`job ${id}`, id, giver, async (wire) => {
      void wire.origins();
      // RESERVED has no meta. The client sends both commands together, so the job can't end in
      // between.
      const [{ jobs }, meta] = await Promise.all([wire.request(command, "RESERVED"), metaOfJob(wire, id)]);
      return new Job({ ...jobs[0]!, meta }, this.#link, wire, this.#codec);
    });
  }

  /** Touches all held jobs. Returns how many are still held; the others are lost. */
  async touchAll(): Promise<number> {
    const touched = await Promise.all([this.#link, ...this.#reserver.links].map(touchHeld));
    return touched.reduce((sum, each) => sum + each, 0);
  }

  /**
   * Deletes each job, on its connection if it is held. Returns the ids that could not be deleted.
   * A job that was reserved or listed is never mistaken for another one; an id alone counts for the
   * server that the client is connected to.
   */
  async deleteMany(jobs: Iterable<number | JobHandle<unknown>>): Promise<number[]> {
    const byGiver = new Map<Wire | undefined, { readonly link: Link; readonly ids: number[] }>();
    const links = [...this.#reserver.links];
    for (const job of jobs) {
      const id = Number(wholeLong(typeof job === "number" ? job : job.id));
      const link = links.find(({ held }) => held.has(id)) ?? this.#link;
      const giver = typeof job === "number" ? link.giver : job.giver;
      const ids = byGiver.get(giver)?.ids ?? [];
      ids.push(id);
      byGiver.set(giver, { link, ids });
    }
    return (
      await Promise.all([...byGiver].map(([giver, { link, ids }]) => deleteOn(link, ids, giver)))
    ).flat();
  }

  /** Returns a handle for any job. */
  job(id: number): JobHandle<Out> {
    return new JobHandle(id, this.#link, this.#codec);
  }

  /** Returns a tube or, for `set`, a pattern (`mails-*`). */
  tube(name: string): Tube<Out> {
    return new Tube(name, this.#link, this.#codec);
  }

  /** Extension `list-jobs`. */
  jobs(tube: string, filter?: ListFilter): AsyncGenerator<ListedJob<Out>, void, undefined> {
    return this.tube(tube).jobs(filter);
  }

  /** Extension `set-schedule`: returns a schedule, which need not exist yet. */
  schedule(name: string): Schedule<In> {
    return new Schedule(name, this.#link, this.#codec);
  }

  /** Yields all schedules by name, or those of a tube. */
  schedules({ tube }: { readonly tube?: string } = {}): AsyncGenerator<ListedSchedule, void, undefined> {
    return listSchedules(this.#link, tube && tubeName(tube));
  }

  /** Extension `open-batch`: returns a batch, which need not exist yet. */
  batch(name: string): Batch<In> {
    return new Batch(name, this.#link, (tube, body, options) => this.put(tube, body, options));
  }

  /** Yields all batches in the order in which they were opened. */
  batches(): AsyncGenerator<ListedBatch, void, undefined> {
    return listBatches(this.#link);
  }

  /** Returns the names of all tubes. */
  async tubes(): Promise<string[]> {
    const { body } = await this.#link.ask("list-tubes", "OK", true);
    return reportLines(body).map((line) => unquoted(line.slice(2)));
  }

  async stats(): Promise<ServerStats> {
    return parseReport((await this.#link.ask("stats", "OK", true)).body);
  }

  /** Returns the extensions of the server; none for plain beanstalkd. */
  extensions(): Promise<ReadonlySet<string>> {
    return this.#link.run(async (wire) => wire.extensions, true);
  }

  /**
   * Closes all connections after the pending commands. Waits end with Closed, and held jobs go
   * back.
   */
  async close(): Promise<void> {
    await Promise.all([this.#link.close(), this.#reserver.close()]);
  }

  /** @internal Waits for the first connection. */
  begin(): Promise<void> {
    return this.#link.begin();
  }

  /** @internal For workers. Throws TypeError for a bad label. */
  reserver(label?: string): Reserver<Out> {
    const name = clientName(this.#name, label);
    return new Reserver(() => this.#newLink(name), this.#codec);
  }
}

/**
 * Returns the meta of a job; none if the server doesn't support it or doesn't let this client
 * inspect jobs.
 */
async function metaOfJob(wire: Wire, id: number): Promise<Meta> {
  if (!wire.hasMeta) return {};
  try {
    const { body } = await wire.request(`inspect-job ${id}`, "OK");
    const { meta } = parseReport<{ readonly meta?: string }>(body);
    return meta === undefined ? {} : metaOf(JSON.parse(meta));
  } catch (error) {
    // Here the job is lost, too. Any other error must not leave it reserved without an owner.
    if (error instanceof ConnectionLost) throw error;
    return {};
  }
}

async function touchHeld({ wire, held }: Link): Promise<number> {
  const jobs = [...held.values()];
  if (wire === undefined || jobs.length === 0) return 0;
  if (wire.extensions.has("touch-all")) {
    const reply = await wire.request("touch-all", "TOUCHED_ALL");
    if (Number(reply.words[1]) === jobs.length) return jobs.length;
  }
  // Touches each job, which also finds out which ones are lost.
  const touched = await Promise.allSettled(jobs.map((job) => job.touch()));
  return touched.filter(({ status }) => status === "fulfilled").length;
}

/** Returns the ids that were not found. */
async function deleteOn(link: Link, ids: readonly number[], giver: Wire | undefined): Promise<number[]> {
  void giver?.origins();
  const missing: number[] = [];
  for (let at = 0; at < ids.length; at += IDS_A_COMMAND) {
    const some = ids.slice(at, at + IDS_A_COMMAND);
    missing.push(
      ...(await link.runAbout(`${some.length} jobs`, Math.max(...some), giver, (wire) =>
        deleteSome(wire, some),
      )),
    );
  }
  for (const id of missing) link.held.get(id)?.lose("another holds it, or has deleted it");
  for (const id of ids) link.held.get(id)?.end();
  return missing;
}

async function deleteSome(wire: Wire, ids: readonly number[]): Promise<number[]> {
  if (wire.extensions.has("delete-batch"))
    return (await wire.request(`delete-batch ${ids.join(" ")}`, "DELETED_BATCH")).words.slice(3).map(Number);
  const replies = await Promise.all(ids.map((id) => wire.request(`delete ${id}`, "DELETED NOT_FOUND")));
  return ids.filter((_, index) => replies[index]!.words[0] === "NOT_FOUND");
}

/**
 * Connects to a server. Waits up to `offlineMs` for one that isn't up yet. Later, the client
 * restores connections automatically.
 */
export function connect(
  address: string,
  options?: ConnectOptions,
): Promise<Queue<Uint8Array, Uint8Array | string>>;
export function connect<Out, In = Out>(
  address: string,
  options: ConnectOptions & { readonly codec: Codec<Out, In> },
): Promise<Queue<Out, In>>;
export async function connect(
  address: string,
  options: ConnectOptions & { codec?: Codec<unknown> } = {},
): Promise<unknown> {
  const queue = new Queue<unknown, never>(address, options.codec ?? plain, options);
  try {
    await queue.begin();
    return queue;
  } catch (error) {
    await queue.close();
    throw error;
  }
}
