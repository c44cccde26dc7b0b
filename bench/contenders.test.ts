// Which servers are measured, and with which flags.
import assert from "node:assert/strict";
import { test } from "node:test";
import { contenders, ourContender, variantContenders } from "./contenders.ts";
import type { BenchOptions } from "./options.ts";

const optionsOf = (transport?: string[]) => ({ ours: "", theirs: false, transport }) as BenchOptions;

test("contenders: our server once for each --transport, by name; as it starts by itself without", () => {
  const names = (transport?: string[]) => contenders(optionsOf(transport)).map(({ name }) => name);
  assert.deepEqual(names(), ["runnerbean"]);
  assert.deepEqual(names(["libuv", "io_uring"]), ["runnerbean", "runnerbean io_uring"]);
});

test("contenders: a --transport reaches the profile and the variants, and is given once", () => {
  const options = optionsOf(["libuv"]);
  const measured = [
    ourContender(options, ["--log-level", "debug"]),
    ...variantContenders(options, [["--shards", "2"]]),
    ...contenders(options),
  ];
  assert.equal(measured.length, 4);
  for (const { description } of measured)
    assert.equal(description.split("--transport libuv").length, 2, description);
});
