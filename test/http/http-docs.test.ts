// Tests of examples in docs/http.md, word for word, each on a freshly started server.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { startHttpServer } from "../support/server/http-server.ts";

const run = promisify(execFile);
const PAGE = readFileSync(fileURLToPath(new URL("../../docs/http.md", import.meta.url)), "utf8");
/** Between what two commands print; no command prints it. */
const BETWEEN = "\u0001";

/** Returns a comment as a pattern: `…` matches anything. */
const expressionOf = (said: string): RegExp =>
  new RegExp(`^${said.split("…").map(RegExp.escape).join("[^]*")}$`);

for (const [title, least] of [
  ["The first five minutes", 10],
  ["Schedules", 5],
  ["Batches", 8],
] as const)
  it(`docs/http.md: the examples of "${title}" get the shown answers`, async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.curl)) return;
    const server = await startHttpServer("--shards", "3");
    t.after(() => server.process.stop());
    const [, section = ""] = PAGE.split(`## ${title}\n`);
    const lines = section.split("\n## ")[0]!.match(/^ {4}\S.*$/gm) ?? [];
    assert.ok(lines.length > least);
    const commands = lines.map((line) => {
      const [, command = "", said = ""] = /^ {4}(.*?)(?: +# (.*))?$/.exec(line)!;
      return { command, said };
    });
    const script = commands.map(({ command }) => `${command}\nprintf '${BETWEEN}'\n`).join("");
    const here = script.replaceAll("localhost:11380", `127.0.0.1:${server.port}`);
    const { stdout } = await run("bash", ["-ec", here.replaceAll("curl ", "curl -sS ")]);
    const answers = stdout.split(BETWEEN);
    for (const [index, { command, said }] of commands.entries())
      assert.match(answers[index]!.trimEnd(), expressionOf(said), command);
  });
