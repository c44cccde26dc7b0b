// Tests that `npm test` ends a file whose process hangs, reports it, and fails.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Each leaves its process id in a file. */
const FILES: Readonly<Record<string, string>> = {
  "unit/room/right.test.ts": `it("has a process of its own then", () => {});`,
  "unit/room/loop.test.ts": `it("never ends", () => { for (;;); });`,
  "unit/room/await.test.ts": `it("waits for ever", async () => { createServer().listen(0); await new Promise(() => {}); });`,
  "skipped.test.ts": `describe("all of it", { skip: "/usr/bin/php is missing (apt-get install php-cli)" }, () => {});`,
  "open.test.ts": `it("leaves a server open", () => { createServer().listen(0); throw new Error("failed"); });`,
  "loop.test.ts": `it("never ends", () => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); });`,
  "right.test.ts": `it("is right", () => {});`,
};

it("a file that hangs is killed", { timeout: 60_000 }, async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, "test", "unit", "room"), { recursive: true });
  for (const part of ["src", "package.json"]) symlinkSync(join(ROOT, part), join(folder, part));
  symlinkSync(join(ROOT, "test", "support"), join(folder, "test", "support"));
  copyFileSync(join(ROOT, "test", "run.ts"), join(folder, "test", "run.ts"));
  const pidFile = (name: string): string => join(folder, `${name.replaceAll("/", "-")}.pid`);
  for (const [name, code] of Object.entries(FILES))
    writeFileSync(
      join(folder, "test", name),
      `import { describe, it } from "node:test"; import { createServer } from "node:net"; import { writeFileSync } from "node:fs";
writeFileSync(${JSON.stringify(pidFile(name))}, \`\${process.pid}\`);
${code}\n`,
    );
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const runner = spawn(process.execPath, [join(folder, "test", "run.ts")], {
    env: { ...env, TEST_SECONDS: "8", UNIT_SECONDS: "0.5" },
  });
  t.after(() => {
    if (runner.exitCode !== null) return;
    runner.kill();
    for (const name of Object.keys(FILES))
      process.kill(Number(readFileSync(pidFile(name), "utf8")), "SIGKILL");
  });
  let said = "";
  for (const stream of [runner.stdout, runner.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
  const code = await new Promise((resolve) => runner.once("close", resolve));
  assert.equal(code, 1, said);
  const ended = [
    ...said.matchAll(/^INCOMPLETE .*\/test\/(.*)\.test\.ts: it still ran after (\d+) s, and was ended$/gm),
  ];
  const after = Object.fromEntries(ended.map(([, name, seconds]) => [name, Number(seconds)]));
  assert.deepEqual(Object.keys(after).sort(), ["loop", "open", "unit/room/await", "unit/room/loop"]);
  for (const name of ["loop", "open"]) assert.ok(after[name]! >= 16, said);
  for (const name of ["unit/room/await", "unit/room/loop"]) assert.ok(after[name]! < 16, said);
  assert.match(said, /^✔ test\/right\.test\.ts: 1 passed, /m);
  assert.match(said, /^✔ test\/unit\/room\/right\.test\.ts: 1 passed, /m);
  assert.match(said, /^✖ test\/open\.test\.ts: 0 passed, 1 failed, /m);
  assert.doesNotMatch(said, /^(?:✖|FAILED|INCOMPLETE) .*(?:right|skipped)/m);
  const last = said.slice(said.indexOf("INCOMPLETE")).trim().split("\n");
  assert.deepEqual(
    last.filter((line) => !/^(?:INCOMPLETE|FAILED| {4})/.test(line)),
    [],
    "failures come last",
  );
  assert.match(last.join("\n"), /^FAILED test\/open\.test\.ts:\d+ leaves a server open\n {4}Error: failed$/m);
  assert.match(said, /^SKIPPED all of it: \/usr\/bin\/php is missing/m);
  assert.match(said, /^To skip less: sudo apt-get install php-cli$/m);
  for (const name of Object.keys(FILES))
    assert.throws(() => process.kill(Number(readFileSync(pidFile(name), "utf8")), 0), /ESRCH/, name);
});
