// Tests of the service order of the running server: a better job is never passed over, and the
// longest waiter is served first. SEED=n replays the random part.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { findPassedOver, type ReadyTime, type Reserved } from "../support/in-process/passed-over.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { clientOf, idOf, withServer } from "../support/server/fair-server.ts";
import type { ServerProcess } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { TOPOLOGIES, topologyName } from "../support/topologies.ts";
import { skipVariant } from "../support/whole.ts";

const { SEED = "415926535" } = process.env;

// --- a better job is never passed over -----------------------------------------------------------

const TUBES = ["a", "b", "c", "d", "e", "f"] as const;
const PRODUCERS = 4;
const CONSUMERS = 6;
const JOBS_PER_PRODUCER = 500;
/** Jobs that each producer puts before the first is reserved. */
const STOCK_PER_PRODUCER = 100;
/** A consumer stops when this long nothing came. */
const DRY_SECONDS = 1;

/**
 * History by the number of times that a job became ready: a put makes it ready for the first time,
 * and its n-th reserve is answered before the holder makes it ready for the (n + 1)-th time.
 * Replies to different clients may overtake each other, so that the order in which the replies are
 * read would not tell which reserve took which.
 */
class History {
  readonly reserves: Reserved[] = [];
  readonly #ready: (Omit<ReadyTime, "untilMs"> & { readonly time: number })[] = [];
  /** For each job, when its reserves were sent. */
  readonly #reservesSent = new Map<number, number[]>();

  becameReady(time: number, id: number, pri: number, tube: string, repliedMs: number): void {
    this.#ready.push({ time, id, pri, tube, fromMs: repliedMs });
  }

  /** Returns for which time the job was reserved. */
  reserved(reserve: Reserved): number {
    this.reserves.push(reserve);
    const sent = this.#reservesSent.get(reserve.id) ?? [];
    this.#reservesSent.set(reserve.id, sent);
    return sent.push(reserve.sentMs);
  }

  readyTimes(): ReadyTime[] {
    return this.#ready.map(({ time, ...ready }) => ({
      ...ready,
      untilMs: this.#reservesSent.get(ready.id)?.[time - 1] ?? Number.POSITIVE_INFINITY,
    }));
  }
}

async function produce(
  server: ServerProcess,
  random: SeededRandom,
  history: History,
  onStock: () => void,
): Promise<void> {
  const client = await WireClient.connect(server.address);
  for (let count = 0; count < JOBS_PER_PRODUCER; count++) {
    if (count === STOCK_PER_PRODUCER) onStock();
    const tube = random.pick(TUBES);
    const pri = random.between(0, 50);
    await client.ask(`use ${tube}`);
    const { line } = await client.put(`${pri} ${tube}`, { pri });
    history.becameReady(1, idOf(line), pri, tube, performance.now());
    // At first faster than the consumers, at last slower, so that jobs wait as well as clients.
    if (count > STOCK_PER_PRODUCER && random.chance(0.4)) await sleep(random.between(0, 3));
  }
  client.close();
}

async function consume(server: ServerProcess, random: SeededRandom, history: History): Promise<void> {
  const client = await WireClient.connect(server.address);
  const watched = new Set(TUBES.filter(() => random.chance(0.6)));
  watched.add(random.pick(TUBES));
  for (const tube of watched) await client.ask(`watch ${tube}`);
  await client.ask("ignore default");
  for (;;) {
    const sentMs = performance.now();
    const { line, body } = await client.ask(
      random.chance(0.2) ? "reserve-with-timeout 0" : `reserve-with-timeout ${DRY_SECONDS}`,
    );
    const repliedMs = performance.now();
    if (line === "TIMED_OUT" && repliedMs - sentMs > DRY_SECONDS * 900) break;
    if (line === "TIMED_OUT") continue;
    const id = idOf(line);
    const [pri, tube] = (body ?? "").toString().split(" ") as [string, string];
    const time = history.reserved({ id, pri: Number(pri), watched, sentMs, repliedMs });
    if (random.chance(0.3)) {
      // It goes back with the priority that its body tells.
      assert.equal((await client.ask(`release ${id} ${pri} 0`)).line, "RELEASED");
      history.becameReady(time + 1, id, Number(pri), tube, performance.now());
    } else {
      assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
    }
  }
  client.close();
}

