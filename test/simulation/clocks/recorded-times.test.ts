// Times in the log, and wall clocks that are wrong at a start or step while the server runs: no
// more of a delay, of a time to live or of the memory of a key remains than was recorded, and as
// much as should where the server can know it.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { LogClock } from "../../../src/binlog/live/log-clock.ts";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import { JobState } from "../../../src/engine/jobs/job-table.ts";
import { LogWord } from "../../../src/ring/shared-words.ts";
import { virtualOptions } from "../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../binlog/virtual-disk.ts";
import { findOf } from "../../support/planted-find.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import type { FakeSocket } from "../server/fake-socket.ts";
import { InProcessServer } from "../server/in-process-server.ts";

const SEEDS = Number(process.env["CLOCK_SEEDS"] ?? 20);
const FIRST = Number(process.env["SEED"] ?? 1);
const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;
/** By how much the wall clock may be ahead. */
const ERRORS_MS = [
  0,
  0,
  0,
  50,
  500,
  -500,
  90_000,
  -90_000,
  HOUR_MS,
  -HOUR_MS,
  YEAR_MS,
  -YEAR_MS,
  -53 * YEAR_MS,
];
const PROCESSES = 6;
const SECONDS_MAX = 200;
const DOWN_MS_MAX = 60_000;
/** Smaller steps aren't noted, and each start may miss one. */
const SLACK_MS = 100 * PROCESSES;

/** What a put has recorded, and what is known of it, in times of the campaign's true clock. */
interface Recorded {
  readonly delayMs: number;
  readonly ttlMs: number;
  readonly keyMs: number;
  readonly atMs: number;
  /** Time that the server could not see pass, because its clock was wrong at a start, at most. */
  unseenMs: number;
  /** Time that it took for passed, because its clock was ahead at a start, at most. */
  excessMs: number;
}

type Plant = (clock: LogClock, server: InProcessServer) => void;

class ClockCampaign {
  readonly #random: SeededRandom;
  readonly #disk = new VirtualDisk();
  readonly #recorded = new Map<number, Recorded>();
  readonly #keys = new Map<string, Recorded>();
  #trueMs = Date.parse("2026-06-10T12:00Z");
  /** How far the wall clock was ahead of the true one when the server looked last. */
  #seenErrorMs = 0;
  #errorMs = 0;
  #newestMs = 0;
  #server!: InProcessServer;
  #client!: FakeSocket;

  readonly #plant: Plant;

  constructor(seed: number, plant: Plant = () => {}) {
    this.#random = new SeededRandom(seed);
    this.#plant = plant;
  }

  async process(): Promise<void> {
    const random = this.#random;
    const shards = random.between(1, 3);
    const opened = await openBinlog({ ...virtualOptions(this.#disk), shards, segmentBytes: 128 * 1024 });
    const downMs = random.below(DOWN_MS_MAX);
    this.#trueMs += downMs;
    const startsAtMs = 1000 + random.below(1000);
    this.#errorMs = random.chance(0.5) ? this.#seenErrorMs : random.pick(ERRORS_MS)!;
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
        wallOffsetMs: this.#trueMs + this.#errorMs - startsAtMs,
      },
    });
    this.#plant(this.#server.logClock!, this.#server);
    this.#judgeStart(downMs);
    this.#server.restore();
    this.#checkJobs();
    this.#client = this.#server.connect(0);
    this.#server.settle();
    this.#seenErrorMs = this.#errorMs;
    for (let acts = random.between(1, 12); acts > 0; acts--) this.#act();
    if (random.chance(0.3)) this.#checkKeys();
    this.#end();
  }

  /** Notes for each time what the server can't know at this start. */
  #judgeStart(downMs: number): void {
    const seenMs = downMs + this.#errorMs - this.#seenErrorMs;
    for (const recorded of [...this.#recorded.values(), ...this.#keys.values()]) {
      if (seenMs > downMs) recorded.excessMs += seenMs - downMs;
      else recorded.unseenMs += Math.min(downMs - seenMs, this.#trueMs - this.#newestMs);
    }
  }

  /** Checks how much of a time is left, of which so much was recorded. */
  #check(what: string, recorded: Recorded, recordedMs: number, leftMs: number): void {
    const passedMs = this.#trueMs - recorded.atMs;
    const mostMs = Math.min(recordedMs, recordedMs - passedMs + recorded.unseenMs + SLACK_MS);
    assert.ok(
      leftMs <= Math.max(0, mostMs) + 2,
      `${what}: ${leftMs} of ${recordedMs} ms are left, at most ${mostMs}`,
    );
    const leastMs = recordedMs - passedMs - recorded.excessMs - SLACK_MS;
    assert.ok(leftMs >= leastMs, `${what}: ${leftMs} of ${recordedMs} ms are left, at least ${leastMs}`);
  }

