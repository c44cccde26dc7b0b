// Tests of histories that outlive a restart: saved to files of a real folder, damaged there, and
// restored.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, it } from "node:test";
import type { ControlClient } from "../../../../src/http/link/control-client.ts";
import { HistoryFile, SavedHistories } from "../../../../src/http/state/history-file.ts";
import { StatsHistory } from "../../../../src/http/state/stats-history.ts";
import { TubeEntry } from "../../../../src/http/state/tube-cache.ts";
import { TubeHistory } from "../../../../src/http/state/tube-history.ts";
import { TUBE_FIELDS, TubeField } from "../../../../src/schema/tube.ts";
import { temporaryFolder } from "../../../support/machine/temporary-folder.ts";

const START_MS = 1_700_000_000_000;
const STEP_MS = 10_000;

function tube(name: string, sequence: number, ready: number, puts: number): [string, TubeEntry] {
  const row = new Float64Array(TUBE_FIELDS);
  row[TubeField.sequence] = sequence;
  row[TubeField.ready] = ready;
  row[TubeField.puts] = puts;
  return [name, new TubeEntry(name, 0, row, 0)];
}

/** What one run of a server records, on a clock of its own. */
class Run {
  atMs: number;
  puts = 0;
  readonly tubes: TubeHistory;
  readonly totals: StatsHistory;
  readonly saved: SavedHistories;

  constructor(folder: string, atMs: number, tubesMax = 10) {
    this.atMs = atMs;
    const control: Partial<Record<keyof ControlClient, unknown>> = {
      askAll: async () => [
        {
          jobs: { ready: 1, reserved: 0, delayed: 0, buried: 0 },
          ...{ waiting: 0, puts: this.puts, reserves: 0, deletes: 0, releases: 0, buries: 0 },
          ...{ kicks: 0, timeouts: 0 },
        },
      ],
    };
    this.tubes = new TubeHistory(tubesMax);
    this.totals = new StatsHistory(control as ControlClient, () => this.atMs);
    this.saved = new SavedHistories(folder, this.totals, this.tubes, () => this.atMs);
  }

  async step(tubes: readonly [string, TubeEntry][]): Promise<void> {
    this.atMs += STEP_MS;
    this.tubes.note(new Map(tubes), this.atMs);
    await this.totals.ask();
  }

  of(name: string, series: "ready" | "puts"): number[] | undefined {
    return this.tubes.of(name, [series], 0)?.[series]?.map(([, value]) => value);
  }
}

