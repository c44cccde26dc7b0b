// Reserves over HTTP: connections in memory that watch what was asked for, kept for some seconds for whoever asks for the same.
//
// So a tube that is polled keeps its watcher, and a wait stands in the same line as every other client's. The jobs themselves
// go to leases (shard/control/leases.ts): the connection holds none, and may be used again at once.

import { Busy } from "../link/busy.ts";
import type { WireClients } from "../link/wire-clients.ts";
import type { WireConnection, WireReply } from "../link/wire-connection.ts";

/** How long a connection without a request is kept, ms. */
const KEPT_MS = 10_000;
/** Tubes that all connections together watch which are kept. */
const KEPT_TUBES_MAX = 10_000;
/** Waits at a time. */
export const WAITS_MAX = 10_000;
/** Reserves that are sent at a time once there was a job. */
const CHUNK_MAX = 32;

/** A job as RESERVED brings it to a lease: see shard/replies/lease-details.ts. */
export interface ReservedJob {
  readonly id: number;
  readonly tube: string;
  readonly reserves: number;
  readonly pri: number;
  readonly ttr: number;
  readonly timeLeftMs: number;
  readonly ageMs: number;
  readonly timeouts: number;
  readonly releases: number;
  readonly buries: number;
  readonly kicks: number;
  readonly body: Buffer;
}

export interface ReserveOptions {
  readonly tubes: readonly string[];
  readonly waitSeconds: number;
  readonly max: number;
  readonly bytesMax: number;
  /** How many jobs more there is room for behind the first, as far as is known; asked again and again. */
  readonly room: () => number;
  /** Ends the wait. */
  readonly signal: AbortSignal;
  /**
   * Takes each job as soon as its shard has told of it. From then on the job is the taker's, whatever becomes of the request: it
   * must not throw.
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

  /** Takes up to `max` jobs, waiting for the first; what is ready then comes with it, best first. */
  async reserve(options: ReserveOptions): Promise<void> {
    const { tubes, signal } = options;
    const key = [...new Set(tubes)].sort().join(" ");
    const connection = await this.#take(key);
    const taking = new Taking(connection, options);
    try {
      await this.#wait(taking, connection, options);
      while (taking.mayGoOn && !signal.aborted && !this.#stops) await taking.takeMore();
    } finally {
      if (signal.aborted || this.#stops || connection.isOver) connection.finish();
      else this.#keep(key, connection);
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

  /** Ends all waits, and keeps no connection any more. */
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

  /** Names may be new ones in each request, which would be tubes for as long as connections watch them. */
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

/** How many tubes the key of a connection names. */
const tubesIn = (key: string): number => key.split(" ").length;

/** The reserves of one request: goes on as long as there are jobs at once, some reserves at a time. */
class Taking {
  readonly #connection: WireConnection;
  readonly #options: ReserveOptions;
  #jobs = 0;
  #bytes = 0;
  /** Whether the last reserves have all brought a job. */
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

  /** How many come next, by the mean length of those that have come. */
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
/** Numbers between RESERVED and the name of the tube. */
const NUMBERS = 11;
/** Those of the line that is looked at. */
const numbers = new Float64Array(NUMBERS);

/** The job of a RESERVED for a lease; undefined for any other reply. */
export function reservedJob({ line, body }: WireReply): ReservedJob | undefined {
  if (body === undefined || !line.startsWith("RESERVED ")) return undefined;
  // By hand: thirteen texts, and the numbers of eleven of them, take three times as long.
  let at = "RESERVED ".length;
  for (let field = 0; field < NUMBERS; field++) {
    const end = line.indexOf(" ", at);
    // Time may be over already.
    const isNegative = line.charCodeAt(at) === HYPHEN;
    let value = 0;
    for (let digit = isNegative ? at + 1 : at; digit < end; digit++)
      value = value * 10 + (line.charCodeAt(digit) - ZERO);
    numbers[field] = isNegative ? -value : value;
    at = end + 1;
  }
  return {
    id: numbers[0]!,
    tube: line.slice(at),
    reserves: numbers[2]!,
    pri: numbers[3]!,
    ttr: numbers[4]!,
    timeLeftMs: numbers[5]!,
    ageMs: numbers[6]!,
    timeouts: numbers[7]!,
    releases: numbers[8]!,
    buries: numbers[9]!,
    kicks: numbers[10]!,
    body,
  };
}
