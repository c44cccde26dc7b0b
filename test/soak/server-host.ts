// Server under test: one process after another over the same log, with varying numbers of threads.

import { readdirSync, readlinkSync } from "node:fs";
import type { NetConnectOpts } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { SeededRandom } from "../support/seeded-random.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import type { JobLedger } from "./job-ledger.ts";
import type { SmallDisk } from "./small-disk.ts";
import { Violation } from "./violation.ts";
import type { WallClock } from "./wall-clock.ts";

const SEGMENT_BYTES = 2_000_000;
const JOB_BYTES_MAX = 1 << 20;
const FSYNC_MS = 50;
const START_MS = 60_000;
/** Descriptors that the runtime may open for itself. */
const DESCRIPTORS_SPARE = 4;
/** One segment may be between its unlink and its close. */
const UNLINKED_OPEN_MAX = 1;
/**
 * Left alone, V8 lets the young generation of a busy thread grow by and by to tens of MiB. That is
 * no leak and ends, but a leak would hide behind it for minutes.
 */
const YOUNG_OPTION = "--max-semi-space-size=4";
/** Young processes still compile and fill their pools. */
const WARM_SECONDS = 6;
const RSS_FACTOR = 1.25;
const RSS_SPARE_BYTES = 64 << 20;
/** The slabs and rings may hold a body more than once. */
const RSS_PER_LIVE_BYTE = 3;
/** Time that compaction has to catch up while nothing else goes on, ms. */
const COMPACTION_MS = 20_000;
/** END, MARK and DROP records, and the lock. */
const LOG_SPARE_BYTES = 1 << 16;
const CLOSING_MS = 10_000;
const POLL_MS = 20;

interface Sample {
  readonly rssBytes: number;
  /**
   * Open descriptors, without those of the log's segments: their number follows the size of the
   * log.
   */
  readonly descriptors: number;
  /** Segments that are unlinked and still open. */
  readonly unlinkedOpen: number;
}

/** One server process, from its first settlement when warm to its last. */
export interface Stay {
  readonly first: Sample;
  readonly liveBytesFirst: number;
  last: Sample;
  liveBytesLast: number;
  /** From one to the other, whole seconds. */
  seconds: number;
}

/** Rewrites where clients connect to, for runs with a planted fault. */
export type Intermediary = (address: NetConnectOpts) => Promise<NetConnectOpts>;

export class ServerHost {
  /** Flags of this server. */
  description = "";
  readonly #disk: SmallDisk;
  readonly #clock: WallClock;
  readonly #ledger: JobLedger;
  readonly #intermediary: Intermediary | undefined;
  #server: ServerProcess | undefined;
  #checker: WireClient | undefined;
  #address: NetConnectOpts = { port: 0 };
  #startedMs = 0;
  /** Age of the process at its first settlement when warm. */
  #warmSeconds = 0;
  #descriptorsAtStart = 0;
  #stay: Stay | undefined;
  /** The longest so far. */
  #longest: Stay | undefined;

  constructor(disk: SmallDisk, clock: WallClock, ledger: JobLedger, intermediary?: Intermediary) {
    this.#disk = disk;
    this.#clock = clock;
    this.#ledger = ledger;
    this.#intermediary = intermediary;
  }

