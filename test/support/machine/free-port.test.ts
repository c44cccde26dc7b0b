import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { freePort } from "./free-port.ts";

/** Ports that nothing else uses here. */
const RANGE = [11_300, 11_320] as const;

describe("free ports", () => {
  it("are handed out once, also to other processes that don't listen yet", async () => {
    const module = new URL("free-port.ts", import.meta.url).pathname;
    const program = `
      import { freePort } from ${JSON.stringify(module)};
      const ports = [];
      for (let i = 0; i < 6; i++) ports.push(await freePort(${RANGE.join(", ")}));
      console.log(ports.join(" "));
      // Held until this process's standard input ends.
      process.stdin.resume();`;
    const run = promisify(execFile);
    const children = [1, 2].map(() => run(process.execPath, ["--input-type=module", "--eval", program]));
    const theirs = await Promise.all(
      children.map(
        ({ child }) =>
          new Promise<string>((resolve) => child.stdout!.once("data", (line) => resolve(`${line}`))),
      ),
    );
    const ours = [await freePort(...RANGE), await freePort(...RANGE)];
    for (const { child } of children) child.stdin!.end();
    await Promise.all(children);
    const all = [...theirs.flatMap((line) => line.trim().split(" ")), ...ours.map(String)];
    assert.equal(all.length, 14);
    assert.equal(new Set(all).size, all.length, all.join(" "));
  });
});
