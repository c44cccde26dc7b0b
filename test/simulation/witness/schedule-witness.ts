// Witness of schedules: the job of each tick, which comes once, and what rests when all is done.

import assert from "node:assert/strict";
import { latin1 } from "../../../src/base/bytes.ts";
import { Outcome } from "../../../src/engine/engine.ts";
import type { Schedule } from "../../../src/engine/schedules.ts";
import { Overlap } from "../../../src/protocol/schedule-options.ts";
import type { EngineCalls } from "./engine-calls.ts";
import { policyOf } from "./noted-policies.ts";

const OUTCOMES = {
  stored: Outcome.Done,
  duplicate: Outcome.Duplicate,
  full: Outcome.TubeFull,
  refused: Outcome.NoBatch,
} as const;

export class ScheduleWitness {
  readonly #witness: EngineCalls;

  constructor(witness: EngineCalls) {
    this.#witness = witness;
  }

  watchSchedules(): void {
    const { model, shard, engine } = this.#witness;
    this.#witness.watch("putScheduled", ([tubeName, job, body, nowMs, attributes], outcome, seen) => {
      const bytes = new Uint8Array(job.bodyBytes);
      if (outcome === Outcome.NoRoom) {
        this.#witness.follow(seen, () => model.timers.runDue(shard, nowMs));
        return;
      }
      const { id, pri, delaySeconds, delayMillis, ttrSeconds } = job;
      engine.bodies.read(body, 0, bytes, 0, bytes.length);
      const put = { id, pri, delaySeconds, ttrSeconds, body: latin1(bytes, 0, bytes.length) };
      const policy = policyOf(attributes);
      if (policy.key !== "") this.#checkOverlap(policy.meta);
      assert.ok(model.shards === 1 || model.registry.tubeShard(tubeName) === shard, "a tick is of its shard");
      const verdict = this.#witness.follow(seen, () => {
        model.timers.runDue(shard, nowMs);
        return model.commands.put({ ...put, policy }, model.registry.tube(tubeName), nowMs, delayMillis);
      });
      assert.equal(outcome, OUTCOMES[verdict.kind], `outcome of ${policy.key}`);
      if (verdict.kind !== "stored") return;
      if (policy.key !== "") this.#witness.sink.ticked(id, policy.key);
      else {
        const name = /^schedule:(.*)@now$/.exec(policy.meta)?.[1];
        assert.ok(name !== undefined, `job ${id} says that its schedule was run`);
        this.#witness.sink.ran(id, name);
      }
    });
  }

  /** With overlap=skip, a tick is put only if no shard has a job of its schedule. */
  #checkOverlap(meta: string): void {
    const [, schedule] = /^(schedule:.*@)[^@]*$/.exec(meta.split("\n")[0]!) ?? [];
    assert.ok(schedule !== undefined, `the job of a tick says of which schedule it is: ${meta}`);
    const { engine, model } = this.#witness;
    const name = schedule.slice("schedule:".length, -1);
    if (engine.schedules.table.get(name)?.facts.overlap !== Overlap.Skip) return;
    for (const { id, policy } of model.jobs.values())
      assert.ok(!policy.meta.startsWith(schedule), `${meta} comes while job ${id}, ${policy.meta}, exists`);
  }

  /** At rest no tick is due, unless it was refused and waits for its next try. */
  checkRest(wallMs: number): void {
    for (const schedule of this.#witness.engine.schedules.table.values()) {
      const { name, nextMs, timer } = schedule;
      assert.ok(!schedule.isFrozen, `${name} is not frozen at rest`);
      const isAwaited = timer.atMs < Number.POSITIVE_INFINITY;
      assert.equal(isAwaited, nextMs < Number.POSITIVE_INFINITY, `${name} waits for its tick`);
      if (isAwaited) assert.ok(timer.atMs > wallMs - SLACK_MS, `a tick of ${name} is overdue`);
    }
  }

  get schedules(): Schedule[] {
    return [...this.#witness.engine.schedules.table.values()];
  }
}

/** A shard that slept looks at the wall clock in whole ms. */
const SLACK_MS = 1000;