  #checkJobs(): void {
    const { nowMs } = this.#server;
    const found = new Set<number>();
    for (const { engine } of this.#server.shards)
      for (const page of engine.jobs.pages.filter((each) => each !== undefined))
        for (const [row, state] of page.state.entries()) {
          const id = page.id[row]!;
          const recorded = this.#recorded.get(id);
          if (state === JobState.Free || recorded === undefined) continue;
          found.add(id);
          const { delayMs, ttlMs } = recorded;
          assert.ok(page.createdAtMs[row]! <= nowMs, `job ${id} is not from the future`);
          const delayLeftMs = state === JobState.Delayed ? page.deadlineAtMs[row]! - nowMs : 0;
          this.#check(`the delay of job ${id}`, recorded, delayMs, delayLeftMs);
          if (ttlMs > 0)
            this.#check(`the life of job ${id}`, recorded, ttlMs, page.extras!.expiresAtMs[row]! - nowMs);
        }
    for (const [id, recorded] of this.#recorded) {
      const { ttlMs, atMs, excessMs } = recorded;
      const mayBeOver = ttlMs > 0 && this.#trueMs - atMs + excessMs + SLACK_MS >= ttlMs;
      assert.ok(mayBeOver || found.has(id), `job ${id} is there`);
      if (!found.has(id)) this.#recorded.delete(id);
    }
  }

  /** A key is taken until its time is over, and free then. */
  #checkKeys(): void {
    for (const [key, recorded] of this.#keys) {
      const { keyMs, atMs, excessMs, unseenMs } = recorded;
      const put = (): string => this.#put(`k 0 0 60 1 unique=${key} unique-for=1`);
      const passedMs = this.#trueMs - atMs;
      if (passedMs + excessMs + SLACK_MS < keyMs) assert.match(put(), /^DUPLICATE/, `${key} is taken`);
      if (passedMs < keyMs + unseenMs + SLACK_MS) continue;
      assert.match(put(), /^INSERTED/, `${key} is free`);
      this.#keys.delete(key);
    }
  }

  #act(): void {
    const random = this.#random;
    const ttl = random.pick([0, 1 + random.below(SECONDS_MAX)])!;
    const delay = random.below(SECONDS_MAX);
    const isKey = random.chance(0.3);
    const recorded = {
      delayMs: isKey ? 0 : delay * 1000,
      ttlMs: isKey ? 0 : ttl * 1000,
      keyMs: isKey ? SECONDS_MAX * 1000 : 0,
      atMs: this.#trueMs,
      unseenMs: 0,
      excessMs: 0,
    };
    if (isKey) {
      const key = `key${random.below(1e6)}`;
      const id = this.#put(`k 0 0 60 1 unique=${key} unique-for=${SECONDS_MAX}`).match(/\d+/)?.[0];
      // A key is remembered only after its job.
      if (id !== undefined && this.#say(`delete ${id}\r\n`) === "DELETED\r\n") this.#keys.set(key, recorded);
    } else {
      const found = /^INSERTED (\d+)/.exec(this.#put(`t 0 ${delay} 60 1${ttl > 0 ? ` ttl=${ttl}` : ""}`));
      if (found !== null) this.#recorded.set(Number(found[1]), recorded);
    }
    this.#newestMs = this.#trueMs;
    this.#pass(random.below(3000));
    if (random.chance(0.3)) this.#step();
  }

  /** The wall clock steps: it is set right, or wrong. The server looks at it once a second. */
  #step(): void {
    const errorMs = this.#random.pick(ERRORS_MS)!;
    this.#server.log!.wallOffsetMs += errorMs - this.#errorMs;
    this.#errorMs = errorMs;
    this.#pass(1000);
    this.#seenErrorMs = errorMs;
  }

  #pass(ms: number): void {
    this.#server.nowMs += ms;
    this.#trueMs += ms;
    this.#server.settle();
  }

  /** The process is killed, or stops in order: then it looks once more. */
  #end(): void {
    const isStop = this.#random.chance(0.5);
    if (isStop) {
      const errorMs = this.#random.pick(ERRORS_MS)!;
      this.#server.log!.wallOffsetMs += errorMs - this.#errorMs;
      this.#seenErrorMs = errorMs;
      this.#server.stopLog();
      this.#server.settle();
      assert.equal(this.#server.logEnd, "closed");
    }
    this.#server.halt();
    this.#disk.kill();
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

async function play(seed: number, plant?: Plant): Promise<void> {
  const campaign = new ClockCampaign(seed, plant);
  for (let process = 0; process < PROCESSES; process++) await campaign.process();
}

it("what remains of a time after a start is what should, whatever the wall clock shows", async () => {
  for (let seed = FIRST; seed < FIRST + SEEDS; seed++)
    try {
      await play(seed);
    } catch (error) {
      throw new Error(`again: SEED=${seed} CLOCK_SEEDS=1 bin/node --test ${import.meta.filename}`, {
        cause: error,
      });
    }
});

const BUGS: Readonly<Record<string, Plant>> = {
  "a step is not noted": (clock) => {
    clock.look = () => {
      clock.lookAtMs = Number.POSITIVE_INFINITY;
    };
  },
  "a start takes the wall clock for the log's": (clock, { log }) => {
    Object.assign(clock, { offsetMs: log!.wallOffsetMs });
  },
};
for (const [name, plant] of Object.entries(BUGS))
  it(`finds that ${name}`, async () => {
    for (let seed = 1; seed <= 40; seed++) {
      const found = await play(seed, plant).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (found === undefined) continue;
      findOf(found);
      return;
    }
    assert.fail("not found in 40 campaigns");
  });