describe("a better job is never passed over", { concurrency: TOPOLOGIES.length }, () => {
  for (const [index, topology] of TOPOLOGIES.entries()) {
    it(`${topologyName(topology)} (SEED=${SEED})`, { skip: skipVariant(index, 2) }, async (t) => {
      await withServer(t, topology, async (server) => {
        const random = new SeededRandom(Number(SEED));
        const history = new History();
        const seeded = (): SeededRandom => new SeededRandom(random.between(0, 2 ** 31));
        const produced: Promise<void>[] = [];
        const stocked = Array.from(
          { length: PRODUCERS },
          () => new Promise<void>((resolve) => produced.push(produce(server, seeded(), history, resolve))),
        );
        await Promise.all(stocked);
        await Promise.all([
          ...produced,
          ...Array.from({ length: CONSUMERS }, () => consume(server, seeded(), history)),
        ]);
        const { compared, passedOver } = findPassedOver(history.readyTimes(), history.reserves);
        t.diagnostic(`${history.reserves.length} reserves, ${compared} pairs of a reserve and a ready job`);
        assert.deepEqual(passedOver.slice(0, 5), []);
        assert.ok(compared > 10_000, `only ${compared} pairs say anything`);
      });
    });
  }

  it("the check finds a better job that was there, and no other (canary)", () => {
    const watched = new Set(["a"]);
    const reserve = { id: 2, pri: 5, watched, sentMs: 10, repliedMs: 20 };
    const ready = { id: 1, pri: 5, tube: "a", fromMs: 9, untilMs: 21 };
    const found = (change: Partial<ReadyTime>): number =>
      findPassedOver([{ ...ready, ...change }], [reserve]).passedOver.length;
    assert.equal(found({}), 1);
    assert.equal(found({ untilMs: Number.POSITIVE_INFINITY }), 1);
    for (const change of [{ fromMs: 11 }, { untilMs: 15 }, { tube: "b" }, { pri: 6 }, { id: 3 }])
      assert.equal(found(change), 0, JSON.stringify(change));
    assert.equal(found({ id: 3, pri: 4 }), 1);
  });
});

// --- the longest waiter is served first ----------------------------------------------------------

const WAITERS = 60;

async function waitingOn(client: WireClient, tube: string): Promise<number> {
  const text = (await client.ask(`stats-tube ${tube}`)).body?.toString() ?? "";
  return Number(/^current-waiting: (\d+)$/m.exec(text)?.[1]);
}

/** Some wait in many tubes, on one shard or on several, and in the order of the same line. */
async function wait(waiter: WireClient, number: number): Promise<void> {
  const others = number % 3 === 0 ? 12 : number % 3;
  for (let other = 0; other < others; other++) await waiter.ask(`watch other${other}`);
  waiter.send("reserve\r\n");
}

describe("the longest waiter is served first", { concurrency: TOPOLOGIES.length }, () => {
  for (const [index, topology] of TOPOLOGIES.entries()) {
    it(topologyName(topology), { skip: skipVariant(index + 1, 2) }, async (t) => {
      await withServer(t, topology, async (server) => {
        const producer = await clientOf(server, "line");
        const waiters: WireClient[] = [];
        for (let number = 1; number <= WAITERS; number++) {
          const waiter = await clientOf(server, "line");
          await wait(waiter, number);
          while ((await waitingOn(producer, "line")) < number) await sleep(1);
          waiters.push(waiter);
        }
        // Two leave, and close the gap for those behind them.
        for (const gone of [40, 10]) waiters.splice(gone, 1)[0]!.close();
        while ((await waitingOn(producer, "line")) > waiters.length) await sleep(1);
        for (const index of waiters.keys())
          assert.equal((await producer.put("x", { pri: index })).line, `INSERTED ${index + 1}`);
        const got = await Promise.all(waiters.map(async (waiter) => idOf((await waiter.readReply()).line)));
        assert.deepEqual(
          got,
          got.map((_, index) => index + 1),
        );
        for (const waiter of waiters) waiter.close();
        producer.close();
      });
    });
  }
});
