// Reserves jobs from a list of tubes, on as many connections as needed so that no command waits
// behind a reserve.

import { duration, tubeName, wholeSeconds } from "./command-text.ts";
import { Closed, NotSupported } from "./errors.ts";
import { Job } from "./job.ts";
import type { Link } from "./link.ts";
import type { Codec } from "./meta.ts";
import { type ReservedBody, type ReserveOrder, WATCHED_AT_FIRST, type Watched, type Wire } from "./wire.ts";

interface Demand {
  /** Called again whenever the command is sent again. */
  readonly count: () => number;
  /** In seconds; undefined waits forever. */
  readonly timeout?: number;
  readonly signal?: AbortSignal;
  /** Requires a connection that holds no jobs, so that no DEADLINE_SOON interrupts the wait. */
  readonly isAlone?: boolean;
  readonly fill?: FillOptions;
  readonly oneGroup?: boolean;
}

/** How long a batch waits to fill. It takes what is there when its time or the timeout is over. */
export interface FillOptions {
  /** Wait until so many jobs are ready; by default 1 or, with `linger`, as many as it may take. */
  readonly min?: number;
  /** Seconds to wait for them, from the first ready job on; by default as long as the timeout. */
  readonly linger?: number;
}

/** Tubes to watch: their names, or their weights by name. */
export type Tubes = readonly string[] | Readonly<Record<string, number>>;

const WEIGHT_MAX = 1000;

const TIMEOUT_MAX = 2 ** 31 - 1;
const BATCH_MAX = 1000;
/** Limit of the bodies in a batch, the same as that of `reserve-batch`. */
const BATCH_BYTES = 1_048_576;
/** Without `reserve-batch`: number of reserves that follow the first successful one. */
const FIRST_MORE = 4;

export class Reserver<Out> {
  readonly links = new Set<Link>();
  readonly #newLink: () => Link;
  readonly #codec: Codec<Out, never>;
  #watched: Watched = WATCHED_AT_FIRST;
  #isClosed = false;

  constructor(newLink: () => Link, codec: Codec<Out, never>) {
    this.#newLink = newLink;
    this.#codec = codec;
  }

  /** Takes effect at the next reserve. By default, weights are shares of the jobs. */
  watch(tubes: Tubes, order?: ReserveOrder): void {
    if (typeof tubes === "string")
      throw new TypeError(`tubes is "${tubes}", not a list such as ["${tubes}"]`);
    const isList = Array.isArray(tubes);
    const names: readonly string[] = isList ? tubes : Object.keys(tubes);
    if (names.length === 0) throw new TypeError("at least one tube must be watched");
    const weights = new Map<string, number>(isList ? [] : Object.entries(tubes));
    for (const [tube, weight] of weights)
      if (!Number.isInteger(weight) || weight < 1 || weight > WEIGHT_MAX)
        throw new RangeError(
          `the weight of ${tube} is ${weight}, not a whole number from 1 to ${WEIGHT_MAX}`,
        );
    this.#watched = {
      tubes: [...new Set(names.map(tubeName))],
      weights,
      order: order ?? (isList ? "strict" : "weighted"),
    };
  }

  /** Returns at least one job, or none if the timeout expires. */
  async take(demand: Demand): Promise<Job<Out>[]> {
    const { signal, timeout, fill = {} } = demand;
    const fills = fillText(fill) !== "";
    const waitMs =
      timeout === undefined ? Number.POSITIVE_INFINITY : 1000 * Number(duration(timeout, "timeout"));
    signal?.throwIfAborted();
    if (this.#isClosed) throw new Closed("closed");
    const endsAtMs = performance.now() + waitMs;
    // Other commands would end the wait, and the next would begin a new one.
    const link = this.#pick(demand.isAlone === true || fills, waitMs > 0);
    const stop = (): void => this.#stop(link);
    link.isReserving = true;
    signal?.addEventListener("abort", stop, { once: true });
    try {
      for (;;) {
        const limitMs = endsAtMs - performance.now() + link.offlineMs;
        const jobs = await link.run((wire) => this.#reserve(link, wire, demand, endsAtMs), true, limitMs);
        if (jobs !== undefined) return jobs;
      }
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener("abort", stop);
      link.isReserving = false;
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.links].map((link) => link.close()));
  }

  /**
   * With extensions, the next command ends a wait, so its connection may hold jobs. With
   * beanstalkd, the command would wait behind it, perhaps forever.
   */
  #pick(isAlone: boolean, mayWait: boolean): Link {
    const free = [...this.links].filter((link) => !link.isReserving);
    const isFit = (link: Link): boolean =>
      link.held.size === 0 || (!isAlone && (!mayWait || link.has("reserve-batch")));
    const found = free.find(isFit);
    const link = found ?? this.#newLink();
    this.links.add(link);
    return link;
  }

  /**
   * Ends a wait: by any command, or by closing the connection, which holds no jobs in that case.
   */
  #stop(link: Link): void {
    const discard = (): void => {
      this.links.delete(link);
      void link.close();
    };
    const { wire } = link;
    if (!wire?.extensions.has("reserve-batch")) discard();
    else wire.inTime(wire.request("list-tube-used", "USING")).catch(discard);
  }

  /** Returns undefined if another command ended the wait. */
  async #reserve(link: Link, wire: Wire, demand: Demand, endsAtMs: number): Promise<Job<Out>[] | undefined> {
    await this.#watchOn(wire);
    demand.signal?.throwIfAborted();
    const count = Math.min(demand.count(), BATCH_MAX);
    const seconds = Math.max(0, endsAtMs - performance.now()) / 1000;
    const isBatch = wire.extensions.has("reserve-batch");
    void wire.origins();
    const terms = fillText(demand.fill ?? {}) + (demand.oneGroup === true ? " one-group=yes" : "");
    if (terms !== "" && !isBatch)
      throw new NotSupported(
        "the server has no reserve-batch, so batches have no min, linger or oneGroup",
        "UNKNOWN_COMMAND",
      );
    const bodies = await (isBatch ? batch(wire, count, seconds, terms) : pipelined(wire, count, seconds));
    const { tubes } = wire.watched;
    const tube = tubes.length === 1 ? tubes[0] : undefined;
    return bodies?.map((body) => new Job(body, link, wire, this.#codec, body.tube ?? tube));
  }

  async #watchOn(wire: Wire): Promise<void> {
    const [old, now] = [wire.watched, this.#watched];
    if (old === now) return;
    if ((now.order !== "strict" || now.weights.size > 0) && !wire.extensions.has("reserve-order"))
      throw new NotSupported("the server has no reserve-order, so it has no weights", "UNKNOWN_COMMAND");
    const weightIn = ({ weights }: Watched, tube: string): number => weights.get(tube) ?? 1;
    const watches = now.tubes.flatMap((tube) => {
      const isOld = old.tubes.includes(tube);
      const weight = weightIn(now, tube);
      if (weight !== (isOld ? weightIn(old, tube) : 1)) return [`watch ${tube} weight=${weight}`];
      return isOld ? [] : [`watch ${tube}`];
    });
    const ignores = old.tubes.filter((tube) => !now.tubes.includes(tube)).map((tube) => `ignore ${tube}`);
    // New weights reset the counting, so that the old ones don't distort the shares.
    const isNew = old.order !== now.order || (now.order !== "strict" && watches.length > 0);
    const order = isNew ? [`reserve-order ${now.order}`] : [];
    await Promise.all([
      ...[...watches, ...ignores].map((command) => wire.request(command, "WATCHING")),
      ...order.map((command) => wire.request(command, "SET")),
    ]);
    wire.watched = now;
  }
}

