// Reserves over HTTP: in-memory connections that watch the requested tubes, kept for some seconds
// for further requests of the same tubes.
//
// A polled tube thus keeps its watcher, and a wait queues with those of all other clients. Jobs go
// to leases (shard/control/leases.ts): the connection holds none, and can be reused at once.

import { asciiBytes, shardOfTube } from "../../base/bytes.ts";
import { eachJobCounter, JOB_COUNTERS, type JobCounters } from "../../schema/job.ts";
import { Busy, type ControlClient } from "../link/control-client.ts";
import type { WireClients, WireConnection, WireReply } from "../link/wire-connection.ts";
import { type Lease, type LeaseTable, workerOf } from "../state/lease-table.ts";
import type { GiveBacks } from "./lease-changes.ts";

/** Time for which an idle connection is kept, ms. */
const KEPT_MS = 10_000;
/** Limit of tubes watched by all idle connections. */
const KEPT_TUBES_MAX = 10_000;
/** Maximum of concurrent waits. */
export const WAITS_MAX = 10_000;
/** Reserves sent at a time after the first job. */
const CHUNK_MAX = 32;

/** A job as RESERVED describes it to a lease; see shard/shard-core.ts. */
export interface ReservedJob extends JobCounters {
  readonly id: number;
  readonly tube: string;
  readonly pri: number;
  readonly ttr: number;
  readonly timeLeftMs: number;
  readonly ageMs: number;
  /** Pairs of context from the put, in Latin-1. */
  readonly meta: readonly string[];
  readonly body: Buffer;
}

export interface ReserveOptions {
  /** Name of the worker. */
  readonly worker: string;
  readonly tubes: readonly string[];
  readonly waitSeconds: number;
  readonly max: number;
  readonly bytesMax: number;
  /** Returns how many more jobs fit; called before each chunk. */
  readonly room: () => number;
  /** Ends the wait. */
  readonly signal: AbortSignal;
  /**
   * Takes each job as soon as its shard has sent it. From then on, the callee owns the job,
   * whatever happens to the request, so it must not throw.
   */
  readonly onJob: (job: ReservedJob) => void;
}

interface Idle {
  readonly connection: WireConnection;
  readonly timer: NodeJS.Timeout;
}

export class Reservations {
  readonly #wire: WireClients;
  readonly #idle = new Map<string, Idle[]>();
  readonly #waiting = new Set<WireConnection>();
  #stops = false;
  #keptTubes = 0;

  constructor(wire: WireClients) {
    this.#wire = wire;
  }

  /** Requests that wait now. */
  get waits(): number {
    return this.#waiting.size;
  }

