import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { assert as invariant } from "../../../src/base/assert.ts";

const urlOf = (path: string): string => new URL(`../../../${path}`, import.meta.url).href;

/** Returns the output of a process that runs `program` with this value of the variable. */
function printed(program: string, checked: string | undefined): string {
  const { RUNNERBEAN_CHECKED: _, ...env } = process.env;
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", program], {
    encoding: "utf8",
    env: checked === undefined ? env : { ...env, RUNNERBEAN_CHECKED: checked },
    cwd: fileURLToPath(new URL("../../..", import.meta.url)),
  });
  return stdout + stderr;
}

const PRINT = `import { CHECKED } from "${urlOf("src/base/assert.ts")}"; console.log(CHECKED);`;

describe("assert", () => {
  it("passes while the condition holds, and throws with what must hold", () => {
    invariant(true, "truth");
    assert.throws(() => invariant(false, "a count is positive"), {
      message: "broken invariant: a count is positive",
    });
  });
});

describe("CHECKED", () => {
  it("is true only if the variable is 1", () => {
    assert.equal(printed(PRINT, "1"), "true\n");
    assert.equal(printed(PRINT, "0"), "false\n");
    assert.equal(printed(PRINT, undefined), "false\n");
  });

  it("is true in the simulations, unless the environment says otherwise", () => {
    const program = `import "${urlOf("test/support/checked.ts")}"; ${PRINT}`;
    assert.equal(printed(program, undefined), "true\n");
    assert.equal(printed(program, "0"), "false\n");
  });
});
