// Ring and doorbell between two real threads: the smallest ring, both ends sleeping whenever they can.

import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { Worker } from "node:worker_threads";
import { DOORBELL_WORDS } from "../../src/ring/doorbell.ts";
import { createRing, DATA_OFFSET, HEAD_WORD, RING_BYTES_MIN, TAIL_WORD } from "../../src/ring/ring-layout.ts";
import { printSeed, seed } from "../support/seeded-property.ts";
import type { RaceData, RaceOutcome } from "./ring-race-worker.ts";

const MESSAGES = 60_000;

/** What may come out of a race, with the reason; any other outcome fails. */
const OUTCOMES: { name: string; allowed: boolean; applies: (end: RaceOutcome) => boolean }[] = [
  { name: "a message came out of order, torn or twice", allowed: false, applies: (end) => end.wrong > 0 },
  {
    name: "an end slept on although there was work: a lost wake-up",
    allowed: false,
    applies: (end) => end.lostWakes > 0,
  },
  { name: "an end stopped early", allowed: false, applies: (end) => end.done !== MESSAGES },
  { name: "every message passed once and in order", allowed: true, applies: (end) => end.done === MESSAGES },
];

function runEnd(data: RaceData): Promise<RaceOutcome> {
  const worker = new Worker(new URL("./ring-race-worker.ts", import.meta.url), { workerData: data });
  return new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });
}

async function race(t: TestContext, start: number): Promise<void> {
  printSeed(t);
  const ring = createRing(RING_BYTES_MIN);
  const words = new Int32Array(ring, 0, DATA_OFFSET / 4);
  words[TAIL_WORD] = start | 0;
  words[HEAD_WORD] = start | 0;
  const doorbells = new SharedArrayBuffer(2 * DOORBELL_WORDS * 4);
  const common = { ring, doorbells, messages: MESSAGES };
  const ends = await Promise.all([
    runEnd({ role: "writer", seed, ...common }),
    runEnd({ role: "reader", seed: seed + 1, ...common }),
  ]);
  for (const end of ends) {
    const outcome = OUTCOMES.find((each) => each.applies(end))!;
    t.diagnostic(`${end.role}: ${outcome.name} (${end.wakes} sleeps)`);
    assert.ok(outcome.allowed, `${end.role}: ${outcome.name}: ${JSON.stringify(end)}`);
  }
}

it("ring and doorbell lose nothing between two threads", { timeout: 30_000 }, (t) => race(t, 0));
it("ring and doorbell lose nothing while positions wrap at 2^32", { timeout: 30_000 }, (t) =>
  race(t, 2 ** 32 - 64 * 1024),
);
