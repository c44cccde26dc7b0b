// One soak from a seed: load, events, settlements, and the final inventory.

import { SeededRandom } from "../support/seeded-random.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { Counters } from "./counters.ts";
import type { EventHost } from "./event-host.ts";
import { EVENTS, type EventName, MIXED_DECK, NEED_SMALL_DISK, UP_DECK } from "./events.ts";
import { JobLedger } from "./job-ledger.ts";
import { Load } from "./load.ts";
import { type Intermediary, mib, ServerHost, type Stay } from "./server-host.ts";
import { Settlement } from "./settlement.ts";
import { SmallDisk } from "./small-disk.ts";
import { SoakClient } from "./soak-client.ts";
import { Violation } from "./violation.ts";
import { WallClock } from "./wall-clock.ts";

interface SoakOptions {
  readonly seed: number;
  readonly seconds: number;
  /** Put the log on a small disk that can be filled, if mounting is allowed. */
  readonly disk: boolean;
  readonly say: (line: string) => void;
  readonly intermediary?: Intermediary;
}

export interface SoakResult {
  readonly operations: Counters;
  readonly events: Counters;
  readonly jobsChecked: number;
  readonly jobsPut: number;
  readonly longest: Stay | undefined;
}

const WORKERS = 40;
/** After an event replies may be slow for so long. */
const AFTERMATH_MS = 1000;
/** Share of the time with restarts; in the rest the server stays up, so that growth shows. */
const MIXED_SHARE = 0.6;
const CLOCK_STEP_ON_RESTART = 0.3;

export class Soak implements EventHost {
  readonly random: SeededRandom;
  readonly ledger = new JobLedger();
  readonly load: Load;
  readonly host: ServerHost;
  readonly disk: SmallDisk;
  readonly clock = new WallClock();
  readonly #options: SoakOptions;
  readonly #operations = new Counters();
  readonly #events = new Counters();
  #operationsBefore = 0;
  readonly #startMs = performance.now();

  constructor(options: SoakOptions) {
    this.#options = options;
    this.random = new SeededRandom(options.seed);
    this.disk = new SmallDisk(options.disk);
    this.host = new ServerHost(this.disk, this.clock, this.ledger, options.intermediary);
    this.load = new Load({
      ledger: this.ledger,
      counters: this.#operations,
      workers: WORKERS,
      seed: this.random.between(0, 2 ** 31),
    });
  }

  /** Runs all of it. Throws the first Violation. */
  async run(): Promise<SoakResult> {
    try {
      await Promise.race([this.#play(), this.load.violated]);
      return {
        operations: this.#operations,
        events: this.#events,
        jobsChecked: this.ledger.checked,
        jobsPut: this.ledger.highestId,
        longest: this.host.longest,
      };
    } finally {
      this.load.serverGoes = true;
      await this.host.kill().catch(() => {});
      await this.load.end();
      this.disk.remove();
    }
  }

  async #play(): Promise<void> {
    await this.host.start(this.random);
    this.#say("start", this.host.description);
    this.#reopen();
    await this.#deals(MIXED_DECK, performance.now() + this.#options.seconds * MIXED_SHARE * 1000);
    await this.#deals(UP_DECK, performance.now() + this.#options.seconds * (1 - MIXED_SHARE) * 1000);
    await this.#takeInventory();
  }

  /** Plays events until `endMs`, each deck to its end before the next deal. */
  async #deals(names: readonly EventName[], endMs: number): Promise<void> {
    let deck: EventName[] = [];
    while (performance.now() < endMs) {
      await this.load.rest(this.random.between(500, 2500));
      if (deck.length === 0) deck = this.#deal(names);
      await this.#happen(deck.pop()!);
    }
  }

