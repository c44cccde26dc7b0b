// Times in the log, and wall clocks that are wrong at a start: no more of a delay, of a time to
// live or of the memory of a key remains than was recorded.

import assert from "node:assert/strict";
import { it } from "node:test";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import { JobState } from "../../../src/engine/jobs/job-table.ts";
import { LogWord } from "../../../src/ring/log-words.ts";
import { virtualOptions } from "../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../binlog/virtual-disk.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import type { FakeSocket } from "../server/fake-socket.ts";
import { InProcessServer } from "../server/in-process-server.ts";

const SEEDS = Number(process.env["CLOCK_SEEDS"] ?? 20);
const FIRST = Number(process.env["SEED"] ?? 1);
const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;
/** By how much the wall clock is ahead at a start. */
const ERRORS_MS = [0, 0, 500, -500, -90_000, -HOUR_MS, -YEAR_MS, -53 * YEAR_MS];
const PROCESSES = 5;
const SECONDS_MAX = 20;

/** What a put has recorded, in seconds. */
interface Recorded {
  readonly delay: number;
  readonly ttl: number;
}

class ClockCampaign {
  readonly #random: SeededRandom;
  readonly #disk = new VirtualDisk();
  readonly #recorded = new Map<number, Recorded>();
  readonly #keys = new Map<string, number>();
  #wallMs = Date.parse("2026-06-10T12:00Z");
  #server!: InProcessServer;
  #client!: FakeSocket;

  constructor(seed: number) {
    this.#random = new SeededRandom(seed);
  }

  async process(): Promise<void> {
    const random = this.#random;
    const shards = random.between(1, 3);
    const opened = await openBinlog({ ...virtualOptions(this.#disk), shards, segmentBytes: 128 * 1024 });
    const startsAtMs = 1000 + random.below(1000);
    this.#server = new InProcessServer({
      shards,
      acceptors: 1,
      random: new SeededRandom(random.bits()),
      startsAtMs,
      log: {
        disk: this.#disk,
        opened,
        repliesWaitFor: LogWord.Synced,
        recordRingBytes: 4096,
        wallOffsetMs: this.#wallMs + random.pick(ERRORS_MS)! - startsAtMs,
      },
    });
    this.#server.restore();
    this.#checkJobs();
    this.#client = this.#server.connect(0);
    this.#server.settle();
    this.#checkKeys();
    for (let acts = random.between(1, 10); acts > 0; acts--) this.#act();
    // The clock is set right, or wrong, while the server runs.
    this.#server.log!.wallOffsetMs = this.#wallMs + random.pick(ERRORS_MS)! - this.#server.nowMs;
    this.#act();
    this.#wallMs += this.#server.nowMs - startsAtMs;
    this.#server.halt();
    this.#disk.kill();
  }

  #checkJobs(): void {
    const { nowMs } = this.#server;
    for (const { engine } of this.#server.shards)
      for (const page of engine.jobs.pages.filter((each) => each !== undefined))
        for (const [row, state] of page.state.entries()) {
          const recorded = this.#recorded.get(page.id[row]!);
          if (state === JobState.Free || recorded === undefined) continue;
          const what = `job ${page.id[row]}`;
          assert.ok(page.createdAtMs[row]! <= nowMs, `${what} is not from the future`);
          if (state === JobState.Delayed)
            assert.ok(page.deadlineAtMs[row]! - nowMs <= recorded.delay * 1000, `the delay of ${what}`);
          if (recorded.ttl > 0)
            assert.ok(page.extras!.expiresAtMs[row]! - nowMs <= recorded.ttl * 1000, `the life of ${what}`);
        }
  }

  /** A key can be put again when its time is over, whatever the clock said at the start. */
  #checkKeys(): void {
    if (!this.#random.chance(0.5)) return;
    this.#server.nowMs += SECONDS_MAX * 1000;
    this.#server.settle();
    for (const key of this.#keys.keys())
      assert.match(
        this.#put(`k 0 0 60 1 unique=${key} unique-for=1`),
        /^INSERTED \d+\r\n$/,
        `the key ${key}`,
      );
    this.#say("watch k\r\n");
    for (let reserved = this.#reserve(); reserved !== undefined; reserved = this.#reserve())
      this.#say(`delete ${reserved}\r\n`);
    this.#keys.clear();
  }

  #act(): void {
    const random = this.#random;
    const delay = random.below(SECONDS_MAX);
    const ttl = random.pick([0, 1 + random.below(SECONDS_MAX)]);
    if (random.chance(0.3)) {
      const key = `key${this.#keys.size}-${random.below(1000)}`;
      this.#put(`k 0 0 60 1 unique=${key} unique-for=${SECONDS_MAX}`);
      this.#keys.set(key, SECONDS_MAX);
      const id = this.#say("watch k\r\n") === "" ? undefined : this.#reserve();
      if (id !== undefined) this.#say(`delete ${id}\r\n`);
    } else {
      const found = /^INSERTED (\d+)/.exec(this.#put(`t 0 ${delay} 60 1${ttl > 0 ? ` ttl=${ttl}` : ""}`));
      if (found !== null) this.#recorded.set(Number(found[1]), { delay, ttl });
    }
    this.#server.nowMs += random.below(3000);
    this.#server.settle();
  }

  #reserve(): string | undefined {
    return /^RESERVED (\d+)/.exec(this.#say("reserve-with-timeout 0\r\n"))?.[1];
  }

  #put(line: string): string {
    return this.#say(`put-in-tube ${line}\r\nx\r\n`);
  }

  #say(text: string): string {
    this.#client.write(Buffer.from(text, "latin1"));
    this.#server.settle();
    return this.#client.takeReceived().toString("latin1");
  }
}

it("no more of a time remains after a start than was recorded, whatever the wall clock shows", async () => {
  for (let seed = FIRST; seed < FIRST + SEEDS; seed++)
    try {
      const campaign = new ClockCampaign(seed);
      for (let process = 0; process < PROCESSES; process++) await campaign.process();
    } catch (error) {
      throw new Error(`again: SEED=${seed} CLOCK_SEEDS=1 bin/node --test ${import.meta.filename}`, {
        cause: error,
      });
    }
});
