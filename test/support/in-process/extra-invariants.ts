// Invariants of attributes, unique keys, groups, and the memory that they take.

import assert from "node:assert/strict";
import { BYTES_OF } from "../../../src/engine/engine.ts";
import { JobState, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { NO_GROUP } from "../../../src/engine/queues/job-groups.ts";
import type { Tube } from "../../../src/engine/tubes/tube.ts";
import { metaOf } from "../../../src/protocol/job-attribute.ts";
import { arenaBytesOf } from "./arena-bytes.ts";
import { type CheckedEngine, NEVER } from "./checked-engine.ts";

type GroupCounts = Map<number, { jobs: number; inWork: number }>;

/** Only groups with jobs have buckets. */
const bucketsOf = ({ groups }: Tube, counts: GroupCounts): number =>
  [...counts.keys()].filter((number) => groups?.describe(number)?.bucket !== undefined).length;

export class ExtraInvariants {
  readonly #check: CheckedEngine;

  constructor(check: CheckedEngine) {
    this.#check = check;
  }

  /** Checks the counted memory of everything that clients make the engine keep. */
  memory(): void {
    const engine = this.#check.engine;
    const { jobs, policies, settings } = engine;
    const { retiredLimiters, retiredBuckets } = engine.tubes;
    let extraRows = 0;
    for (const page of jobs.pages) if (page?.extras !== undefined) extraRows += page.live;
    const tubes = [...engine.tubes.values()];
    const groups = tubes.reduce((sum, tube) => sum + (tube.groups?.size ?? 0), 0);
    const watches = tubes.reduce((sum, tube) => sum + tube.watching, 0);
    const counted = {
      job: jobs.live,
      extras: extraRows,
      failurePage: jobs.pages.filter((page) => page?.failures !== undefined).length,
      tube: tubes.length,
      watch: watches,
      share: this.#check.sessions.reduce((sum, { turns }) => sum + (turns?.shares.size ?? 0), 0),
      group: groups,
      bucket: [...this.#countGroups()].reduce((sum, [tube, counts]) => sum + bucketsOf(tube, counts), 0),
      key: policies.keys.table.size,
      retiredLimiter: retiredLimiters.size + retiredBuckets.size,
      setting: settings.size,
      flowPage: jobs.pages.filter((page) => page?.extras?.flows !== undefined).length,
      notePage: jobs.pages.filter((page) => page?.extras?.notes !== undefined).length,
      startPage: jobs.pages.filter((page) => page?.startedAtMs !== undefined).length,
      history: policies.finished.tubes,
      finished: policies.finished.places,
      batch: engine.batches.size,
      schedule: engine.schedules.table.size,
      scheduled: engine.scheduled.size,
    };
    let bytes = engine.bodies.usedBytes + engine.schedules.table.textBytes;
    for (const [what, count] of Object.entries(counted))
      bytes += count * BYTES_OF[what as keyof typeof BYTES_OF];
    assert.equal(engine.memoryBytes, bytes, "memory that jobs and tubes take");
    const { usedBytes } = engine.bodies;
    const ownedBytes = arenaBytesOf(engine, this.#check.slots);
    assert.ok(usedBytes >= ownedBytes, `jobs and keys have ${ownedBytes} of ${usedBytes} bytes`);
    for (const { size, nextAtMs } of [retiredLimiters, retiredBuckets])
      assert.equal(size === 0, nextAtMs === NEVER, "a bucket is kept until it is full");
    for (const tube of tubes)
      assert.ok(!retiredLimiters.has(tube.name), `${tube.name} has its bucket itself`);
  }

  /** The jobs of each schedule are counted, by the tick that their `meta` names. */
  #checkScheduled(): void {
    const { engine } = this.#check;
    const names = this.#check.slots.flatMap((slot) => {
      const [, name] =
        /^schedule:(.*)@/.exec(metaOf(engine.policies.attributes.fixedAttributes(slot))[0] ?? "") ?? [];
      return name === undefined || name === "" ? [] : [name];
    });
    assert.equal(engine.scheduled.size, new Set(names).size, "schedules with jobs");
    for (const name of names) assert.ok(engine.scheduled.has(name), `${name} has a job`);
  }

  /**
   * Extras agree with their jobs, keys with theirs, the bytes of a tube with the sum of its bodies.
   */
  check(): void {
    this.#checkScheduled();
    const { table: keys } = this.#check.engine.policies.keys;
    const expiring = new Map<Tube, number>();
    const bytes = new Map<Tube, number>();
    let held = 0;
    for (const slot of this.#check.slots) {
      const page = this.#check.page(slot);
      const row = rowOf(slot);
      const name = `job ${page.id[row]}`;
      const tube = this.#check.engine.tubeOf(slot);
      bytes.set(tube, (bytes.get(tube) ?? 0) + page.bodyBytes[row]!);
      const { extras } = page;
      if (extras === undefined) continue;
      const state = page.state[row]!;
      const waits = state === JobState.Ready || state === JobState.Delayed;
      const expires = waits && extras.expiresAtMs[row]! > 0;
      const position = extras.expiryPosition[row]!;
      assert.equal(position >= 0, expires, `${name}: among those that expire`);
      assert.ok(
        !extras.isCancelled(row) || expires || state === JobState.Reserved || state === JobState.Moving,
        `${name}: was cancelled, and goes`,
      );
      if (expires) {
        expiring.set(tube, (expiring.get(tube) ?? 0) + 1);
        assert.equal(tube.expiry.at(position), slot, `${name}: where it says among those that expire`);
      }
      const keyRow = extras.keyRow[row]!;
      if (keyRow < 0) continue;
      assert.equal(keys.idOf(keyRow), page.id[row], `${name}: its key is its own`);
      if (keys.slotOf(keyRow) < 0) continue;
      assert.equal(keys.slotOf(keyRow), slot, `${name}: has its key`);
      held++;
    }
    assert.equal(keys.size, held + keys.windows, "each key has its job, or a time");
    const groups = this.#countGroups();
    for (const tube of this.#check.engine.tubes.values()) {
      assert.equal(tube.expiry.size, expiring.get(tube) ?? 0, `${tube.name}: jobs that expire`);
      for (let position = 1; position < tube.expiry.size; position++) {
        const [above, below] = [tube.expiry.at((position - 1) >> 1), tube.expiry.at(position)].map(
          (slot) => this.#check.page(slot).extras!.expiresAtMs[rowOf(slot)]!,
        );
        assert.ok(above! <= below!, `${tube.name}: the first to expire is on top`);
      }
      assert.equal(tube.bytes, bytes.get(tube) ?? 0, `${tube.name}: bytes of bodies`);
      if (tube.limiter === undefined)
        assert.equal(tube.open, !tube.paused, `${tube.name}: open unless it is paused`);
      else if (tube.paused) assert.ok(!tube.open, `${tube.name}: closed while it is paused`);
      const counts: GroupCounts = groups.get(tube) ?? new Map();
      const work = [...counts.values()].reduce((sum, { inWork }) => sum + inWork, 0);
      assert.equal(tube.inWork, work, `${tube.name}: what its held jobs cost`);
      this.#groups(tube, counts);
    }
  }

  /** Held, or handed on by its holder and not yet elsewhere. */
  #isInWork(slot: number): boolean {
    const state = this.#check.state(slot);
    if (state !== JobState.Moving) return state === JobState.Reserved;
    return this.#check.page(slot).previous[rowOf(slot)] === JobState.Reserved;
  }

  /** Counts the jobs of each group of each tube. */
  #countGroups(): Map<Tube, GroupCounts> {
    const counts = new Map<Tube, GroupCounts>();
    for (const slot of this.#check.slots) {
      const tube = this.#check.engine.tubeOf(slot);
      const ofTube = counts.get(tube) ?? new Map();
      counts.set(tube, ofTube);
      const number = this.#check.page(slot).extras?.groupRow[rowOf(slot)] ?? NO_GROUP;
      const count = ofTube.get(number) ?? { jobs: 0, inWork: 0 };
      ofTube.set(number, count);
      count.jobs++;
      if (this.#isInWork(slot)) count.inWork += this.#check.engine.jobs.costOf(slot);
    }
    return counts;
  }

  /** Groups have the jobs that name them, and as many in work as are held. */
  #groups(tube: Tube, counts: GroupCounts): void {
    const { groups } = tube;
    if (groups === undefined) {
      assert.ok(
        [...counts.keys()].every((number) => number === NO_GROUP),
        `${tube.name}: no groups`,
      );
      return;
    }
    let named = 0;
    for (const [number, { jobs, inWork }] of counts) {
      const group = groups.describe(number);
      assert.equal(group?.inWork, inWork, `${tube.name}: in work of group ${number}`);
      if (number === NO_GROUP) continue;
      named++;
      assert.equal(group?.jobs, jobs, `${tube.name}: jobs of group ${number}`);
    }
    assert.ok(groups.size >= named, `${tube.name}: its groups`);
  }
}
