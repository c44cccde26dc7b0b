// Tests that batches and schedules take no more memory than --max-memory counts.

import assert from "node:assert/strict";
import { it } from "node:test";
import { latin1 } from "../../../../src/base/bytes.ts";
import { BYTES_OF, type Engine } from "../../../../src/engine/engine.ts";
import { Schedule } from "../../../../src/engine/schedules.ts";
import { TUBE_NAME_BYTES_MAX } from "../../../../src/protocol/limits.ts";
import { Missed } from "../../../../src/protocol/schedule-options.ts";
import { BatchOutcome, BatchState } from "../../../../src/schema/batch.ts";
import { memoryInUse, settledBytes } from "../../../support/machine/memory-in-use.ts";
import { EngineBench } from "../engine-bench.ts";

const COUNT = 10_000;
/** Numbers as a server has them that runs for a while. */
const LATER = 2 ** 33;

/** As the commands make names: of bytes, each with a string of its own. */
const textOf = (text: string): string => latin1(Buffer.from(text), 0, text.length);

/** Returns what each of many takes, and what is counted. */
function measure(add: (engine: Engine, n: number) => void): { taken: number; counted: number } {
  const { engine } = new EngineBench();
  const before = memoryInUse();
  const countedBefore = engine.memoryBytes;
  for (let n = 0; n < COUNT; n++) add(engine, n);
  const counted = (engine.memoryBytes - countedBefore) / COUNT;
  const taken = settledBytes(counted * COUNT, () => memoryInUse() - before) / COUNT;
  return { taken, counted };
}

it("a batch with the longest name", () => {
  const { taken, counted } = measure(({ batches }, n) => {
    const name = textOf(`${n}`.padStart(TUBE_NAME_BYTES_MAX, "b"));
    const times = { keepMs: 86_400_000, openedAtMs: LATER + n + 0.5, completeAtMs: LATER + n + 0.7 };
    const facts = { number: LATER + n, name, ...times, allDone: n, allFailed: n };
    batches.assume({ ...facts, state: BatchState.Open, outcome: BatchOutcome.None });
    const batch = batches.assume({ ...facts, state: BatchState.Complete, outcome: BatchOutcome.Failure })!;
    batches.timers.set(batch.timer, batch.completeAtMs + batch.keepMs);
  });
  assert.equal(counted, BYTES_OF.batch);
  assert.ok(taken <= counted, `${taken} bytes are taken, ${counted} counted`);
});

it("a schedule besides its texts", () => {
  const { taken, counted } = measure(({ schedules }, n) => {
    const timing = { cron: textOf("30 2 * * MON-FRI"), zone: textOf("Europe/Berlin"), everyMs: 0 };
    const job = { pri: n, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, ttlMs: 0 };
    const name = textOf(`s${n}`);
    const facts = { name, tube: textOf(`tube${n}`), timing, missed: Missed.Once, overlap: 0, ...job };
    const schedule = new Schedule(LATER + n, { ...facts, attributes: new Uint8Array(40) });
    schedule.takeOver({ ...schedule, version: LATER + n, nextMs: LATER + n, lastMs: LATER, anchorMs: LATER });
    schedules.restore(schedule);
  });
  assert.ok(counted >= BYTES_OF.schedule);
  assert.ok(taken <= counted, `${taken} bytes are taken, ${counted} counted`);
});
