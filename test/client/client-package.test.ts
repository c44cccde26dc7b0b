// Tests of the client as users import it: built, with its types, on the oldest supported Node; and
// of the examples in docs/client.md. test/packaging/packages.test.ts installs it.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { writeBundle } from "../../packaging/bundle/write-bundle.ts";
import { clientFiles } from "../../packaging/client/client-files.ts";
import { canRun, NEEDS, type Need } from "../support/machine/need.ts";
import { type ServerKind, type ServerProcess, startServer } from "../support/server/server-process.ts";
import { skipVariant } from "../support/whole.ts";
import { nodes } from "./nodes.ts";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const TSC = join(ROOT, "node_modules", "typescript", "bin", "tsc");
const ADDRESS = "127.0.0.1:11300";

const SERVERS: readonly { kind: ServerKind; need: Need }[] = [
  { kind: "beanstalkd-1.12", need: NEEDS.beanstalkd },
  { kind: "ours", need: NEEDS.ours },
];

interface Example {
  readonly name: string;
  readonly code: string;
  readonly prints: string;
  /** Extensions that it shows. */
  readonly needs: readonly string[];
}

/** The blocks of code in docs/client.md, each with what is said that it prints. */
function examples(): Example[] {
  const page = readFileSync(join(ROOT, "docs", "client.md"), "utf8");
  const block = /```ts(?: needs=(\S+))?\n([\s\S]*?)```\n\nprints\n\n```text\n([\s\S]*?)```/g;
  return [...page.matchAll(block)].map(([, needs, code = "", prints = ""], index) => ({
    name: `example${index + 1}`,
    code,
    prints,
    needs: needs?.split(",") ?? [],
  }));
}

/** Code that must not pass the type check, and code that must. */
const TYPES = `
import { connect, json, type Job, type Queue, NotFound, text, work } from "@runnerbean/client";
interface Mail { to: string }
const mails: Queue<Mail> = await connect("h", { codec: json<Mail>() });
const bytes = await connect("h");
const texts = await connect("h", { codec: text() });
await bytes.put("t", "text"); await bytes.put("t", new Uint8Array(3));
await mails.put("t", { to: "a" }, { unique: "k", uniqueUntil: "reserve" });
const job: Job<Mail> = await mails.reserve();
const to: string = job.body.to;
const maybe: Job<string> | undefined = await texts.reserve({ timeout: 1 });
const body: Uint8Array = (await bytes.reserve()).body;
const ready: number = (await bytes.tube("t").stats()).currentJobsReady;
await bytes.tube("t*").set({ maxAttempts: 5, deadLetter: null, rate: "5/60" });
const worker = work(mails, ["t"], async (job, signal) => void [job.body.to, signal.aborted], { concurrency: 2 });
await worker.stop({ graceMs: 10 });
for await (const listed of mails.jobs("t", { state: ["ready", "buried"] })) { const state: string = listed.state; await listed.update({ pri: 1 }); void state; }
const reply: string = new NotFound("", "NOT_FOUND").reply;
// @ts-expect-error a mail has an address
await mails.put("t", {});
// @ts-expect-error no number is a body
await bytes.put("t", 5);
// @ts-expect-error with a timeout there may be none
const surely: Job<Mail> = await mails.reserve({ timeout: 1 });
// @ts-expect-error no such option
await bytes.put("t", "x", { priority: 1 });
// @ts-expect-error no such state
mails.jobs("t", { state: "done" });
// @ts-expect-error a worker gets what the codec gives
work(mails, ["t"], async (job) => job.body.from);
void [to, maybe, body, ready, reply, surely];
`;

const CONFIG = {
  compilerOptions: {
    target: "es2022",
    module: "nodenext",
    strict: true,
    exactOptionalPropertyTypes: true,
    // The types of the package are checked, too.
    skipLibCheck: false,
    types: ["node"],
    outDir: "out",
    noEmitOnError: true,
  },
  include: ["*.ts"],
};

describe("the client as a package", () => {
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-client-"));
  after(() => rmSync(folder, { recursive: true, force: true }));
  const servers: Partial<Record<ServerKind, Promise<ServerProcess>>> = {};
  after(() => Promise.all(Object.values(servers).map(async (server) => (await server).stop())));

  before(async () => {
    const home = join(folder, "node_modules", "@runnerbean", "client");
    writeBundle(await clientFiles(), home);
    const manifest = { name: "@runnerbean/client", type: "module", exports: "./client.js" };
    writeFileSync(join(home, "package.json"), JSON.stringify(manifest));
    mkdirSync(join(folder, "node_modules", "@types"));
    symlinkSync(join(ROOT, "node_modules", "@types", "node"), join(folder, "node_modules", "@types", "node"));
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(CONFIG));
    writeFileSync(join(folder, "types.ts"), TYPES);
    for (const { name, code } of examples()) writeFileSync(join(folder, `${name}.ts`), code);
  });

  async function tsc(...args: string[]): Promise<void> {
    const { stdout } = await run(process.execPath, [TSC, ...args]).catch((error) => error);
    assert.equal(stdout, "");
  }

  it("has types and examples that pass a strict check", async () => {
    assert.ok(examples().length >= 5, "the examples are found");
    await tsc("-p", folder);
    assert.ok(readdirSync(join(folder, "out")).includes("example1.js"));
  });

  it("imports only Node's own modules, and types of what it shares with the server", () => {
    const sources = globSync("src/client/*.ts", { cwd: ROOT });
    const files = sources.map((path) => readFileSync(join(ROOT, path), "utf8"));
    const imported = files.flatMap((code) => [...code.matchAll(/from "([^"]+)"/g)].map(([, name]) => name!));
    assert.deepEqual([...new Set(imported.filter((name) => !name.startsWith("./")))].sort(), [
      "../schema/job.ts",
      "../schema/schedule.ts",
      "../schema/setting.ts",
      "node:module",
      "node:net",
      "node:os",
      "node:tls",
    ]);
    for (const code of files) assert.doesNotMatch(code, /^import (?!type )[^;]* from "\.\.\//m);
  });

  for (const [row, { kind, need }] of SERVERS.entries()) {
    for (const [column, example] of examples().entries()) {
      const isOurs = example.needs.length > 0;
      if (isOurs && kind !== "ours") continue;
      const skip = !isOurs && skipVariant(row + column, SERVERS.length);
      it(`runs ${example.name} of docs/client.md with ${kind}`, { skip }, async (t) => {
        if (!canRun(t, need)) return;
        const server = await (servers[kind] ??= startServer({ kind }));
        const path = join(folder, "out", `${example.name}-${server.port}.js`);
        const code = readFileSync(join(folder, "out", `${example.name}.js`), "utf8");
        assert.ok(code.includes(ADDRESS));
        writeFileSync(path, code.replaceAll(ADDRESS, `127.0.0.1:${server.port}`));
        const { stdout, stderr } = await run(nodes()[0]!, [path], { timeout: 120_000 });
        assert.deepEqual({ stdout, stderr }, { stdout: example.prints, stderr: "" });
      });
    }
  }
});
