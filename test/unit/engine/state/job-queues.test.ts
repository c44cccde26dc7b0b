// Tests of the time since which a tube's oldest ready job is ready, against a record of each job.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Engine } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { JobState, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { fixedCounters, JobCounter } from "../../../../src/schema/job.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";
import { printSeed, seed } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const STEPS = 3000;
const TUBES = ["default", "a", "b"];
const NEVER = Number.POSITIVE_INFINITY;

function newEngine(): Engine {
  return new Engine({
    effects: unheardEffects(),
    ownsDefaultTube: true,
  });
}

/**
 * Record of the ready jobs: since when each is ready, and how often it was reserved and kicked by
 * then.
 */
class Notes {
  readonly #engine: Engine;
  #ready = new Map<number, { tube: string; sinceMs: number; counts: string }>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  take(nowMs: number): void {
    const ready = new Map<number, { tube: string; sinceMs: number; counts: string }>();
    this.#engine.jobs.forEach((slot) => {
      const page = this.#engine.jobs.pageOf(slot);
      const row = rowOf(slot);
      if (page.state[row] !== JobState.Ready) return;
      const id = page.id[row]!;
      const counts = `${page.count(row, JobCounter.reserves)} ${page.count(row, JobCounter.kicks)}`;
      const before = this.#ready.get(id);
      const sinceMs = before?.counts === counts ? before.sinceMs : nowMs;
      ready.set(id, { tube: this.#engine.tubeOf(slot).name, sinceMs, counts });
    });
    this.#ready = ready;
  }

  oldestMs(tube: string): number {
    return Math.min(
      NEVER,
      ...[...this.#ready.values()].filter((job) => job.tube === tube).map((job) => job.sinceMs),
    );
  }
}

it("the oldest ready job of a tube is the first that became ready, whatever happens to others", (t) => {
  printSeed(t);
  const random = new SeededRandom(seed);
  const engine = newEngine();
  const notes = new Notes(engine);
  const sessions = TUBES.map((tube, index) => {
    const session = engine.session(index);
    engine.use(session, tube);
    for (const each of TUBES) engine.watch(session, each);
    return session;
  });
  let nowMs = 0;
  let ids = 0;
  const anyId = (): number => 1 + random.below(ids + 1);
  for (let step = 0; step < STEPS; step++) {
    nowMs += random.below(4) === 0 ? random.below(3000) : 0;
    const session = sessions[random.below(sessions.length)]!;
    const pri = random.below(3);
    const delaySeconds = random.below(3) === 0 ? 1 + random.below(3) : 0;
    switch (random.below(8)) {
      case 0:
      case 1: {
        const job = {
          id: ++ids,
          pri,
          delaySeconds,
          delayMillis: 0,
          ttrSeconds: 1 + random.below(3),
          bodyBytes: 0,
          atMs: nowMs,
        };
        engine.put(session, job, EMPTY_BODY, nowMs);
        break;
      }
      case 2:
        engine.reserve(session, 0, nowMs);
        break;
      case 3:
        engine.release(session, anyId(), pri, delaySeconds, nowMs);
        break;
      case 4:
        engine.bury(session, anyId(), pri, nowMs);
        break;
      case 5:
        engine.kick(session, 1 + random.below(3), nowMs);
        break;
      case 6:
        engine.delete(session, anyId(), nowMs);
        break;
      default:
        engine.runDue(nowMs);
    }
    notes.take(nowMs);
    for (const tube of TUBES) {
      const expected = notes.oldestMs(tube);
      assert.equal(engine.findTube(tube)?.oldestReadyAtMs ?? NEVER, expected, `${tube} after step ${step}`);
    }
  }
});

it("after a restore the list is ordered by time, whatever the order in the log", () => {
  const engine = newEngine();
  const counts = { counters: fixedCounters(), file: 0 };
  const ready = { tube: "a", pri: 0, ttrSeconds: 1, bodyBytes: 0, state: JobState.Ready, ...counts };
  for (const [id, sinceMs] of [
    [5, -10],
    [1, -500],
    [2, 0],
    [3, -200],
  ] as const)
    engine.restore({ ...ready, id, atMs: sinceMs, delaySeconds: 0, deadlineAtMs: sinceMs }, EMPTY_BODY);
  engine.endRestore();
  const session = engine.session(0);
  const seen: number[] = [];
  for (let tube = engine.findTube("a"); tube !== undefined; tube = engine.findTube("a")) {
    seen.push(tube.oldestReadyAtMs);
    const id = engine.jobs.pageOf(tube.ready.first).id[rowOf(tube.ready.first)]!;
    engine.delete(session, id, 1);
  }
  assert.deepEqual(seen, [-500, -200, -10, 0]);
});
