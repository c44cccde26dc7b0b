// A running server that returns to the same state after each conversation: no job, no pause, one
// connection.

import type { Address } from "../support/conversations/lockstep-side.ts";
import { type ServerKind, type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

/** Stands between a server and the clients of the conversations. */
interface Between {
  readonly address: Address;
  close(): void;
}

export interface FuzzServerOptions {
  readonly kind: ServerKind;
  readonly flags: readonly string[];
  /** Makes what stands in front of a server; each server has its own, which is closed with it. */
  readonly through?: (address: Address) => Promise<Between>;
}

/** A fuzzer is run beside other work. */
const START_MS = 60_000;
const REST_MS = 8000;
/**
 * Above this the conversations have left something behind for good. V8 lets the heaps of five
 * threads grow by some 100 MB within the first ten thousands of connections, and keeps them there.
 */
const GROWN_BYTES_MAX = 192 * 1024 * 1024;
const WARM_UP_CONVERSATIONS = 150;

export class FuzzServer {
  readonly process: ServerProcess;
  /** Where the conversations' clients connect to. */
  readonly address: Address;
  readonly #keeper: WireClient;
  readonly #between: Between | undefined;
  #lastId = 0;
  #conversations = 0;
  #warmBytes = 0;

  private constructor(
    process: ServerProcess,
    own: Address,
    between: Between | undefined,
    keeper: WireClient,
  ) {
    this.process = process;
    this.address = between?.address ?? own;
    this.#between = between;
    this.#keeper = keeper;
  }

  static async start(options: FuzzServerOptions): Promise<FuzzServer> {
    const process = await startServer({ kind: options.kind, flags: options.flags, startMs: START_MS });
    const own: Address = { port: process.port, host: "127.0.0.1" };
    const between = await options.through?.(own);
    return new FuzzServer(process, own, between, await WireClient.connect(own));
  }

  async stop(): Promise<void> {
    this.#keeper.close();
    this.#between?.close();
    await this.process.stop();
  }

  /**
   * Waits until the keeper's is the only connection, deletes what conversations have left, and
   * returns the id given out last. Fails when a connection, a job, a tube or a wait stays.
   */
  async tidy(): Promise<number> {
    const keeper = this.#keeper;
    await this.restsWith(1);
    // A job is released a little after the connection that held it is gone, and would survive its
    // deletion until then.
    await this.untilStats(
      (stats) => stats.get("current-jobs-reserved") === "0",
      "a job stays reserved by nobody",
    );
    await this.#deleteSchedules();
    const { line } = await keeper.put("");
    const id = Number(/^INSERTED (\d+)$/.exec(line)?.[1]);
    if (!(id > this.#lastId))
      throw new Error(`The server answered a put with ${line} after job ${this.#lastId}`);
    let commands = "pause-tube default 0\r\n";
    for (let each = this.#lastId + 1; each <= id; each++) commands += `delete ${each}\r\n`;
    keeper.send(commands);
    for (let replies = id - this.#lastId + 1; replies > 0; replies--) await keeper.readReply();
    this.#lastId = id;
    this.#expectMemory();
    return id;
  }

  /** They would go on putting jobs. */
  async #deleteSchedules(): Promise<void> {
    if (this.process.kind !== "ours") return;
    const { body } = await this.#keeper.ask("list-schedules limit=1000");
    for (const [, name] of `${body?.toString("latin1")}`.matchAll(/^- \{"name":("(?:[^"\\]|\\.)*")/gm))
      await this.#keeper.ask(`delete-schedule ${JSON.parse(name!)}`);
  }

  /** Values of `stats`. */
  async stats(): Promise<ReadonlyMap<string, string>> {
    const { body } = await this.#keeper.ask("stats");
    const rows = body?.toString("latin1").split("\n") ?? [];
    return new Map(
      rows.filter((row) => row.includes(": ")).map((row) => row.split(": ", 2) as [string, string]),
    );
  }

  /** Waits until so many connections are there, the keeper's with them. */
  async restsWith(connections: number): Promise<void> {
    const what = `not ${connections} connections`;
    await this.untilStats((stats) => stats.get("current-connections") === `${connections}`, what);
  }

  /** Asks for `stats` until they are as wished; fails with `complaint` when they never are. */
  async untilStats(
    isWished: (stats: ReadonlyMap<string, string>) => boolean,
    complaint: string,
  ): Promise<void> {
    const deadline = performance.now() + REST_MS;
    for (;;) {
      const stats = await this.stats();
      if (isWished(stats)) return;
      if (performance.now() > deadline)
        throw new Error(
          `At rest: ${complaint}\n${[...stats].map(([key, value]) => `${key}: ${value}`).join("\n")}`,
        );
    }
  }

  /** Fails unless jobs, tubes and waits are as in a server that has just started. */
  async expectEmpty(): Promise<void> {
    await this.tidy();
    const stats = await this.stats();
    const wanted = { "current-tubes": "1", "current-waiting": "0" };
    const states = ["urgent", "ready", "reserved", "delayed", "buried"].map((each) => `current-jobs-${each}`);
    for (const key of [...Object.keys(wanted), ...states]) {
      const value = (wanted as Record<string, string>)[key] ?? "0";
      if (stats.get(key) !== value)
        throw new Error(`At rest stats has ${key}: ${stats.get(key)}, not ${value}`);
    }
  }

  #expectMemory(): void {
    this.#conversations++;
    if (this.#conversations === WARM_UP_CONVERSATIONS) this.#warmBytes = this.process.residentBytes();
    if (this.#conversations <= WARM_UP_CONVERSATIONS || this.#conversations % 100 !== 0) return;
    const grown = this.process.residentBytes() - this.#warmBytes;
    if (grown > GROWN_BYTES_MAX)
      throw new Error(
        `${Math.round(grown / 1024 / 1024)} MiB more after ${this.#conversations} conversations`,
      );
  }
}