  /** A shuffled deck, without what cannot be played here. */
  #deal(names: readonly EventName[]): EventName[] {
    const left = names.filter((name) => this.disk.canBeFilled || !NEED_SMALL_DISK.includes(name));
    return Array.from(
      { length: left.length },
      () => left.splice(this.random.between(0, left.length - 1), 1)[0]!,
    );
  }

  async #happen(name: EventName): Promise<void> {
    const operations = this.#operations.total();
    if (operations === this.#operationsBefore)
      throw new Violation("no client has had an answer since the last event");
    this.load.disturbedUntilMs = Number.POSITIVE_INFINITY;
    const what = await EVENTS[name](this);
    this.load.disturbedUntilMs = performance.now() + AFTERMATH_MS;
    this.#operationsBefore = this.#operations.total();
    this.#events.add(name);
    this.#say(name, what);
  }

  // --- for events --------------------------------------------------------------------------------

  serverGoes(): void {
    this.load.serverGoes = true;
    this.ledger.serverEnds(performance.now());
  }

  async start(): Promise<void> {
    if (this.random.chance(CLOCK_STEP_ON_RESTART)) this.clock.step(this.newClockOffset(3_600_000));
    await this.host.start(this.random);
  }

  async resume(): Promise<string> {
    const checked = await this.#compare(false);
    this.#reopen();
    return `${this.host.description}; ${checked}`;
  }

  async restart(): Promise<string> {
    await this.start();
    return await this.resume();
  }

  async pause(): Promise<string> {
    await this.load.close();
    const checked = await this.#compare(false);
    this.#reopen();
    return checked;
  }

  newClockOffset(maxMs: number): number {
    const sizeMs = this.random.chance(0.5) ? 10_000 : maxMs;
    return this.random.between(-sizeMs, sizeMs);
  }

  // --- inside ------------------------------------------------------------------------------------

  #reopen(): void {
    this.load.open(this.host.address);
    this.load.disturbedUntilMs = performance.now() + AFTERMATH_MS;
  }

  async #compare(everything: boolean): Promise<string> {
    const before = this.ledger.checked;
    await new Settlement(this.host.checker, this.ledger).run(everything);
    const sample = await this.host.checkResources();
    const { liveJobs, liveBytes, checked } = this.ledger;
    const jobs = `${checked - before} jobs checked, ${liveJobs} live (${mib(liveBytes)})`;
    return `${jobs}, log ${mib(this.disk.logBytes())}, RSS ${mib(sample.rssBytes)}, ${sample.descriptors} fds`;
  }

  /**
   * An orderly restart, every job drained, another restart, all ids ever given asked for: nothing
   * may be left or come back.
   */
  async #takeInventory(): Promise<void> {
    await this.load.close();
    for (const drain of [true, false]) {
      this.serverGoes();
      await this.host.terminate();
      await this.host.start(this.random);
      const checked = await this.#compare(!drain);
      this.#say("inventory", `${this.host.description}; ${checked}`);
      if (drain) await this.#drainAll();
    }
    await this.host.terminate();
  }

  /** Every live job must be handed out by reserve, once, after kicks. */
  async #drainAll(): Promise<void> {
    const client = new SoakClient("inventory", await WireClient.connect(this.host.address), this.load);
    for (const tube of this.ledger.liveTubes().keys()) {
      await client.ask(`watch ${tube}`, /^WATCHING /);
      // Buried ones first, then delayed ones: a kick takes only one kind.
      for (let round = 0; round < 2; round++) await client.kick(tube, 2 ** 32 - 1);
    }
    for (let held = await client.reserve(2); held !== undefined; held = await client.reserve(2)) {
      await client.delete(held);
    }
    client.close();
    if (this.ledger.liveJobs > 0) {
      const left = [...this.ledger.jobs.values()].find((job) => !job.isDeleted)!;
      throw new Violation(
        `${this.ledger.liveJobs} jobs were not handed out after a kick, such as ${left.id}`,
        left.history,
      );
    }
  }

  #say(name: string, what: string): void {
    const at = ((performance.now() - this.#startMs) / 1000).toFixed(1).padStart(6);
    this.#options.say(`${at} s  ${name.padEnd(11)} ${what}`);
  }
}