  get process(): ServerProcess {
    if (this.#server === undefined) throw new Error("unreachable: no server was started");
    return this.#server;
  }

  /** A connection that isn't counted as a client. */
  get checker(): WireClient {
    if (this.#checker === undefined) throw new Error("unreachable: no server was started");
    return this.#checker;
  }

  get address(): NetConnectOpts {
    return this.#address;
  }

  async start(random: SeededRandom): Promise<void> {
    const fsyncMs = random.chance(0.5) ? FSYNC_MS : 0;
    const shards = random.between(1, 7);
    const acceptors = random.between(1, 3);
    const threads = ["--shards", `${shards}`, "--acceptors", `${acceptors}`];
    const log = ["-b", this.#disk.directory, "-f", `${fsyncMs}`, "-s", `${SEGMENT_BYTES}`];
    const fromMs = performance.now();
    try {
      this.#server = await startServer({
        kind: "ours",
        flags: [...threads, ...log, "-z", `${JOB_BYTES_MAX}`],
        env: { ...this.#clock.env, NODE_OPTIONS: `${this.#clock.nodeOption} ${YOUNG_OPTION}` },
        startMs: START_MS,
      });
    } finally {
      // Also if the disk is full and the server ends again: it may have looked at its clock.
      this.#ledger.serverStarted(this.#clock.offsetMs, fromMs, performance.now());
    }
    this.description = `${shards} shards, ${acceptors} acceptors, -f ${fsyncMs}`;
    this.#checker = await WireClient.connect(this.#server.address);
    this.#address = (await this.#intermediary?.(this.#server.address)) ?? this.#server.address;
    this.#startedMs = performance.now();
    this.#descriptorsAtStart = this.sample().descriptors;
    this.#stay = undefined;
  }

  /** The process that was watched for longest, if any for a second. */
  get longest(): Stay | undefined {
    return this.#longest;
  }

  sample(): Sample {
    const targets = this.#descriptorTargets();
    const outside = targets.filter((target) => !target.startsWith(this.#disk.directory));
    const unlinked = targets.filter(
      (target) => target.startsWith(this.#disk.directory) && target.endsWith(" (deleted)"),
    );
    return {
      rssBytes: this.process.residentBytes(),
      descriptors: outside.length,
      unlinkedOpen: unlinked.length,
    };
  }

  /** Returns the target of each open descriptor. */
  #descriptorTargets(): string[] {
    const directory = `/proc/${this.process.pid}/fd`;
    return readdirSync(directory).flatMap((name) => {
      try {
        return [readlinkSync(`${directory}/${name}`)];
      } catch {
        // Closed since it was listed.
        return [];
      }
    });
  }

  /**
   * Memory, descriptors and log must be what the live jobs need, at a moment when no client is
   * connected.
   */
  async checkResources(): Promise<Sample> {
    await this.#checkDescriptors();
    const sample = this.sample();
    this.#checkMemory(sample);
    await this.#checkLog();
    return sample;
  }

  /** Sockets are closed a moment after their connections are no longer counted. */
  async #checkDescriptors(): Promise<void> {
    const limitMs = performance.now() + CLOSING_MS;
    for (;;) {
      const { descriptors, unlinkedOpen } = this.sample();
      if (descriptors <= this.#descriptorsAtStart + DESCRIPTORS_SPARE && unlinkedOpen <= UNLINKED_OPEN_MAX)
        return;
      if (performance.now() > limitMs) {
        throw new Violation(
          `${descriptors} descriptors are open, and ${this.#descriptorsAtStart} were at the start; ${unlinkedOpen} unlinked segments are open`,
          this.#descriptorTargets(),
        );
      }
      await sleep(POLL_MS);
    }
  }

  #checkMemory(last: Sample): void {
    const { liveBytes } = this.#ledger;
    const seconds = Math.round((performance.now() - this.#startedMs) / 1000);
    if (this.#stay === undefined) {
      if (seconds < WARM_SECONDS) return;
      this.#stay = { first: last, last, liveBytesFirst: liveBytes, liveBytesLast: liveBytes, seconds: 0 };
      this.#warmSeconds = seconds;
    }
    const { first, liveBytesFirst } = this.#stay;
    Object.assign(this.#stay, { last, liveBytesLast: liveBytes, seconds: seconds - this.#warmSeconds });
    if (this.#stay.seconds >= (this.#longest?.seconds ?? 1)) this.#longest = this.#stay;
    const more = Math.max(0, liveBytes - liveBytesFirst) * RSS_PER_LIVE_BYTE;
    const boundBytes = first.rssBytes * RSS_FACTOR + RSS_SPARE_BYTES + more;
    if (last.rssBytes > boundBytes) {
      throw new Violation(
        `memory grew from ${mib(first.rssBytes)} to ${mib(last.rssBytes)}; bound ${mib(boundBytes)}`,
      );
    }
  }

  async #checkLog(): Promise<void> {
    const boundBytes = 2 * this.#ledger.liveBytes + 2 * SEGMENT_BYTES + LOG_SPARE_BYTES;
    const limitMs = performance.now() + COMPACTION_MS;
    for (let bytes = this.#disk.logBytes(); bytes > boundBytes; bytes = this.#disk.logBytes()) {
      if (performance.now() > limitMs) {
        throw new Violation(
          `the log has ${mib(bytes)} for ${mib(this.#ledger.liveBytes)} of live jobs; bound ${mib(boundBytes)}`,
        );
      }
      await sleep(POLL_MS);
    }
  }

  /** Ends the process with SIGKILL. */
  async kill(): Promise<void> {
    this.#checker?.close();
    await this.process.kill();
    this.#ledger.clock.ended(performance.now(), false);
  }

  /** Ends the process with SIGTERM, and expects that it takes it well. */
  async terminate(): Promise<void> {
    this.#checker?.close();
    const { code, signal } = await this.process.stop();
    if (code !== 0)
      throw new Violation(`after SIGTERM the server ended with ${code ?? signal}: ${this.lastWords}`);
    this.#ledger.clock.ended(performance.now(), true);
  }

  /** The end of what the server has said on stderr. */
  get lastWords(): string {
    return this.process.stderr.slice(-2000);
  }
}

export const mib = (bytes: number): string => `${(bytes / (1 << 20)).toFixed(1)} MiB`;
