import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";

const MODULE = new URL("../../../src/loop/keep-tick-maps.ts", import.meta.url).href;

/**
 * CPU time of ticks behind a full collection that found none under way, as in a thread that has
 * just started.
 */
const PROGRAM = `
const { keepTickMaps } = await import("${MODULE}");
if (process.argv[1] === "keep") keepTickMaps();
const ticks = (count) => new Promise((resolve) => {
  let left = count;
  const tick = () => (--left === 0 ? resolve() : process.nextTick(tick));
  process.nextTick(tick);
});
await ticks(100);
await new Promise((resolve) => setTimeout(() => { gc(); setImmediate(resolve); }, 1));
await ticks(200_000);
const times = [];
for (let round = 0; round < 10; round++) {
  const before = process.cpuUsage().user;
  await ticks(100_000);
  times.push(process.cpuUsage().user - before);
}
console.log(Math.min(...times));
`;

const timeOf = (argument: string): number => {
  const args = ["--expose-gc", "--input-type=module", "-e", PROGRAM, argument];
  return Number(execFileSync(process.execPath, args, { encoding: "utf8" }));
};

describe("keepTickMaps", () => {
  it("keeps ticks fast after a garbage collection, which slows them otherwise", () => {
    const kept = timeOf("keep");
    const left = timeOf("leave");
    assert.ok(kept * 2 < left, `100,000 ticks take ${kept} us, ${left} without it`);
  });
});
