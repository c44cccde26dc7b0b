// Tests of the cold phase, in a process of its own, since V8's flags apply to all of a process.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";

const MODULE = new URL("../../../../src/server/lifecycle/cold-phase.ts", import.meta.url).href;

/** Flags of `%GetOptimizationStatus` (runtime.h): V8 has optimized the function with TurboFan. */
const TURBOFANNED = 1 << 5;

describe("the cold phase", () => {
  it("puts TurboFan off until the messages have been taken, not longer", () => {
    const program = `
      const { beginColdPhase } = await import("${MODULE}");
      let messages = 0;
      beginColdPhase(() => messages);
      function sum(a, b) { return a + b; }
      const isOptimized = () => (%GetOptimizationStatus(sum) & ${TURBOFANNED}) !== 0;
      const calls = async (count) => {
        for (let i = 0; i < count; i++) sum(i, 1);
        await new Promise((resolve) => setTimeout(resolve, 20));
      };
      for (let round = 0; round < 8; round++) await calls(10_000);
      console.log(isOptimized());
      messages = 1e9;
      // The server looks once a second.
      while (!isOptimized()) await calls(1000);
      console.log(isOptimized());`;
    // An inlined function is not called.
    const flags = ["--allow-natives-syntax", "--no-maglev-inlining", "--no-turbo-inlining"];
    const args = [...flags, "--input-type=module", "--eval", program];
    const output = execFileSync(process.execPath, args, { encoding: "utf8", timeout: 120_000 });
    assert.deepEqual(output.trim().split("\n"), ["false", "true"]);
  });

  it("lets the process end, with the timer under way", () => {
    const program = `(await import("${MODULE}")).beginColdPhase(() => 0);`;
    const args = ["--input-type=module", "--eval", program];
    assert.equal(execFileSync(process.execPath, args, { encoding: "utf8", timeout: 120_000 }), "");
  });
});
