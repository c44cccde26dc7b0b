// Compares everything that the server has with the ledger, while no other client is connected.

import { setTimeout as sleep } from "node:timers/promises";
import type { Reply, WireClient } from "../support/server/wire-client.ts";
import type { JobLedger } from "./job-ledger.ts";
import { Violation } from "./violation.ts";

const AT_ONCE = 64;
/** Bodies that may come back at once, in bytes. */
const BYTES_AT_ONCE = 4 << 20;
const REPLY_MS = 60_000;
/** Time that the server has to notice that clients are gone, ms. */
const NOTICE_MS = 20_000;
const POLL_MS = 20;

const field = (reply: Reply, name: string): string =>
  new RegExp(`^${name}: "?([^"\n]*)"?$`, "m").exec(reply.body?.toString("latin1") ?? "")?.[1] ?? "";

export class Settlement {
  readonly #client: WireClient;
  readonly #ledger: JobLedger;
  #states = new Map<string, number>();
  #urgent = 0;

  constructor(client: WireClient, ledger: JobLedger) {
    this.#client = client;
    this.#ledger = ledger;
  }

  /**
   * Asks for every job that the ledger knows and every id that it does not, then compares gauges
   * and tubes. With `everything`, all ids that were ever given are asked for. Throws a Violation.
   */
  async run(everything = false): Promise<void> {
    await this.#untilAlone();
    const newest = await this.#newestId();
    const ids = new Set(this.#ledger.idsToSettle());
    for (let id = everything ? 1 : this.#ledger.settledUpTo + 1; id < newest; id++) ids.add(id);
    await this.#askForAll([...ids].sort((left, right) => left - right));
    this.#ledger.settled(newest, performance.now());
    await this.#compareGauges();
    await this.#compareTubes();
  }

  async #ask(line: string): Promise<Reply> {
    this.#client.send(`${line}\r\n`);
    return await this.#client.readReply(REPLY_MS);
  }

  /** Waits until the server has noticed that all clients are gone and has taken their jobs back. */
  async #untilAlone(): Promise<void> {
    const limitMs = performance.now() + NOTICE_MS;
    for (;;) {
      const stats = await this.#ask("stats");
      const connections = Number(field(stats, "current-connections"));
      const reserved = Number(field(stats, "current-jobs-reserved"));
      if (connections === 1 && reserved === 0) return;
      if (performance.now() > limitMs) {
        throw new Violation(
          `all clients left ${NOTICE_MS} ms ago, and the server counts ${connections} connections and ${reserved} reserved jobs`,
        );
      }
      await sleep(POLL_MS);
    }
  }

  /** The id of a job that is put and deleted for that: higher than all others. */
  async #newestId(): Promise<number> {
    this.#client.send("put 0 0 60 5\r\nprobe\r\n");
    const { line } = await this.#client.readReply(REPLY_MS);
    const id = Number(/^INSERTED (\d+)$/.exec(line)?.[1]);
    if (!(id > this.#ledger.highestId)) {
      throw new Violation(
        `a put was answered "${line}", and ids up to ${this.#ledger.highestId} were given before`,
      );
    }
    const { line: deleted } = await this.#ask(`delete ${id}`);
    if (deleted !== "DELETED") throw new Violation(`the probe ${id} cannot be deleted: ${deleted}`);
    return id;
  }

  async #askForAll(ids: readonly number[]): Promise<void> {
    for (let at = 0; at < ids.length; ) {
      const batch: number[] = [];
      for (let bytes = 0; at < ids.length && batch.length < AT_ONCE && bytes < BYTES_AT_ONCE; at++) {
        batch.push(ids[at]!);
        bytes += this.#ledger.jobs.get(ids[at]!)?.body.bytes ?? 0;
      }
      await this.#askForBatch(batch);
    }
  }

  async #askForBatch(ids: readonly number[]): Promise<void> {
    const sentMs = performance.now();
    this.#client.send(ids.map((id) => `peek ${id}\r\n`).join(""));
    const found = new Map<number, Reply>();
    for (const id of ids) {
      const reply = await this.#client.readReply(REPLY_MS);
      if (reply.line === "NOT_FOUND") this.#ledger.settleAbsent(id, performance.now());
      else found.set(id, reply);
    }
    this.#client.send([...found.keys()].map((id) => `stats-job ${id}\r\n`).join(""));
    for (const [id, reply] of found) this.#settle(id, reply, await this.#client.readReply(REPLY_MS), sentMs);
  }

  #settle(id: number, found: Reply, stats: Reply, sentMs: number): void {
    const nowMs = performance.now();
    const isWhole = found.line.startsWith(`FOUND ${id} `) && stats.line.startsWith("OK ");
    if (!isWhole) throw new Violation(`job ${id}: peek says "${found.line}", stats-job "${stats.line}"`);
    const state = field(stats, "state");
    const pri = Number(field(stats, "pri"));
    this.#ledger.settleFound(
      id,
      { body: found.body!, tube: field(stats, "tube"), state, pri },
      sentMs,
      nowMs,
    );
    this.#states.set(state, (this.#states.get(state) ?? 0) + 1);
    if (state === "ready" && pri < 1024) this.#urgent++;
  }

  /**
   * A delay may end between the jobs and the gauges, so the two states that this concerns are
   * compared together.
   */
  async #compareGauges(): Promise<void> {
    const stats = await this.#ask("stats");
    const gauge = (name: string): number => Number(field(stats, `current-jobs-${name}`));
    const count = (state: string): number => this.#states.get(state) ?? 0;
    const moved = count("delayed") - gauge("delayed");
    const wrong = [
      moved < 0 || gauge("ready") !== count("ready") + moved ? "ready and delayed" : "",
      gauge("buried") === count("buried") ? "" : "buried",
      gauge("reserved") === 0 ? "" : "reserved",
      gauge("urgent") < this.#urgent || gauge("urgent") > this.#urgent + moved ? "urgent" : "",
    ].filter((name) => name !== "");
    if (wrong.length === 0) return;
    const seen = JSON.stringify({ ...Object.fromEntries(this.#states), urgent: this.#urgent });
    const told = ["ready", "delayed", "buried", "reserved", "urgent"].map((name) => `${name} ${gauge(name)}`);
    throw new Violation(
      `stats is wrong about ${wrong.join(", ")}: it says ${told.join(", ")}; found one by one: ${seen}`,
    );
  }

  /** A tube exists while it has jobs or a client, and no longer. */
  async #compareTubes(): Promise<void> {
    const expected = this.#ledger.liveTubes();
    if (!expected.has("default")) expected.set("default", 0);
    const list = (await this.#ask("list-tubes")).body?.toString("latin1") ?? "";
    const listed = list.split("\n").flatMap((line) => (line.startsWith("- ") ? [line.slice(2)] : []));
    const odd = [
      ...listed.filter((tube) => !expected.has(tube)),
      ...[...expected.keys()].filter((tube) => !listed.includes(tube)),
    ];
    if (odd.length > 0)
      throw new Violation(`list-tubes and the ledger differ about ${odd.slice(0, 20).join(", ")}`);
    for (const [tube, jobs] of expected) {
      const stats = await this.#ask(`stats-tube ${tube}`);
      const told = ["ready", "delayed", "buried", "reserved"].map((name) =>
        Number(field(stats, `current-jobs-${name}`)),
      );
      const sum = told.reduce((left, right) => left + right, 0);
      if (sum !== jobs) throw new Violation(`stats-tube counts ${sum} jobs in ${tube}, the ledger ${jobs}`);
    }
  }
}
