// Plays a newcomer who adds a counter of jobs and a setting of tubes to a copy of the tree, as
// CONTRIBUTING.md says: few files change, and clients see the new field everywhere.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** A change of a file: behind which text it adds another, undefined for a new file. */
type Edit = readonly [path: string, behind: string | RegExp | undefined, added: string];

function copyOfTree(t: TestContext): string {
  const folder = temporaryFolder(t, "newcomer");
  const listed = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: ROOT,
    encoding: "utf8",
    maxBuffer: 1 << 26,
  });
  for (const path of listed.split("\0").filter((each) => each !== "" && existsSync(join(ROOT, each)))) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(ROOT, path), join(folder, path));
  }
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}

/** Makes the changes and returns the files that they touch. */
function made(folder: string, edits: readonly Edit[]): ReadonlySet<string> {
  for (const [path, behind, added] of edits) {
    const file = join(folder, path);
    const text = behind === undefined ? "" : readFileSync(file, "utf8");
    const changed = behind === undefined ? added : text.replace(behind, (found) => found + added);
    assert.notEqual(changed, text, `${path} has ${behind}`);
    writeFileSync(file, changed);
  }
  return new Set(edits.map(([path]) => path));
}

function checked(folder: string, ...tests: readonly string[]): void {
  const run = (...args: readonly string[]): string => {
    try {
      // The bundle is made of the sources without the change.
      const { NODE_TEST_CONTEXT: _, SERVER_BUNDLE: __, ...others } = process.env;
      const env = { ...others, TRANSCRIPT: "ext-inspect" };
      return execFileSync(process.execPath, args, { cwd: folder, encoding: "utf8", env });
    } catch (error) {
      const { stdout, stderr } = error as { stdout: string; stderr: string };
      throw new Error(`${args.join(" ")}\n${stdout}${stderr}`);
    }
  };
  run("node_modules/typescript/bin/tsc", "--noEmit");
  run("--test", ...tests, "test/oracle/transcripts-in-process.test.ts");
}

const testOf = (body: string): string => `// The newcomer's test.

import assert from "node:assert/strict";
import { it } from "node:test";
import { startHttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";

it("the new field is seen over the protocol and over HTTP", async () => {
  const server = await startHttpServer("--shards", "1", "--acceptors", "1");
  const client = await WireClient.connect(server.process.address);
  try {
${body}
  } finally {
    client.socket.destroy();
    await server.process.stop();
  }
});
`;

const COUNTER: readonly Edit[] = [
  [
    "src/schema/job.ts",
    `    says: "Reservations that ended with the connection of their worker.",
  },
`,
    `  touches: { at: 6, attribute: 28, says: "How often its worker renewed the reservation." },\n`,
  ],
  [
    "src/engine/queue-core.ts",
    "    this.jobTouches++;\n",
    "    this.policies.failures.countRare(slot, JobCounter.touches);\n",
  ],
  [
    "src/protocol/README.md",
    "| `disconnects` | how many of its reservations ended with the connection of their worker |\n",
    "| `touches` | how often its worker renewed its reservation |\n",
  ],
  ["test/transcripts/ext-inspect.txt", /^A<\| disconnects: 0\n(?=A<\| failures: )/gm, "A<| touches: 0\n"],
  ["CHANGELOG.md", "## [Unreleased]\n", "\n- inspect-job and HTTP count the touches of a job.\n"],
  [
    "test/http/touches.test.ts",
    undefined,
    testOf(`    await client.ask("put 1 0 60 1\\r\\na");
    await client.ask("reserve");
    await client.ask("touch 1");
    await client.ask("touch 1");
    const { body } = await client.ask("inspect-job 1");
    assert.match(String(body), /^touches: 2$/m);
    const { json } = await server.ask("/v1/jobs/1");
    assert.equal(json.touches, 2);`),
  ],
];

const SETTING: readonly Edit[] = [
  [
    "src/schema/setting.ts",
    `  maxReserved: row("number", { min: 1, unset: UNLIMITED, label: "reserved at most", hint: "at the same time" }),\n`,
    `  maxDelay: row("duration", { unset: UNLIMITED, label: "longest delay", hint: "of a put" }),\n`,
  ],
  [
    "src/engine/queue-core.ts",
    "    if (refusal !== Outcome.Done) return refusal;\n    if (this.records?.roomForPut() === false) return Outcome.NoRoom;\n",
    "    if (tube.policy !== undefined) delayMs = Math.min(delayMs, tube.policy.maxDelayMs);\n",
  ],
  [
    "src/protocol/README.md",
    "| `max-reserved=<n>` | how many jobs may be reserved at the same time |\n",
    "| `max-delay=<duration>` | a put with a longer delay has this one |\n",
  ],
  ["CHANGELOG.md", "## [Unreleased]\n", "\n- `set-tube` has `max-delay`.\n"],
  [
    "test/http/max-delay.test.ts",
    undefined,
    testOf(`    assert.equal((await client.ask("set-tube default max-delay=0")).line, "SET");
    assert.equal((await client.ask("put 1 60 60 1\\r\\na")).line, "INSERTED 1");
    const { body } = await client.ask("inspect-tube default");
    assert.match(String(body), /^max-delay: 0\\nmax-delay-from: "default"$/m);
    const { json } = await server.ask("/v1/tubes/default");
    assert.deepEqual(json.settings.maxDelay, { value: 0, from: "default" });
    assert.deepEqual([json.jobs.ready, json.jobs.delayed], [1, 0]);`),
  ],
];

it("a counter of jobs takes a change of 8 files, and a setting of tubes one of 5, with tests and documents", (t) => {
  const folder = copyOfTree(t);
  assert.ok(made(folder, COUNTER).size <= 8);
  assert.ok(made(folder, SETTING).size <= 5);
  checked(folder, "test/http/touches.test.ts", "test/http/max-delay.test.ts");
});
