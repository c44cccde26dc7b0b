// Tests of the lists of tubes and of settings: which ones they have, in how many parts, and that
// new ones don't prolong them.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { latin1 } from "../../../../src/base/bytes.ts";
import { JobState } from "../../../../src/engine/jobs/job-table.ts";
import { TUBE_ROWS_AT } from "../../../../src/message/control.ts";
import { TUBE_FIELDS, TubeField } from "../../../../src/schema/tube.ts";
import type {
  ControlAnswerer,
  ControlShard,
  ControlWork,
} from "../../../../src/shard/control/control-work.ts";
import { ListSettings, ListTubes } from "../../../../src/shard/control/list-tubes.ts";
import { EngineBench } from "../../engine/engine-bench.ts";

/** Settings looked at in a step, and those of a part. */
const SLICE_PATTERNS = 300;
const PART_SETTINGS = 20;
/** Tubes of a part. */
const PART_TUBES = 200;

function shardOf({ engine }: EngineBench, ownsTube: (name: string) => boolean = () => true): ControlShard {
  return { engine, records: undefined, nowMs: 0, clock: () => 0, portCount: 1, leaseSession: 1, ownsTube };
}

/** The parts of an answer, one for each step; `meanwhile` runs after each. */
function partsOf<Part>(
  work: ControlWork,
  read: (bytes: Uint8Array, length: number) => Part,
  meanwhile: () => void = () => {},
): Part[] {
  const parts: Part[] = [];
  let ended = false;
  const answerer: ControlAnswerer = {
    partBytesMax: 1 << 20,
    value: (value, isLast) => {
      parts.push(structuredClone(value) as Part);
      ended = isLast;
    },
    bytes: (bytes, length, isLast) => {
      parts.push(read(bytes.slice(0, length), length));
      ended = isLast;
    },
  };
  for (let step = 1; ; step++) {
    assert.ok(step < 100, "a list ends");
    const isDone = work.step(answerer);
    assert.deepEqual([parts.length, ended], [step, isDone], "each step sends a part");
    if (isDone) return parts;
    meanwhile();
  }
}

describe("a list of settings", () => {
  const nameOf = (number: number): string => `t${String((number * 7919) % 10_007).padStart(5, "0")}`;
  const settingsOf = (work: ControlWork, meanwhile?: () => void): [string, string][][] =>
    partsOf<[string, string][]>(work, () => [], meanwhile);
  const add = ({ engine }: EngineBench, from: number, count: number): string[] => {
    const names = Array.from({ length: count }, (_, index) => nameOf(from + index));
    for (const [index, name] of names.entries()) engine.settings.set(name, { maxJobs: from + index });
    return names;
  };

  for (const size of [0, 1, SLICE_PATTERNS - 1, SLICE_PATTERNS, SLICE_PATTERNS + 1, 2 * SLICE_PATTERNS + 1])
    it(`has the first ones of ${size} in order`, () => {
      const bench = new EngineBench();
      const names = add(bench, 1, size).sort();
      for (const after of ["", names[0] ?? "", names[size >> 1] ?? "", names.at(-1) ?? ""])
        for (const limit of [1, PART_SETTINGS - 1, PART_SETTINGS, PART_SETTINGS + 1, size, size + 1]) {
          if (limit < 1) continue;
          const parts = settingsOf(new ListSettings(shardOf(bench), { after, limit }));
          const expected = names.filter((name) => name > after).slice(0, limit);
          assert.deepEqual(
            parts.flat().map(([name]) => name),
            expected,
          );
          const looks = Math.max(1, Math.ceil(size / SLICE_PATTERNS));
          const written = Math.max(1, Math.ceil(expected.length / PART_SETTINGS));
          assert.equal(parts.length, looks - 1 + written);
          assert.ok(parts.every((part) => part.length <= PART_SETTINGS));
        }
    });

  it("has what is set when a part is sent, and none that is gone by then", () => {
    const bench = new EngineBench();
    for (const name of ["a", "b", "c"]) bench.engine.settings.set(name, { maxJobs: 1 });
    add(bench, 1, SLICE_PATTERNS - 2);
    const list = new ListSettings(shardOf(bench), { after: "", limit: 4 });
    const parts = settingsOf(list, () => {
      bench.engine.settings.set("b", {});
      bench.engine.settings.set("c", { maxJobs: 2, maxReserved: 3 });
    });
    assert.deepEqual(parts[0], []);
    assert.deepEqual(parts[1]!.slice(0, 2), [
      ["a", "max-jobs=1"],
      ["c", "max-jobs=2 max-reserved=3"],
    ]);
    assert.equal(parts[1]!.length, 3);
  });

  it("isn't prolonged by new ones", () => {
    const bench = new EngineBench();
    add(bench, 1, SLICE_PATTERNS + 1);
    const list = new ListSettings(shardOf(bench), { after: "", limit: 1 });
    let last = SLICE_PATTERNS + 1;
    const parts = settingsOf(list, () => {
      add(bench, last + 1, 2 * SLICE_PATTERNS);
      last += 2 * SLICE_PATTERNS;
    });
    assert.equal(parts.length, 2);
  });

  it("has only those of tubes on this shard, and none once it is cancelled", () => {
    const bench = new EngineBench();
    for (const name of ["a", "b", "c"]) bench.engine.settings.set(name, { maxJobs: 1 });
    const shard = shardOf(bench, (name) => name !== "b");
    const names = (list: ListSettings): string[] =>
      settingsOf(list).flatMap((part) => part.map(([name]) => name));
    assert.deepEqual(names(new ListSettings(shard, { after: "", limit: 9 })), ["a", "c"]);
    const cancelled = new ListSettings(shard, { after: "", limit: 9 });
    cancelled.cancel();
    assert.deepEqual(names(cancelled), []);
  });
});

