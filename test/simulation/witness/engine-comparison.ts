// Comparison of an engine with the model: jobs, keys, tubes and waits.

import assert from "node:assert/strict";
import { NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { Waiting } from "../../../src/engine/state/session.ts";
import { FIXED_COUNTERS, JOB_COUNTERS, JobCounter } from "../../../src/schema/job.ts";
import type { FinishedRow } from "../model/model-finished.ts";
import type { EngineCalls } from "./engine-calls.ts";
import { STATE_NAMES } from "./job-states.ts";
import { compared, policyAt, settingsAt, settingsOf } from "./noted-policies.ts";

export class EngineComparison {
  readonly #witness: EngineCalls;

  constructor(witness: EngineCalls) {
    this.#witness = witness;
  }

  compareJobs(): void {
    const { engine } = this.#witness;
    const expected = [...this.#witness.model.jobs.values()].filter(
      (job) => job.tube.shard === this.#witness.shard,
    );
    const keys = this.#witness.model.keys.filter(
      ({ tube }) => this.#witness.model.registry.tubeShard(tube) === this.#witness.shard,
    );
    assert.equal(engine.policies.keys.table.size, keys.length, `unique keys of shard ${this.#witness.shard}`);
    for (const { tube, key, id, isHeld, untilMs } of keys) {
      const { table } = engine.policies.keys;
      const row = table.find({
        tube: Buffer.from(tube, "latin1"),
        bytes: Buffer.from(key, "latin1"),
        start: 0,
        end: key.length,
      });
      assert.ok(row >= 0, `key ${key} of ${tube} is known`);
      assert.deepEqual(
        [table.idOf(row), table.slotOf(row) >= 0, table.untilOf(row)],
        [id, isHeld, untilMs],
        `who has key ${key} of ${tube}, and until when`,
      );
    }
    const copies = this.#witness.model.queues.copiesOn(this.#witness.shard);
    assert.equal(engine.jobs.live, expected.length + copies.length, `jobs of shard ${this.#witness.shard}`);
    for (const job of expected) {
      const slot = engine.find(job.id);
      assert.notEqual(slot, NO_SLOT, `job ${job.id} exists`);
      const page = engine.jobs.pageOf(slot);
      const row = rowOf(slot);
      const timed = job.state === "reserved" || job.state === "delayed";
      assert.deepEqual(
        {
          state: STATE_NAMES[page.state[row]!],
          tube: engine.tubeOf(slot).name,
          pri: page.pri[row],
          holder: job.state === "reserved" ? page.holder[row] : undefined,
          deadlineAtMs: timed ? page.deadlineAtMs[row] : 0,
          policy: policyAt(engine, slot),
          counts: JOB_COUNTERS.slice(0, FIXED_COUNTERS).map((name) => page.count(row, JobCounter[name])),
        },
        {
          state: job.state,
          tube: job.tube.name,
          pri: job.pri,
          holder: job.holder?.index,
          deadlineAtMs: timed ? job.deadlineAtMs : 0,
          policy: compared(
            job,
            this.#witness.model.uniqueKeys.keyOf(job),
            (batch) => this.#witness.model.flows.of(this.#witness.shard, batch) !== undefined,
          ),
          counts: [job.reserves, job.timeouts, job.releases, job.buries, job.kicks],
        },
        `job ${job.id}`,
      );
    }
  }

  compareTubes(): void {
    const expected = [...this.#witness.model.tubes.values()].filter(
      (tube) => tube.shard === this.#witness.shard,
    );
    const patterns = [...this.#witness.model.settings[this.#witness.shard]!.byPattern.entries()];
    assert.deepEqual([...this.#witness.engine.settings.entries()].sort(), patterns.sort(), "what is set");
    assert.deepEqual(
      [...this.#witness.engine.tubes.keys()].sort(),
      expected.map((tube) => tube.name).sort(),
      "tubes",
    );
    for (const tube of expected) {
      const real = this.#witness.engine.tubes.get(tube.name)!;
      assert.deepEqual(
        [real.using, real.watching, real.totalJobs, real.deletes, real.pauses, real.pauseSeconds],
        [tube.users.size, tube.watchers.size, tube.totalJobs, tube.deletes, tube.pauses, tube.pauseSeconds],
        `users, watchers, jobs, deletes, pauses and pause of ${tube.name}`,
      );
      assert.deepEqual(
        [real.reserves, real.timeouts, real.disconnects, real.releases, real.buries, real.kicks],
        [tube.reserves, tube.timeouts, tube.disconnects, tube.releases, tube.buries, tube.kicks],
        `reserves, timeouts, disconnects, releases, buries and kicks of ${tube.name}`,
      );
      assert.deepEqual(settingsAt(real), settingsOf(tube), `settings, counts and groups of ${tube.name}`);
      assert.deepEqual(
        this.#witness.buriedIds(real),
        this.#witness.model.queues.buried(tube).map((job) => job.id),
        `buried jobs of ${tube.name} in the order of their burial`,
      );
    }
  }

  /** Those that ended at the same moment may be in any order, and any of them may be dropped. */
  compareFinished(): void {
    const { engine, model, shard } = this.#witness;
    const { finished } = engine.policies;
    const names = [...model.finished.keys()].filter((name) => model.registry.tubeShard(name) === shard);
    assert.deepEqual([...finished.names].sort(), names.sort(), "tubes with ends of jobs");
    const inOrder = (rows: readonly FinishedRow[]): FinishedRow[] =>
      rows.toSorted((a, b) => b.endedAtMs - a.endedAtMs || b.id - a.id || a.state.localeCompare(b.state));
    for (const name of names) {
      const { count, rows } = model.finished.get(name)!;
      const real = Array.from(
        finished.ofTube(name, Number.POSITIVE_INFINITY),
        ([, { putAtMs: _, ...row }]) => row satisfies FinishedRow,
      );
      const times = real.map(({ endedAtMs }) => endedAtMs);
      assert.deepEqual(
        times,
        times.toSorted((a, b) => b - a),
        `order of ends in ${name}`,
      );
      const oldestMs = times.at(-1);
      const [certain, oldest] = [real, rows].map((all) =>
        all.filter(({ endedAtMs }) => endedAtMs !== oldestMs),
      );
      assert.deepEqual(inOrder(certain!), inOrder(oldest!), `ends of jobs in ${name}`);
      assert.equal(real.length, count, `number of ends in ${name}`);
      const texts = new Set(rows.map((row) => JSON.stringify(row, Object.keys(row).sort())));
      for (const row of real)
        assert.ok(
          texts.has(JSON.stringify(row, Object.keys(row).sort())),
          `the end of ${JSON.stringify(row)}`,
        );
    }
  }

  compareWaits(): void {
    const real: { session: number; shared: boolean; order: number }[] = [];
    const { sessions, moved } = this.#witness.model;
    // The end of its wait may still be on its way when a connection leaves its acceptor.
    for (const [index, { index: now }] of [...sessions, ...moved]) {
      const session = this.#witness.engine.session(index);
      if (session.waiting === Waiting.No) continue;
      real.push({ session: now, shared: session.waiting === Waiting.Shared, order: session.waitOrder });
    }
    real.sort((a, b) => a.order - b.order);
    assert.deepEqual(
      real.map(({ session, shared }) => ({ session, shared })),
      this.#witness.model.waits
        .filter((wait) => wait.shard === this.#witness.shard)
        .map((wait) => ({ session: wait.session.index, shared: wait.number !== undefined })),
      "who waits, in the order of waits",
    );
  }
}
