// Tests of `runnerbean reserve -- CMD` as a worker: signals, and servers that go and come back.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { after, before, describe, it, type TestContext } from "node:test";
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
import { runTool, type ToolResult } from "../support/server/tool.ts";

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

  it("sends its command SIGTERM when the job is cancelled, and goes on", async (t) => {
    const bench = await benchFor(t);
    // Two commands in the group, and the touches come soon.
    const script = `trap 'touch ${bench.file("term")}; exit 3' TERM; touch ${bench.file("begun")}; sleep 60 & wait`;
    const first = await bench.queue.put("w", "x", { ttr: 1 });
    const { child, exited, stderr } = startWorker(bench.path, script);
    await eventually("the command runs", () => existsSync(bench.file("begun")));
    assert.equal(await bench.queue.job(first.id).cancel({ reason: "wrong file \u001b[31m" }), false);
    await eventually("the job is gone", () => isGone(bench, first.id));
    assert.ok(existsSync(bench.file("term")));
    assert.match(stderr(), new RegExp(`job ${first.id} was cancelled: wrong file \\\\u001b`));
    rmSync(bench.file("begun"));
    await bench.queue.put("w", "y", { ttr: 60 });
    await eventually("it goes on", () => existsSync(bench.file("begun")));
    child.kill("SIGKILL");
    await exited;
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

// Tests of the reasons that `runnerbean reserve -- CMD` gives: the status or signal of a command
// that failed, and the last line of its stderr.

describe("cli: reserve with a command that fails", () => {
  let server: ServerProcess;
  let queue: Queue<Uint8Array, Uint8Array | string>;
  before(async () => {
    server = await startServer({ kind: "ours" });
    queue = await connect(`127.0.0.1:${server.port}`);
  });
  after(async () => {
    await queue.close();
    await server.stop();
  });

  /** Has a script do a job. */
  async function reserve(tube: string, script: string): Promise<ToolResult & { id: number }> {
    const { id } = await queue.put(tube, "x");
    const args = ["reserve", tube, "--wait", "0", "--", "sh", "-c", script];
    const done = await runTool(args, { env: { RUNNERBEAN_URL: `beanstalk://127.0.0.1:${server.port}` } });
    return { ...done, id };
  }

  async function failureOf(id: number): Promise<{ cause: string; reason: string; worker: string }> {
    const failure = await queue.job(id).lastError();
    assert.ok(failure !== undefined);
    return failure;
  }

  it("buries the job with the status and the last line, and shows stderr as it comes", async () => {
    const script = String.raw`printf 'one\n\033[31mSMTP 550: 100%% \303\274ber\033[0m\r\n\n' >&2; exit 3`;
    const { id, code, stderr } = await reserve("status", script);
    assert.equal(code, 1);
    assert.match(stderr, /^one\n.*SMTP 550: 100% /);
    const { cause, reason, worker } = await failureOf(id);
    assert.deepEqual([cause, reason], ["buried", "exit status 3: SMTP 550: 100% über"]);
    assert.ok(worker.startsWith(`${hostname().slice(0, 20)}`), worker);
  });

  it("releases the job with the reason after status 75", async () => {
    const { id } = await reserve("temporary", "echo 'try again' >&2; exit 75");
    const { cause, reason } = await failureOf(id);
    assert.deepEqual([cause, reason], ["released", "exit status 75: try again"]);
  });

  it("names the signal, and says nothing more if stderr is empty", async () => {
    const { id } = await reserve("signal", "kill -9 $$");
    assert.equal((await failureOf(id)).reason, "killed by SIGKILL");
  });

  it("keeps the first KiB of a line, however much the command writes", async () => {
    const { id, stderr } = await reserve(
      "long",
      "head -c 3000000 /dev/zero | tr '\\0' y >&2; echo >&2; exit 1",
    );
    assert.ok(stderr.length > 3_000_000);
    const { reason } = await failureOf(id);
    assert.equal(reason, `exit status 1: ${"y".repeat(1024)}`.slice(0, 1024));
    const { id: last } = await reserve("long", "printf 'a\\nthe last' >&2; exit 1");
    assert.equal((await failureOf(last)).reason, "exit status 1: the last");
  });

  it("doesn't wait for a process that the command leaves behind with stderr open", async () => {
    const { id, code } = await reserve("behind", "sleep 86400 >/dev/null & echo $! left >&2; exit 1");
    assert.equal(code, 1);
    const { reason } = await failureOf(id);
    const [, pid] = /^exit status 1: (\d+) left$/.exec(reason) ?? assert.fail(reason);
    process.kill(Number(pid));
  });
});