/** Returns the options of a reserve-batch that waits to fill, "" for one that does not. */
function fillText({ min, linger }: FillOptions): string {
  if (min !== undefined && (!Number.isInteger(min) || min < 1))
    throw new RangeError(`min is ${min}, not a number of jobs: 1 or more`);
  const minText = min === undefined || (min === 1 && linger === undefined) ? "" : ` min=${min}`;
  return minText + (linger === undefined ? "" : ` linger=${duration(linger, "linger")}`);
}

async function batch(
  wire: Wire,
  count: number,
  seconds: number,
  terms: string,
): Promise<readonly ReservedBody[] | undefined> {
  const timeout = seconds === Number.POSITIVE_INFINITY ? "-1" : duration(seconds, "timeout");
  const meta = wire.hasMeta ? " meta=yes" : "";
  const command = `reserve-batch ${count} ${timeout} tubes=yes${meta} abort=yes${terms}`;
  const { words, jobs } = await wire.request(command, "RESERVED_BATCH TIMED_OUT ABORTED");
  return words[0] === "ABORTED" ? undefined : jobs;
}

/** Reserves with beanstalkd's commands. */
async function pipelined(wire: Wire, count: number, seconds: number): Promise<readonly ReservedBody[]> {
  const timed = (timeout: number): string => `reserve-with-timeout ${Math.min(timeout, TIMEOUT_MAX)}`;
  const isEndless = seconds === Number.POSITIVE_INFINITY;
  const first = isEndless ? "reserve" : timed(Number(wholeSeconds(seconds, "timeout")));
  const jobs = [...(await wire.request(first, "RESERVED TIMED_OUT")).jobs];
  let isMore = jobs.length > 0;
  for (let more = FIRST_MORE; isMore && jobs.length < count; more *= 2) {
    const ask = () => wire.request(timed(0), "RESERVED TIMED_OUT DEADLINE_SOON");
    const replies = await Promise.all(Array.from({ length: Math.min(more, count - jobs.length) }, ask));
    jobs.push(...replies.flatMap((reply) => reply.jobs));
    const bytes = jobs.reduce((sum, job) => sum + job.bytes.length, 0);
    isMore = replies.every((reply) => reply.jobs.length > 0) && bytes < BATCH_BYTES;
  }
  return jobs;
}