describe("histories over a restart", () => {
  const folder = (): string => temporaryFolder({ after: afterEach }, "histories");

  async function firstRun(place: string): Promise<Run> {
    const run = new Run(place, START_MS);
    run.saved.restore();
    for (let n = 1; n <= 5; n++) {
      run.puts = 100 * n;
      await run.step([tube("mail", 1, n, 10 * n)]);
    }
    return run;
  }

  it("go on after the restart, and counters never go back", async () => {
    const place = folder();
    const before = await firstRun(place);
    await before.saved.save();
    const run = new Run(place, before.atMs + 60_000);
    run.saved.restore();
    assert.deepEqual(run.of("mail", "ready"), [1, 2, 3, 4, 5]);
    run.puts = 7;
    // The log has brought the tube back with its jobs, but with counters from 0.
    await run.step([tube("mail", 900, 4, 3)]);
    assert.deepEqual(run.of("mail", "ready"), [1, 2, 3, 4, 5, 4]);
    assert.deepEqual(run.of("mail", "puts"), [10, 20, 30, 40, 50, 53]);
    assert.equal(run.tubes.mostGrown("puts", 0), "mail");
    const { series } = run.totals.history(3600, ["puts"]);
    assert.deepEqual(
      series["puts"]!.map(([, value]) => value),
      [100, 200, 300, 400, 500, 507],
    );
    assert.equal(run.totals.grown(600, "puts"), 407);
    // A second restart goes on from there.
    await run.saved.save();
    const third = new Run(place, run.atMs);
    third.saved.restore();
    await third.step([tube("mail", 1, 0, 0)]);
    assert.deepEqual(third.of("mail", "puts"), [10, 20, 30, 40, 50, 53, 53]);
  });

  it("keep the earlier sum if the counters have already passed it", async () => {
    const place = folder();
    const before = await firstRun(place);
    await before.saved.save();
    const run = new Run(place, before.atMs);
    run.saved.restore();
    run.puts = 900;
    await run.step([tube("mail", 900, 4, 80)]);
    assert.deepEqual(run.of("mail", "puts"), [10, 20, 30, 40, 50, 130]);
    assert.equal(run.totals.grown(600, "puts"), 1300);
  });

  it("wait five minutes for a tube whose clients connect again later, and then forget it", async () => {
    const place = folder();
    const before = await firstRun(place);
    await before.saved.save();
    const run = new Run(place, before.atMs);
    run.saved.restore();
    for (let n = 0; n < 29; n++) await run.step([]);
    const back = new Run(place, before.atMs);
    back.saved.restore();
    for (let n = 0; n < 3; n++) await back.step([]);
    await back.step([tube("mail", 8, 2, 1)]);
    assert.deepEqual(back.of("mail", "ready"), [1, 2, 3, 4, 5, 0, 0, 0, 2]);
    assert.deepEqual(back.of("mail", "puts"), [10, 20, 30, 40, 50, 50, 50, 50, 51]);
    assert.ok(run.of("mail", "ready") !== undefined);
    for (let n = 0; n < 2; n++) await run.step([]);
    assert.equal(run.of("mail", "ready"), undefined);
  });

  it("leave out what is older than a chart, and times of a clock that was ahead", async () => {
    const place = folder();
    const before = await firstRun(place);
    await before.saved.save();
    const late = new Run(place, START_MS + 2 * STEP_MS + 3_000_000);
    late.saved.restore();
    assert.deepEqual(late.of("mail", "ready"), [3, 4, 5]);
    const early = new Run(place, START_MS - 1);
    early.saved.restore();
    assert.equal(early.of("mail", "ready"), undefined);
    assert.deepEqual(early.totals.history(3600, ["ready"]).series["ready"], []);
  });

  it("survive a save that was cut off: the one before counts", async () => {
    const place = folder();
    const run = await firstRun(place);
    await run.saved.save();
    await run.step([tube("mail", 1, 6, 60)]);
    await run.saved.save();
    const newest = new HistoryFile(place);
    assert.ok(newest.read() !== undefined);
    assert.deepEqual(readdirSync(place).sort(), ["history.0", "history.1"]);
    assert.equal(statSync(join(place, "history.0")).mode & 0o777, 0o600);
    const path = join(place, "history.1");
    const whole = readFileSync(path);
    for (const damage of [
      whole.subarray(0, whole.length - 1),
      Buffer.concat([whole.subarray(0, 40), Buffer.from([whole[40]! ^ 1]), whole.subarray(41)]),
      Buffer.alloc(0),
      Buffer.from("no history at all, but long enough for a header"),
    ]) {
      writeFileSync(path, damage);
      const next = new Run(place, run.atMs);
      next.saved.restore();
      assert.deepEqual(next.of("mail", "ready"), [1, 2, 3, 4, 5]);
    }
    writeFileSync(path, whole);
    // A later, shorter save leaves the end of the longer one behind it.
    writeFileSync(path, Buffer.concat([whole, Buffer.from("rest")]));
    const next = new Run(place, run.atMs);
    next.saved.restore();
    assert.deepEqual(next.of("mail", "ready"), [1, 2, 3, 4, 5, 6]);
  });

  it("are whole however often the ring of points has gone round", async () => {
    for (const steps of [299, 300, 301, 450, 600]) {
      const place = folder();
      const run = new Run(place, START_MS);
      run.saved.restore();
      for (let n = 1; n <= steps; n++) await run.step([tube("mail", 1, n, n)]);
      await run.saved.save();
      const next = new Run(place, run.atMs);
      next.saved.restore();
      const expected = run.of("mail", "ready")!;
      assert.deepEqual(next.of("mail", "ready"), expected);
      await next.step([tube("mail", 2, 7, 0)]);
      assert.deepEqual(next.of("mail", "ready"), [...expected, 7].slice(-300), `${steps} steps`);
    }
  });

  it("are bounded, and a server that never served overwrites nothing", async () => {
    const place = folder();
    const run = new Run(place, START_MS, 600);
    run.saved.restore();
    const many = (n: number): [string, TubeEntry][] =>
      Array.from({ length: 600 }, (_, index) => tube(`t${index}`, index, n, index * n));
    for (let n = 1; n <= 3; n++) await run.step(many(n));
    await run.saved.save();
    const unserved = new Run(place, run.atMs);
    await unserved.saved.save();
    assert.deepEqual(readdirSync(place), ["history.0"]);
    const next = new Run(place, run.atMs, 600);
    next.saved.restore();
    // The busiest have their places.
    assert.deepEqual(next.of("t100", "ready"), [1, 2, 3]);
    assert.equal(next.of("t99", "ready"), undefined);
  });
});
