// `npm test` ends a file whose process does not end by itself, says so, and fails.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { temporaryFolder } from "./support/temporary-folder.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Each leaves its process id in a file. */
const FILES: Readonly<Record<string, string>> = {
  "open.test.ts": `it("leaves a server open", () => { createServer().listen(0); throw new Error("failed"); });`,
  "loop.test.ts": `it("never ends", () => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); });`,
  "right.test.ts": `it("is right", () => {});`,
};

it("a file that hangs is ended", { timeout: 60_000 }, async (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, "test"));
  for (const part of ["src", "package.json"]) symlinkSync(join(ROOT, part), join(folder, part));
  symlinkSync(join(ROOT, "test", "support"), join(folder, "test", "support"));
  copyFileSync(join(ROOT, "test", "run.ts"), join(folder, "test", "run.ts"));
  const pidFile = (name: string): string => join(folder, `${name}.pid`);
  for (const [name, code] of Object.entries(FILES))
    writeFileSync(
      join(folder, "test", name),
      `import { it } from "node:test"; import { createServer } from "node:net"; import { writeFileSync } from "node:fs";
writeFileSync(${JSON.stringify(pidFile(name))}, \`\${process.pid}\`);
${code}\n`,
    );
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const runner = spawn(process.execPath, [join(folder, "test", "run.ts")], {
    env: { ...env, TEST_SECONDS: "4" },
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
  for (const name of ["open", "loop"])
    assert.match(said, new RegExp(`INCOMPLETE .*${name}\\.test\\.ts: it still ran after 8 s, and was ended`));
  assert.match(said, /✔ is right/);
  assert.doesNotMatch(said, /right\.test\.ts: /);
  for (const name of Object.keys(FILES))
    assert.throws(() => process.kill(Number(readFileSync(pidFile(name), "utf8")), 0), /ESRCH/, name);
});
