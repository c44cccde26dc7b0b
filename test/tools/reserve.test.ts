// Tests of `runnerbean reserve -- CMD` as a worker: signals, and servers that go and come back.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { connect, NotFound, OtherServer, type Queue } from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/machine/free-port.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { missingNats } from "../support/server/nats-cluster.ts";
import { relay } from "../support/server/relay.ts";
import { ServerGroup } from "../support/server/server-group.ts";
import {
  endsWithUs,
  ourMain,
  type ServerProcess,
  startServer,
  TEST_ENV,
} from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";

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
  /** Starts the next server at the path, by default with the flags of the first. */
  start(flags?: readonly string[]): Promise<ServerProcess>;
}

async function benchFor(t: TestContext, firstFlags: readonly string[] = []): Promise<Bench> {
  const folder = temporaryFolder(t);
  const file = (name: string): string => join(folder, name);
  const path = file("socket");
  const start = async (flags = firstFlags): Promise<ServerProcess> => {
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
const patient = ({ file }: Pick<Bench, "file">): string =>
  `touch ${file("begun")}; while ! [ -e ${file("go")} ]; do sleep 0.05; done; touch ${file("done")}`;

const isGone = ({ queue }: Pick<Bench, "queue">, id: number): Promise<boolean> =>
  queue
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

  it("settles nothing on a restored backup that gives the id again, and goes on", async (t) => {
    const [log, restored] = [temporaryFolder(t), join(temporaryFolder(t), "log")];
    const http = `127.0.0.1:${await freePort()}`;
    const bench = await benchFor(t, ["-b", log, "--http", http]);
    const archive = bench.file("backup.tar");
    await bench.queue.put("other", "before the backup");
    assert.equal((await runTool(["backup", `http://${http}`, archive])).code, 0);
    const { id } = await bench.queue.put("w", "x");
    const { child, exited, stderr } = startWorker(bench.path, patient(bench));
    await eventually("the command runs", () => existsSync(bench.file("begun")));
    await bench.server.stop();
    assert.match((await runTool(["restore", archive, restored])).stderr, /^Restored 1 job/);
    await bench.start(["-b", restored]);
    const stranger = await bench.queue.put("payments", "never processed");
    writeFileSync(bench.file("go"), "");
    await eventually("it says so", () => stderr().includes(`job ${id} is not settled`));
    assert.equal((await bench.queue.job(stranger.id).stats()).tube, "payments");
    const next = await bench.queue.put("w", "y");
    await eventually("it does the next job", () => isGone(bench, next.id));
    child.kill("SIGTERM");
    assert.equal(await exited, 0);
  });

  it("deletes its job after a fail-over to the other server of the group", {
    skip: missingNats(),
  }, async (t) => {
    const group = await ServerGroup.start(t);
    const primary = await group.primary();
    const other = group.servers.find((server) => server !== primary)!;
    const folder = temporaryFolder(t);
    const file = (name: string): string => join(folder, name);
    const path = file("socket");
    let { port } = primary;
    await relay(t, () => port, path);
    const queue = await connect(`unix:${path}`, { retryMs: [10, 100], offlineMs: 60_000 });
    t.after(() => queue.close());
    const { id } = await queue.put("w", "x");
    const { child, exited, stderr } = startWorker(path, patient({ file }), "--timeout", "60");
    await eventually("the command runs", () => existsSync(file("begun")));
    port = other.port;
    primary.signal("SIGKILL");
    writeFileSync(file("go"), "");
    await eventually(
      () => `the job is gone: ${stderr()}`,
      () => isGone({ queue }, id).catch((error) => !(error instanceof OtherServer) && Promise.reject(error)),
    );
    assert.doesNotMatch(stderr(), /not settled/);
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
