// Tests of every micro-benchmark at a small size: it runs, and does the work that it measures.
import assert from "node:assert/strict";
import { test } from "node:test";
import { skipVariant } from "../../test/support/whole.ts";
import { MICRO_BENCHMARKS, microBenchmarksNamed } from "./catalogue.ts";
import { type MicroBenchmark, measure } from "./micro-benchmark.ts";

const ROUNDS = 2;

for (const [index, benchmark] of MICRO_BENCHMARKS.entries()) {
  const { subject, name, smallOperations } = benchmark;
  test(`${subject}: ${name}`, { skip: skipVariant(index, 2) }, async () => {
    // Two sizes: a checksum that doesn't depend on the work would fit one at most. `measure`
    // compares each round's.
    for (const operations of [smallOperations, smallOperations - 1]) {
      const result = await measure(benchmark, operations, ROUNDS);
      assert.equal(result.operations, operations);
      assert.equal(result.rounds, ROUNDS);
      assert.ok(result.lowestNs > 0 && result.lowestNs <= result.nsPerOperation);
    }
  });
}

test("measure: refuses a round that did other work", async () => {
  let closed = 0;
  const lazy: MicroBenchmark = {
    subject: "lazy",
    name: "does one thing less",
    operations: 10,
    smallOperations: 10,
    expected: (operations) => operations,
    open: (operations) => ({
      run: () => operations - 1,
      close: async () => {
        closed++;
      },
    }),
  };
  await assert.rejects(measure(lazy, 10, 1), /lazy, does one thing less: the checksum is 9 instead of 10/);
  assert.equal(closed, 1);
});

test("microBenchmarksNamed: finds every subject and refuses unknown ones", () => {
  const subjects = ["parser", "ring", "doorbell", "heap", "table", "arena", "record", "engine", "command"];
  for (const subject of subjects) assert.ok(microBenchmarksNamed([subject]).length > 0, subject);
  assert.equal(microBenchmarksNamed(subjects).length, MICRO_BENCHMARKS.length);
  assert.throws(
    () => microBenchmarksNamed(["ring", "no-such"]),
    /Unknown micro-benchmark no-such. There are: parser/,
  );
});
