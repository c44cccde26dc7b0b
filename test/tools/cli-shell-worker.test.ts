// Tests of `runnerbean reserve -- CMD` as a worker: signals, and servers that go and come back.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { connect, NotFound, type Queue } from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import {
  endsWithUs,
  ourMain,
  type ServerProcess,
  startServer,
  TEST_ENV,
} from "../support/server/server-process.ts";

const LAUNCHER = fileURLToPath(new URL("../../bin/runnerbean", import.meta.url));

interface ShellWorker {
  readonly child: ChildProcess;
  readonly exited: Promise<number | null>;
  readonly stderr: () => string;
}

const startWorker = (path: string, script: string, ...args: string[]): ShellWorker =>
  startAs([process.execPath, ourMain(TEST_ENV)], path, script, args);

function startAs(
  [program = "", ...before]: readonly string[],
  path: string,
  script: string,
  args: readonly string[] = [],
): ShellWorker {
  const command = [...before, "reserve", "w", "--max", "0", ...args, "--", "sh", "-c", script];
  const env = { ...TEST_ENV, RUNNERBEAN_URL: `unix:${path}` };
  const child = spawn(program, command, { env, stdio: ["ignore", "ignore", "pipe"] });
  endsWithUs(child);
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const exited = new Promise<number | null>((resolve) => child.on("close", resolve));
  return { child, exited, stderr: () => stderr };
}

interface Bench {
  readonly queue: Queue<Uint8Array, Uint8Array | string>;
  readonly path: string;
  readonly file: (name: string) => string;
  server: ServerProcess;
  start(): Promise<ServerProcess>;
}

async function benchFor(t: TestContext, flags: readonly string[] = []): Promise<Bench> {
  const folder = temporaryFolder(t);
  const file = (name: string): string => join(folder, name);
  const path = file("socket");
  const start = async (): Promise<ServerProcess> => {
    const server = await startServer({ kind: "ours", unixPath: path, flags });
    t.after(() => server.stop());
    return server;
  };
  const server = await start();
  const queue = await connect(`unix:${path}`, { retryMs: [10, 100], offlineMs: 60_000 });
  t.after(() => queue.close());
  return { queue, path, file, server, start };
}

/** A command that says that it has begun, and ends when it may. */
const patient = ({ file }: Bench): string =>
  `touch ${file("begun")}; while ! [ -e ${file("go")} ]; do sleep 0.05; done; touch ${file("done")}`;

const isGone = (bench: Bench, id: number): Promise<boolean> =>
  bench.queue
    .job(id)
    .stats()
    .then(
      () => false,
      (error) => error instanceof NotFound || Promise.reject(error),
    );

describe("a shell worker", { concurrency: true }, () => {
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const)
    it(`lets its command end at ${signal}, settles the job and exits with 0`, async (t) => {
      const bench = await benchFor(t);
      const { id } = await bench.queue.put("w", "x");
      const { child, exited, stderr } = startWorker(bench.path, patient(bench));
      await eventually("the command runs", () => existsSync(bench.file("begun")));
      child.kill(signal);
      await eventually("it has the signal", () => stderr().includes(`${signal}: waiting`));
      writeFileSync(bench.file("go"), "");
      assert.equal(await exited, 0);
      assert.ok(existsSync(bench.file("done")));
      assert.ok(await isGone(bench, id));
    });

  it("outlives its terminal under nohup", async (t) => {
    const bench = await benchFor(t);
    const { id } = await bench.queue.put("w", "x");
    const { child, exited, stderr } = startAs(["nohup", LAUNCHER], bench.path, patient(bench));
    await eventually("the command runs", () => existsSync(bench.file("begun")));
    child.kill("SIGHUP");
    child.kill("SIGTERM");
    await eventually("it has a signal", () => stderr().includes("SIGTERM: waiting"));
    assert.doesNotMatch(stderr(), /SIGHUP/);
    writeFileSync(bench.file("go"), "");
    assert.equal(await exited, 0);
    assert.ok(await isGone(bench, id));
  });

  it("kills its command at a second signal, and the job is ready again", async (t) => {
    const bench = await benchFor(t);
    const { id } = await bench.queue.put("w", "x");
    const { child, exited, stderr } = startWorker(bench.path, patient(bench));
    await eventually("the command runs", () => existsSync(bench.file("begun")));
    child.kill("SIGTERM");
    await eventually("it has the signal", () => stderr().includes("SIGTERM: waiting"));
    child.kill("SIGTERM");
    assert.equal(await exited, 143);
    const { queue } = bench;
    await eventually("it is ready", async () => (await queue.job(id).stats()).state === "ready");
    assert.ok(!existsSync(bench.file("done")));
  });

  it("exits with 0 at a signal while it waits", async (t) => {
    const bench = await benchFor(t);
    await bench.queue.put("w", "x");
    const { child, exited } = startWorker(bench.path, "true");
    const isWaiting = async (): Promise<boolean> =>
      (await bench.queue.tubes()).includes("w") && (await bench.queue.tube("w").stats()).currentWaiting === 1;
    await eventually("it waits", isWaiting);
    child.kill("SIGTERM");
    assert.equal(await exited, 0);
  });

  it("reconnects to the same log, and deletes the job of the command that ended meanwhile", async (t) => {
    const bench = await benchFor(t, ["-b", temporaryFolder(t)]);
    const { id } = await bench.queue.put("w", "x");
    const { child, exited } = startWorker(bench.path, patient(bench));
    await eventually("the command runs", () => existsSync(bench.file("begun")));
    await bench.server.stop();
    writeFileSync(bench.file("go"), "");
    await bench.start();
    await eventually("the job is gone", () => isGone(bench, id));
    child.kill("SIGTERM");
    assert.equal(await exited, 0);
  });

  it("settles nothing on a server without that log, and goes on", async (t) => {
    const bench = await benchFor(t);
    const { id } = await bench.queue.put("w", "x");
    const { child, exited, stderr } = startWorker(bench.path, patient(bench));
    await eventually("the command runs", () => existsSync(bench.file("begun")));
    await bench.server.stop();
    await bench.start();
    assert.equal((await bench.queue.put("payments", "never processed")).id, id);
    writeFileSync(bench.file("go"), "");
    await eventually("it says so", () => stderr().includes(`job ${id} is not settled`));
    assert.equal((await bench.queue.job(id).stats()).tube, "payments");
    const next = await bench.queue.put("w", "y");
    await eventually("it does the next job", () => isGone(bench, next.id));
    child.kill("SIGTERM");
    assert.equal(await exited, 0);
  });

  it("exits with 3 if no server comes back in time", async (t) => {
    const bench = await benchFor(t);
    await bench.queue.put("w", "x");
    const { exited, stderr } = startWorker(bench.path, patient(bench), "--timeout", "1");
    await eventually("the command runs", () => existsSync(bench.file("begun")));
    await bench.queue.close();
    await bench.server.stop();
    writeFileSync(bench.file("go"), "");
    assert.equal(await exited, 3);
    assert.match(stderr(), /no connection for 1 s/);
  });
});