  /**
   * Reserves up to `max` jobs. It waits for the first one; the others must be ready by then. The
   * best come first.
   */
  async reserve(options: ReserveOptions): Promise<void> {
    const { tubes, signal, worker } = options;
    const key = [...new Set(tubes)].sort().join(" ");
    const connection = await this.#take(key);
    connection.nameWorker(worker);
    const taking = new Taking(connection, options);
    try {
      await this.#wait(taking, connection, options);
      while (taking.mayGoOn && !signal.aborted && !this.#stops) await taking.takeMore();
    } finally {
      if (signal.aborted || this.#stops || connection.isOver) connection.finish();
      else this.#keep(key, connection);
    }
  }

  /**
   * Reserves a job by its id, on a connection of its own, because shards ask for the name of the
   * connection's worker. Returns undefined if it can't be reserved.
   */
  async reserveJob(id: number, worker: string): Promise<ReservedJob | undefined> {
    const connection = this.#wire.open();
    try {
      connection.nameWorker(worker);
      return reservedJob(await connection.command(`reserve-job ${id}`));
    } finally {
      connection.close();
    }
  }

  async #wait(
    taking: Taking,
    connection: WireConnection,
    { waitSeconds, signal }: ReserveOptions,
  ): Promise<void> {
    const finish = (): void => connection.finish();
    this.#waiting.add(connection);
    signal.addEventListener("abort", finish);
    try {
      await taking.take(this.#stops || signal.aborted ? 0 : waitSeconds, 1);
    } finally {
      this.#waiting.delete(connection);
      signal.removeEventListener("abort", finish);
    }
  }

  /** Ends all waits and closes all idle connections. */
  stop(): void {
    this.#stops = true;
    for (const connection of this.#waiting) connection.finish();
    for (const idle of this.#idle.values())
      for (const { connection, timer } of idle) {
        clearTimeout(timer);
        connection.close();
      }
    this.#idle.clear();
  }

  async #take(key: string): Promise<WireConnection> {
    const idle = this.#idle.get(key);
    const kept = idle?.pop();
    if (kept !== undefined) {
      if (idle!.length === 0) this.#idle.delete(key);
      clearTimeout(kept.timer);
      this.#keptTubes -= tubesIn(key);
      if (!kept.connection.isOver) return kept.connection;
    }
    const connection = this.#wire.open();
    const tubes = key.split(" ");
    const replies = tubes
      .filter((tube) => tube !== "default")
      .map((tube) => connection.command(`watch ${tube}`));
    if (!tubes.includes("default")) replies.push(connection.command("ignore default"));
    const refused = (await Promise.all(replies)).find(({ line }) => !line.startsWith("WATCHING "));
    if (refused === undefined) return connection;
    connection.close();
    throw new Busy(`a tube can't be watched now: ${refused.line}`);
  }

  /** Each request may name new tubes, which exist as long as a connection watches them. */
  #keep(key: string, connection: WireConnection): void {
    if (this.#keptTubes + tubesIn(key) > KEPT_TUBES_MAX) {
      connection.close();
      return;
    }
    this.#keptTubes += tubesIn(key);
    const idle = this.#idle.get(key) ?? [];
    const timer = setTimeout(() => {
      this.#keptTubes -= tubesIn(key);
      const left = idle.filter((each) => each.connection !== connection);
      if (left.length === 0) this.#idle.delete(key);
      idle.splice(0, idle.length, ...left);
      connection.close();
    }, KEPT_MS);
    timer.unref();
    idle.push({ connection, timer });
    this.#idle.set(key, idle);
  }
}

const tubesIn = (key: string): number => key.split(" ").length;

/** The reserves of one request. It sends further chunks as long as jobs are ready. */
class Taking {
  readonly #connection: WireConnection;
  readonly #options: ReserveOptions;
  #jobs = 0;
  #bytes = 0;
  /** True if the last chunk brought a job for each reserve. */
  #hasMore = false;

  constructor(connection: WireConnection, options: ReserveOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  get mayGoOn(): boolean {
    return this.#hasMore && !this.#connection.isOver && this.#chunk > 0;
  }

  async takeMore(): Promise<void> {
    await this.take(0, this.#chunk);
  }

  async take(waitSeconds: number, count: number): Promise<void> {
    const before = this.#jobs;
    await this.#connection.repeat(`reserve-with-timeout ${waitSeconds}`, count, this.#onReply);
    this.#hasMore = this.#jobs === before + count;
  }

  readonly #onReply = (reply: WireReply): void => {
    const job = reservedJob(reply);
    if (job === undefined) return;
    this.#jobs++;
    this.#bytes += job.body.length;
    this.#options.onJob(job);
  };

  /** Size of the next chunk, from the mean length of the jobs so far. */
  get #chunk(): number {
    const { max, bytesMax, room } = this.#options;
    const bytesLeft = bytesMax - this.#bytes;
    if (bytesLeft <= 0) return 0;
    const meanBytes = Math.max(1, this.#bytes / this.#jobs);
    const fitting = Math.max(1, Math.floor(bytesLeft / meanBytes));
    return Math.min(CHUNK_MAX, max - this.#jobs, room(), fitting);
  }
}

const HYPHEN = 0x2d;
const ZERO = 0x30;
/** Number of numbers between RESERVED and the tube's name. */
const NUMBERS = 6 + JOB_COUNTERS.length;
/** Begins each pair of a job's context, which has no blanks. */
const META = " meta=";
const NO_META: readonly string[] = [];
/** Numbers of the line being parsed. */
const numbers = new Float64Array(NUMBERS);

/** Returns the job in a RESERVED reply to a lease; undefined for other replies. */
export function reservedJob({ line, body }: WireReply): ReservedJob | undefined {
  if (body === undefined || !line.startsWith("RESERVED ")) return undefined;
  // Parsed by hand: splitting it into fourteen strings and converting twelve takes three times as
  // long.
  let at = "RESERVED ".length;
  for (let field = 0; field < NUMBERS; field++) {
    const end = line.indexOf(" ", at);
    // The time left may be negative.
    const isNegative = line.charCodeAt(at) === HYPHEN;
    let value = 0;
    for (let digit = isNegative ? at + 1 : at; digit < end; digit++)
      value = value * 10 + (line.charCodeAt(digit) - ZERO);
    numbers[field] = isNegative ? -value : value;
    at = end + 1;
  }
  // The name of a tube has no blank.
  const tubeEnd = line.indexOf(META, at);
  return {
    id: numbers[0]!,
    tube: tubeEnd < 0 ? line.slice(at) : line.slice(at, tubeEnd),
    pri: numbers[2]!,
    ttr: numbers[3]!,
    timeLeftMs: numbers[4]!,
    ageMs: numbers[5]!,
    ...eachJobCounter((_, at) => numbers[6 + at]!),
    meta: tubeEnd < 0 ? NO_META : line.slice(tubeEnd + META.length).split(META),
    body,
  };
}

// Jobs of one request on their way to the client. Each has a lease as soon as it arrives. If the
// response does not reach the client, all of them go back, and so does any job that arrives later.

interface HandoutParts {
  readonly leases: LeaseTable;
  readonly giveBacks: GiveBacks;
  readonly control: Pick<ControlClient, "shards">;
  /** Monotonic, ms. */
  readonly nowMs: () => number;
}

/** A job and its lease. */
interface HandedJob {
  readonly job: ReservedJob;
  readonly lease: Lease;
}

export class Handout {
  readonly handed: HandedJob[] = [];
  readonly #parts: HandoutParts;
  readonly #client: Pick<Lease, "owner" | "address">;
  readonly #dropped = new AbortController();
  #tube = "";
  #shard = 0;

  constructor(parts: HandoutParts, client: Pick<Lease, "owner" | "address">) {
    this.#parts = parts;
    this.#client = client;
  }

  /** Name of the worker that gets the jobs. */
  get worker(): string {
    return workerOf(this.#client);
  }

  /** Aborted once the jobs can't reach the client any more. */
  get signal(): AbortSignal {
    return this.#dropped.signal;
  }

  /** Adds a job that a shard has reserved for the request. */
  add(job: ReservedJob): void {
    const { leases, giveBacks, nowMs } = this.#parts;
    const { id, tube, reserves, ttr } = job;
    const sinceMs = nowMs();
    const times = { sinceMs, untilMs: sinceMs + job.timeLeftMs };
    const shard = this.#shardOf(tube);
    const lease = leases.give({ id, shard, reserves, tube, ttr, ...this.#client, ...times });
    if (this.signal.aborted) giveBacks.add([lease]);
    else this.handed.push({ job, lease });
  }

  /** The answer is written: forgets the bodies, and returns how to give the jobs back after all. */
  sent(): () => void {
    const leases = this.handed.splice(0).map(({ lease }) => lease);
    return () => this.#parts.giveBacks.add(leases);
  }

  /** Gives all jobs back. */
  drop(): void {
    if (this.signal.aborted) return;
    this.#dropped.abort();
    this.#parts.giveBacks.add(this.handed.splice(0).map(({ lease }) => lease));
  }

  /** Cached, since most jobs come from the same tube. */
  #shardOf(tube: string): number {
    if (tube !== this.#tube) {
      const bytes = asciiBytes(tube);
      this.#tube = tube;
      this.#shard = shardOfTube(bytes, 0, bytes.length, this.#parts.control.shards);
    }
    return this.#shard;
  }
}
