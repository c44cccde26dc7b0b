// Reserves over HTTP: connections in memory that watch what was asked for, kept for some seconds for whoever asks for the same.
//
// So a tube that is polled keeps its watcher, and a wait stands in the same line as every other client's. The jobs themselves
// go to leases (shard/control/leases.ts): the connection holds none, and may be used again at once.

import type { WireClients } from "./wire-clients.ts";
import type { WireConnection, WireReply } from "./wire-connection.ts";

/** How long a connection without a request is kept, ms. */
const KEPT_MS = 10_000;
/** Tubes that all connections together watch which are kept. */
const KEPT_TUBES_MAX = 10_000;
/** Waits at a time. */
export const WAITS_MAX = 10_000;
/** Reserves that are sent at a time once there was a job. */
const CHUNK_MAX = 32;

/** A job as RESERVED brings it to a lease: see shard/work/lease-details.ts. */
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
  /** Ends the wait. */
  readonly signal: AbortSignal;
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
  async reserve({ tubes, waitSeconds, max, bytesMax, signal }: ReserveOptions): Promise<ReservedJob[]> {
    const key = [...new Set(tubes)].sort().join(" ");
    const connection = await this.#take(key);
    const jobs: ReservedJob[] = [];
    try {
      const first = reservedJob(await this.#wait(connection, waitSeconds, signal));
      if (first === undefined) return jobs;
      jobs.push(first);
      await takeMore(connection, jobs, max, bytesMax);
      return jobs;
    } finally {
      if (signal.aborted || this.#stops) connection.finish();
      else this.#keep(key, connection);
    }
  }

  async #wait(connection: WireConnection, seconds: number, signal: AbortSignal): Promise<WireReply> {
    const finish = (): void => connection.finish();
    this.#waiting.add(connection);
    signal.addEventListener("abort", finish);
    try {
      return await connection.command(`reserve-with-timeout ${this.#stops || signal.aborted ? 0 : seconds}`);
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
      if (!kept.connection.isGone) return kept.connection;
    }
    const connection = this.#wire.open();
    const tubes = key.split(" ");
    const replies = tubes
      .filter((tube) => tube !== "default")
      .map((tube) => connection.command(`watch ${tube}`));
    if (!tubes.includes("default")) replies.push(connection.command("ignore default"));
    await Promise.all(replies);
    return connection;
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

/** Goes on as long as there are jobs at once, some reserves at a time. */
async function takeMore(
  connection: WireConnection,
  jobs: ReservedJob[],
  max: number,
  bytesMax: number,
): Promise<void> {
  let bytes = jobs[0]!.body.length;
  while (jobs.length < max && bytes < bytesMax) {
    const meanBytes = Math.max(1, bytes / jobs.length);
    const chunk = Math.max(
      1,
      Math.min(CHUNK_MAX, max - jobs.length, Math.floor((bytesMax - bytes) / meanBytes)),
    );
    const before = jobs.length;
    for (const reply of await connection.repeat("reserve-with-timeout 0", chunk)) {
      const job = reservedJob(reply);
      if (job === undefined) continue;
      jobs.push(job);
      bytes += job.body.length;
    }
    if (jobs.length < before + chunk) return;
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
