import assert from "node:assert/strict";
import { it } from "node:test";
import { TubeEntry } from "../../../../src/http/state/tube-cache.ts";
import { TubeHistory } from "../../../../src/http/state/tube-history.ts";
import { TUBE_FIELDS, TubeField } from "../../../../src/schema/tube.ts";

function tube(name: string, sequence: number, ready: number): [string, TubeEntry] {
  const row = new Float64Array(TUBE_FIELDS);
  row[TubeField.sequence] = sequence;
  row[TubeField.ready] = ready;
  return [name, new TubeEntry(name, 0, row, 0)];
}

it("the history of a tube has its last 300 points, for a bounded number of tubes", () => {
  const history = new TubeHistory(2);
  history.note(new Map([tube("a", 1, 7)]), 0);
  for (let n = 1; n <= 400; n++)
    history.note(new Map([tube("c", 3, n), tube("b", 2, 2 * n), tube("a", 1, n)]), n * 10_000);
  const a = history.of("a", ["ready"], 0)!["ready"]!;
  assert.deepEqual([a.length, a[0], a.at(-1)], [300, [1010, 101], [4000, 400]]);
  assert.deepEqual(history.of("b", ["ready"], 3_990_000), {
    ready: [
      [3990, 798],
      [4000, 800],
    ],
  });
  assert.equal(history.of("c", ["ready"], 0), undefined, "two have room, and it was made last");
});

it("A busy tube takes the place of one at which nothing happens, and of no other", () => {
  const history = new TubeHistory(2);
  const [quiet, steady, late] = ["quiet", "steady", "late"].map((name, at) => tube(name, at + 1, 1));
  const tubes = new Map([quiet!, steady!]);
  const busy = (entry: TubeEntry, puts: number, atMs: number): void => {
    const row = Float64Array.from(entry.row);
    row[TubeField.puts] = puts;
    entry.renew(row, atMs);
    entry.atMs = atMs;
  };
  for (let n = 1; n <= 20; n++) {
    if (n === 10) tubes.set(...late!);
    busy(steady![1], n, n * 10_000);
    if (n > 10) busy(late![1], 5 * n, n * 10_000);
    history.note(tubes, n * 10_000);
    assert.ok(history.of("steady", ["puts"], 0) !== undefined, "it is busy, too");
  }
  assert.equal(history.of("quiet", ["puts"], 0), undefined);
  assert.ok(history.of("late", ["puts"], 0)!["puts"]!.length >= 9);
});

it("a tube that is used again and again keeps its place, however many others are", () => {
  const history = new TubeHistory(2);
  const tubes = new Map(Array.from({ length: 20 }, (_, at) => tube(`${at}`, at + 1, 0)));
  const firsts = new Set<string>();
  for (let n = 1; n <= 200; n++) {
    for (const [at, [name, entry]] of [...tubes].entries()) {
      const row = Float64Array.from(entry.row);
      // Each gets a job every 200 s, a tenth of them at a time.
      if ((n + at) % 20 === 0) row[TubeField.puts]! += 1;
      entry.renew(row, n * 10_000);
      if (n > 20 && history.of(name, ["puts"], 0) !== undefined) firsts.add(name);
    }
    history.note(tubes, n * 10_000);
  }
  assert.ok(firsts.size <= 4, `${firsts.size} tubes took places from each other`);
  for (const name of [...tubes.keys()].filter((each) => history.of(each, ["puts"], 0) !== undefined))
    assert.ok(history.of(name, ["puts"], 0)!["puts"]!.length > 150);
});

it("costs little with very many tubes, with room or without", () => {
  const history = new TubeHistory(500);
  const tubes = new Map(Array.from({ length: 200_000 }, (_, at) => tube(`${at}`, (at * 7919) % 200_000, 0)));
  history.note(tubes, 0);
  assert.ok(history.of("0", ["puts"], 0) !== undefined, "it is the oldest");
  const began = process.cpuUsage();
  for (let n = 1; n <= 5; n++) history.note(tubes, n * 10_000);
  const { user } = process.cpuUsage(began);
  assert.ok(user < 1_000_000, `${user} µs`);
});

it("a new tube of the same name starts a new history", () => {
  const history = new TubeHistory(2);
  history.note(new Map([tube("a", 1, 7)]), 10_000);
  history.note(new Map([tube("a", 5, 8)]), 20_000);
  assert.deepEqual(history.of("a", ["ready"], 0), { ready: [[20, 8]] });
});

it("the tube whose counter grew most since a moment is found", () => {
  const history = new TubeHistory(3);
  const counting = (name: string, sequence: number, timeouts: number): [string, TubeEntry] => {
    const [, entry] = tube(name, sequence, 0);
    entry.row[TubeField.timeouts] = timeouts;
    return [name, entry];
  };
  history.note(new Map([counting("a", 1, 0), counting("b", 2, 0)]), 10_000);
  assert.equal(history.mostGrown("timeouts", 0), undefined);
  history.note(new Map([counting("a", 1, 9), counting("b", 2, 0)]), 20_000);
  history.note(new Map([counting("a", 1, 9), counting("b", 2, 3)]), 30_000);
  assert.equal(history.mostGrown("timeouts", 0), "a");
  assert.equal(history.mostGrown("timeouts", 20_000), "b");
});
