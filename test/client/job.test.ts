// Tests of jobs whose connection broke: a client settles them only on a server that continues the
// log of the one that gave them.

import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { connect, type Job, OtherServer, type Queue, text, work } from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/machine/free-port.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { missingNats } from "../support/server/nats-cluster.ts";
import { relay } from "../support/server/relay.ts";
import { ServerGroup } from "../support/server/server-group.ts";
import { type ServerKind, type ServerProcess, startServer } from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";
import { SKIP_IF_FAST } from "../support/whole.ts";
import { scriptedServer } from "./scripted-server.ts";

type TextQueue = Queue<string, string>;

interface Place {
  readonly queue: TextQueue;
  readonly first: ServerProcess;
  /** Starts the next server behind the address; `directory` is its log. */
  start(directory?: string, kind?: ServerKind): Promise<ServerProcess>;
}

/** A client of one address, behind which the server at the port of the moment is. */
async function queueFor(t: TestContext, portOf: () => number): Promise<TextQueue> {
  const queue = await connect(`127.0.0.1:${await relay(t, portOf)}`, {
    codec: text(),
    retryMs: [10, 100],
    offlineMs: 120_000,
  });
  t.after(() => queue.close());
  return queue;
}

/** One address with a server after the other behind it, and a client that stays connected. */
async function placeFor(
  t: TestContext,
  directory?: string,
  kind: ServerKind = "ours",
  more: readonly string[] = [],
): Promise<Place> {
  let port = 0;
  const start = async (
    where?: string,
    of: ServerKind = "ours",
    flags: readonly string[] = [],
  ): Promise<ServerProcess> => {
    const log = where === undefined ? [] : ["-b", where];
    const server = await startServer({ kind: of, flags: [...log, ...flags] });
    t.after(() => server.stop());
    port = server.port;
    return server;
  };
  const first = await start(directory, kind, more);
  return { queue: await queueFor(t, () => port), first, start };
}

/** Ends the server without a word, as a crash does. */
async function kill(server: ServerProcess): Promise<void> {
  server.child.kill("SIGKILL");
  await server.exited;
}

/** Reserves a job and loses it with its connection. */
async function lostJob({ queue, first }: Place): Promise<Job<string>> {
  await queue.put("work", "old job");
  queue.watch("work");
  const job = await queue.reserve();
  await kill(first);
  await eventually("the job is lost", () => job.signal.aborted);
  return job;
}

/** Checks that no method of a lost job reaches the job that has its id now. */
async function touchesNothing(queue: TextQueue, job: Job<string>): Promise<void> {
  const { id } = await queue.put("payments", "never processed");
  assert.equal(id, job.id, "the server gives the id again");
  await assert.rejects(job.delete(), OtherServer);
  await assert.rejects(job.kick(), OtherServer);
  await assert.rejects(job.peek(), OtherServer);
  await assert.rejects(job.stats(), OtherServer);
  await assert.rejects(queue.deleteMany([job]), OtherServer);
  assert.equal(await queue.job(id).peek(), "never processed");
}

