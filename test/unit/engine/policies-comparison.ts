// Comparison of an engine's policies with plain lists.

import assert from "node:assert/strict";
import { ExtraFlag, JobState, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { PoliciesState } from "./policies-state.ts";

export class PoliciesComparison {
  readonly #run: PoliciesState;

  constructor(run: PoliciesState) {
    this.#run = run;
  }

  /** No key has changed hands, and each is remembered for as long as before. */
  expectSameKeys(): void {
    const { table } = this.#run.engine.policies.keys;
    const rowOfKey = (tube: string, key: string): number =>
      table.find({ tube: Buffer.from(tube), bytes: Buffer.from(key), start: 0, end: key.length });
    for (const { id, tube, key, hasKey, uniqueUntilMs } of this.#run.jobs) {
      assert.equal(this.#keyOf(id), hasKey, `job ${id} has the key that it had, and no other`);
      if (hasKey)
        assert.equal(table.untilOf(rowOfKey(tube, key)), uniqueUntilMs, `how long key ${key} lasts`);
    }
    for (const { tube, key, id, untilMs } of this.#run.windows) {
      const row = rowOfKey(tube, key);
      assert.ok(row >= 0, `key ${key} of job ${id} is remembered`);
      assert.deepEqual(
        [table.idOf(row), table.untilOf(row)],
        [id, untilMs],
        `who had key ${key}, and until when`,
      );
    }
  }

  #keyOf(id: number): boolean {
    const slot = this.#run.engine.find(id);
    const keyRow = this.#run.engine.jobs.pageOf(slot).extras?.keyRow[rowOf(slot)] ?? -1;
    return keyRow >= 0 && this.#run.engine.policies.keys.table.slotOf(keyRow) === slot;
  }

  compare(): void {
    const engine = this.#run.engine;
    const found: string[] = [];
    engine.jobs.forEach((slot) => {
      const page = engine.jobs.pageOf(slot);
      const row = rowOf(slot);
      const { extras } = page;
      const state = ["", "ready", "reserved", "buried", "delayed"][page.state[row]!];
      const id = page.id[row]!;
      const due = page.state[row] === JobState.Delayed ? page.deadlineAtMs[row] : 0;
      const reason = (extras?.flags[row] ?? 0) & ExtraFlag.Reason;
      found.push(
        `${id} ${engine.tubeOf(slot).name} ${state} due ${due} base ${extras?.attemptsBase[row] ?? 0} ` +
          `expires ${extras?.expiresAtMs[row] ?? 0} key ${this.#keyOf(id)} ` +
          `origin ${engine.policies.attributes.originOf(slot)} reason ${reason}`,
      );
    });
    const expected = this.#run.jobs.map(
      (job) =>
        `${job.id} ${job.tube} ${job.state} due ${job.state === "delayed" ? job.dueAtMs : 0} base ${job.base} ` +
        `expires ${job.expiresAtMs} key ${job.hasKey} origin ${job.origin} reason ${job.reason}`,
    );
    assert.deepEqual(found.sort(), expected.sort());
    assert.equal(engine.policies.keys.table.windows, this.#run.windows.length, "remembered keys");
    assert.equal(this.#run.log.jobs.size, this.#run.jobs.length, "jobs in the log");
  }
}
