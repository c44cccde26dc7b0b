// Clients of the soak: a fixed number of workers, each of which plays one client after another, of
// random kinds.

import { setMaxListeners } from "node:events";
import type { NetConnectOpts } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { SeededRandom } from "../support/seeded-random.ts";
import { BEHAVIOURS, type BehaviourName, WEIGHTS } from "./behaviours.ts";
import type { ClientHost } from "./client-host.ts";
import type { Counters } from "./counters.ts";
import type { JobLedger } from "./job-ledger.ts";
import { SoakClient } from "./soak-client.ts";
import { Violation } from "./violation.ts";

/** Longer than the longest reply limit of a client. */
const QUIET_MS = 45_000;
const RECONNECT_MS = 20;

interface LoadOptions {
  readonly ledger: JobLedger;
  readonly counters: Counters;
  readonly workers: number;
  readonly seed: number;
}

export class Load implements ClientHost {
  readonly ledger: JobLedger;
  readonly counters: Counters;
  readonly allowed: { diskFull: boolean; draining: boolean } = { diskFull: false, draining: false };
  readonly clients: Map<SoakClient, BehaviourName> = new Map();
  /** The server is about to end, ends or has ended: connections break. */
  serverGoes = true;
  /** Replies are not timed before that moment: an event delays them. */
  disturbedUntilMs: number = Number.POSITIVE_INFINITY;
  /** The first promise that was not kept. */
  violation: Violation | undefined;
  #address: NetConnectOpts = { port: 0 };
  #shut = new AbortController();
  #opened = Promise.withResolvers<void>();
  #running = 0;
  #ended = false;
  readonly #violated = Promise.withResolvers<never>();
  readonly #workers: readonly Promise<void>[];

  constructor(options: LoadOptions) {
    this.ledger = options.ledger;
    this.counters = options.counters;
    this.#shut.abort();
    this.#violated.promise.catch(() => {});
    this.#workers = Array.from({ length: options.workers }, (_, index) =>
      this.#work(index, new SeededRandom(options.seed + index * 0x9e3779b1)),
    );
  }

  /** Rejects with the first violation; never resolves. */
  get violated(): Promise<never> {
    return this.#violated.promise;
  }

  fail(violation: Violation): void {
    this.violation ??= violation;
    this.#violated.reject(this.violation);
  }

  /** Clients come from now on, to this server. */
  open(address: NetConnectOpts): void {
    this.#address = address;
    this.serverGoes = false;
    this.#shut = new AbortController();
    setMaxListeners(0, this.#shut.signal);
    this.#opened.resolve();
  }

  /** No more clients; resolves when those that are there have finished and closed. */
  async close(): Promise<void> {
    // Workers wait on the one that is there, if it is closed already.
    if (this.isOpen) this.#opened = Promise.withResolvers();
    this.#shut.abort();
    const limitMs = performance.now() + QUIET_MS;
    while (this.#running > 0 && this.violation === undefined) {
      if (performance.now() > limitMs) {
        this.fail(new Violation(`these clients still wait after ${QUIET_MS} ms: ${this.#describe()}`));
      }
      await sleep(5);
    }
    if (this.violation !== undefined) throw this.violation;
  }

  /** Ends the workers for good. */
  async end(): Promise<void> {
    this.#ended = true;
    this.#shut.abort();
    this.#opened.resolve();
    for (const client of this.clients.keys()) client.close();
    await Promise.all(this.#workers);
  }

  get isOpen(): boolean {
    return !this.#shut.signal.aborted;
  }

  async rest(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#shut.signal }).catch(() => {});
  }

  startTimer(): (kind: string) => void {
    const startMs = performance.now();
    return (kind) => {
      if (startMs > this.disturbedUntilMs) this.counters.time(kind, performance.now() - startMs);
    };
  }

  #describe(): string {
    return [...this.clients].map(([client, kind]) => `${client.name} (${kind})`).join(", ");
  }

  async #work(worker: number, random: SeededRandom): Promise<void> {
    for (let turn = 0; ; turn++) {
      await this.#opened.promise;
      if (this.#ended || this.violation !== undefined) return;
      this.#running++;
      try {
        await this.#play(`client ${worker}.${turn}`, random);
      } finally {
        this.#running--;
      }
    }
  }

  async #play(name: string, random: SeededRandom): Promise<void> {
    let client: SoakClient;
    try {
      client = await SoakClient.connect(name, this.#address, this);
    } catch (error) {
      if (!this.serverGoes) this.fail(new Violation(`${name} cannot connect: ${error}`));
      await sleep(RECONNECT_MS);
      return;
    }
    const kind = random.weighted(WEIGHTS);
    this.clients.set(client, kind);
    this.counters.add(`client: ${kind}`);
    try {
      await BEHAVIOURS[kind](client, random, this);
    } catch (error) {
      if (error instanceof Violation) this.fail(error);
      else if (!this.serverGoes && !client.wasCut && !this.#ended) {
        this.fail(new Violation(`${name} (${kind}): ${error instanceof Error ? error.message : error}`));
      }
    } finally {
      client.close();
      this.clients.delete(client);
    }
  }
}
