// Tests of the contenders: which servers are measured, and with which flags.
import assert from "node:assert/strict";
import { test } from "node:test";
import { contenders, ourContender, variantContenders } from "./contenders.ts";
import type { BenchOptions } from "./options.ts";

const node = process.execPath; // a program that is there

const optionsOf = (transport?: string[]) => ({ ours: "", theirs: false, transport }) as BenchOptions;

test("contenders: our server runs once per --transport, or once with its default", () => {
  const names = (transport?: string[]) => contenders(optionsOf(transport)).map(({ name }) => name);
  assert.deepEqual(names(), ["runnerbean"]);
  assert.deepEqual(names(["libuv", "io_uring"]), ["runnerbean", "runnerbean io_uring"]);
});

test("contenders: a --transport reaches the profile and the variants once", () => {
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

test("contenders: each --theirs has its name; a repeated name is an error", () => {
  const named = (...theirs: string[]) =>
    contenders({ ours: "", theirs } as Partial<BenchOptions> as BenchOptions).map(({ name }) => name);
  assert.deepEqual(named(node, `fork=${node} -x`), ["runnerbean", "node", "fork"]);
  assert.deepEqual(named(node, "/no/such/program"), ["runnerbean", "node"]);
  assert.throws(() => named(node, `${node} -x`), /Two servers are called node.*name=command/);
  const [ours, theirs] = contenders({
    ours: "",
    theirs: [`a=${node} -x`],
  } as Partial<BenchOptions> as BenchOptions);
  assert.deepEqual([ours!.isOurs, theirs!.isOurs], [true, false]);
  assert.equal(theirs!.description, `${node} -x`);
});