describe("a list of tubes", () => {
  type Row = [name: string, ready: number, puts: number];
  const read = (bytes: Uint8Array, length: number): Row[] => {
    const view = new DataView(bytes.buffer);
    const count = view.getUint32(0, true);
    const field = (row: number, each: number): number =>
      view.getFloat64(TUBE_ROWS_AT + (row * TUBE_FIELDS + each) * 8, true);
    let at = TUBE_ROWS_AT + count * TUBE_FIELDS * 8;
    const rows = Array.from({ length: count }, (_, row): Row => {
      const end = at + 1 + bytes[at]!;
      const name = latin1(bytes, at + 1, end);
      at = end;
      return [name, field(row, TubeField.ready), field(row, TubeField.puts)];
    });
    assert.equal(at, length, "a part has nothing else");
    return rows;
  };
  const tubesOf = (bench: EngineBench, name?: string, meanwhile?: () => void): Row[][] =>
    partsOf(new ListTubes(shardOf(bench), name), read, meanwhile);
  /** Adds tubes up to this number, with one to three jobs each. */
  const fill = (bench: EngineBench, size: number): void => {
    for (let number = bench.engine.tubes.size; number < size; number++) {
      const session = bench.session(0, `t${number}`);
      for (let job = 0; job <= number % 3; job++) bench.put(session);
    }
    assert.equal(bench.engine.tubes.size, size);
  };

  for (const size of [1, PART_TUBES - 1, PART_TUBES, PART_TUBES + 1, 2 * PART_TUBES + 1])
    it(`has all of ${size}, once, with their counts`, () => {
      const bench = new EngineBench();
      fill(bench, size);
      const parts = tubesOf(bench);
      assert.equal(parts.length, Math.ceil(size / PART_TUBES));
      const expected = [...bench.engine.tubes.values()].map((tube): Row => {
        return [tube.name, tube.jobsIn(JobState.Ready), tube.totalJobs];
      });
      assert.deepEqual(parts.flat(), expected);
    });

  it("isn't prolonged by new ones", () => {
    const bench = new EngineBench();
    fill(bench, PART_TUBES + 1);
    let size = PART_TUBES + 1;
    const parts = tubesOf(bench, undefined, () => fill(bench, (size += 2 * PART_TUBES)));
    assert.deepEqual(
      parts.map((part) => part.length),
      [PART_TUBES, 1],
    );
  });

  it("of a name has that one, or none", () => {
    const bench = new EngineBench();
    fill(bench, 3);
    assert.deepEqual(tubesOf(bench, "t2"), [[["t2", 3, 3]]]);
    assert.deepEqual(tubesOf(bench, "t3"), [[]]);
  });
});