describe("a job that was lost with its connection", { concurrency: true }, () => {
  it("is not settled on a server that was restarted without a log", async (t) => {
    const place = await placeFor(t);
    const job = await lostJob(place);
    await place.start();
    await touchesNothing(place.queue, job);
  });

  it("is deleted on the server that continues the log", async (t) => {
    const directory = temporaryFolder(t);
    const place = await placeFor(t, directory);
    const job = await lostJob(place);
    await place.start(directory);
    assert.equal((await job.stats()).tube, "work");
    await job.delete();
    await assert.rejects(place.queue.job(job.id).stats(), /NOT_FOUND/);
  });

  it("is deleted after any number of restarts, and a stop in order", async (t) => {
    const directory = temporaryFolder(t);
    const place = await placeFor(t, directory);
    const job = await lostJob(place);
    await (await place.start(directory)).stop();
    await place.start(directory);
    await job.delete();
  });

  it("is not settled on a copy of the directory that is older than the job", {
    skip: SKIP_IF_FAST,
  }, async (t) => {
    const [directory, copy] = [temporaryFolder(t), join(temporaryFolder(t), "copy")];
    const place = await placeFor(t, directory);
    await place.queue.put("other", "before the copy");
    cpSync(directory, copy, { recursive: true });
    // More ids than a server lends ahead.
    const bodies = Array.from({ length: 70_000 }, () => "x");
    await place.queue.putMany("other", bodies);
    const job = await lostJob(place);
    await place.start(copy);
    await assert.rejects(job.delete(), OtherServer);
  });

  it("is not settled on a restored backup, which gives its id again", async (t) => {
    const [directory, folder] = [temporaryFolder(t), temporaryFolder(t)];
    const http = `127.0.0.1:${await freePort()}`;
    const place = await placeFor(t, directory, "ours", ["--http", http]);
    await place.queue.put("other", "before the backup");
    const [file, restored] = [join(folder, "backup.tar"), join(folder, "log")];
    assert.equal((await runTool(["backup", `http://${http}`, file])).code, 0);
    const job = await lostJob(place);
    assert.match((await runTool(["restore", file, restored])).stderr, /^Restored 1 job/);
    await place.start(restored);
    await assert.rejects(job.delete(), OtherServer);
    assert.equal((await place.queue.job(1).stats()).tube, "other", "an id that the user gives is sent");
  });

  it("is deleted after a fail-over to the other server of the group", {
    skip: SKIP_IF_FAST || missingNats(),
  }, async (t) => {
    const group = await ServerGroup.start(t);
    const primary = await group.primary();
    let { port } = primary;
    const queue = await queueFor(t, () => port);
    await queue.put("work", "old job");
    queue.watch("work");
    const job = await queue.reserve();
    port = group.servers.find((server) => server !== primary)!.port;
    primary.signal("SIGKILL");
    await eventually("the job is lost", () => job.signal.aborted);
    await eventually("the other server has the job", () =>
      job.stats().then(
        ({ state }) => state === "ready",
        (error) => !(error instanceof OtherServer) && Promise.reject(error),
      ),
    );
    await job.delete();
    await assert.rejects(queue.job(job.id).stats(), /NOT_FOUND/);
  });

  it("is not settled on another server behind the address", async (t) => {
    const place = await placeFor(t, temporaryFolder(t));
    const job = await lostJob(place);
    await place.start(temporaryFolder(t));
    await touchesNothing(place.queue, job);
  });

  it("is not settled on a beanstalkd that was restarted", { skip: SKIP_IF_FAST }, async (t) => {
    if (!canRun(t, NEEDS.beanstalkd)) return;
    const place = await placeFor(t, undefined, "beanstalkd-1.12");
    const job = await lostJob(place);
    await place.start(undefined, "beanstalkd-1.12");
    await touchesNothing(place.queue, job);
  });

  it("makes the worker warn, and leaves the stranger's job alone", async (t) => {
    const { queue, start, first } = await placeFor(t);
    const { id } = await queue.put("work", "old job");
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const warnings: unknown[] = [];
    const begun: number[] = [];
    const handler = async (job: Job<string>): Promise<void> => {
      begun.push(job.id);
      await gate;
    };
    const worker = work(queue, ["work"], handler, { onWarning: (error) => warnings.push(error) });
    t.after(() => worker.stop({ graceMs: 0 }));
    await eventually("the handler runs", () => begun.length === 1);
    await kill(first);
    await start();
    assert.equal((await queue.put("payments", "never processed")).id, id);
    open();
    await eventually("the worker warns", () => warnings.some((each) => each instanceof OtherServer));
    assert.equal(await queue.job(id).peek(), "never processed");
  });
});

it("a connection is asked once who the server is, however many jobs it gives and settles", async (t) => {
  let id = 0;
  /** The connection of each question: one gets jobs, one settles those that it does not hold. */
  const asked: number[] = [];
  const { lines, address } = await scriptedServer(t, (line, connection) => {
    if (line === "extensions") return "OK 15\r\n---\norigins: 0\n\r\n";
    if (line === "origins") asked.push(connection);
    if (line.startsWith("reserve")) return `RESERVED ${++id} 1\r\nx\r\n`;
    if (line.startsWith("delete")) return "DELETED\r\n";
    return undefined;
  });
  const queue = await connect(address, { codec: text() });
  t.after(() => queue.close());
  for (let count = 0; count < 20; count++) await (await queue.reserve()).delete();
  await Promise.all(Array.from({ length: 20 }, (_, index) => queue.job(index + 1).delete()));
  assert.equal(lines.filter((line) => line.startsWith("delete")).length, 40);
  assert.ok(asked.length > 0);
  assert.deepEqual(asked, [...new Set(asked)]);
});
