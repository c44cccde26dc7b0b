// Tests of how a client begins: it waits for a server that is not up yet, says its name, and is
// loud about handlers that fail.

import assert from "node:assert/strict";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ConnectionLost, connect, work } from "../../src/client/client.ts";
import { clientName, Link } from "../../src/client/link.ts";
import { eventually, soon } from "../support/eventually.ts";
import { freePort } from "../support/machine/free-port.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { startServer } from "../support/server/server-process.ts";
import { scriptedServer } from "./scripted-server.ts";

const report = (rows: string): string => `OK ${rows.length + 4}\r\n---\n${rows}\r\n`;

describe("a server that is not up yet", () => {
  it("is waited for, and then gets the commands", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const unixPath = join(temporaryFolder(t), "queue.sock");
    const states: string[] = [];
    const connecting = connect(`unix:${unixPath}`, {
      retryMs: [1, 50],
      offlineMs: 300_000,
      onConnection: ({ state }) => states.push(state),
    });
    await eventually("it has tried twice", () => states.length > 1);
    const server = await startServer({ kind: "ours", unixPath });
    t.after(() => server.stop());
    const queue = await connecting;
    t.after(() => queue.close());
    assert.equal((await queue.put("t", "x")).id, 1);
    assert.deepEqual(new Set(states), new Set(["lost", "connected"]));
  });

  it("is waited for as long as offlineMs says; the error tells why there is no connection", async () => {
    const port = await freePort();
    await assert.rejects(connect(`127.0.0.1:${port}`, { offlineMs: 100 }), (error: Error) => {
      assert.match(
        error.message,
        new RegExp(`^no connection within \\d+ ms: connect ECONNREFUSED 127\\.0\\.0\\.1:${port}$`),
      );
      assert.equal(error.name, "Offline");
      return error instanceof ConnectionLost;
    });
  });
});

describe("the name of a client", () => {
  it("is host and process by default, with the label of a worker", async (t) => {
    const server = await scriptedServer(t, (line) => {
      if (line === "extensions") return report("extensions: 1\nname: 1\n");
      if (line.startsWith("name ")) return "NAMED\r\n";
      return line.startsWith("watch") ? "WATCHING 2\r\n" : undefined;
    });
    const queue = await connect(server.address);
    const worker = work(queue, ["default"], () => {}, { label: "m\u00e4il" });
    await eventually("the worker is there", () => server.lines.some((line) => line.startsWith("reserve")));
    const own = `${hostname().slice(0, 40)}:${process.pid}`;
    assert.deepEqual(
      server.lines.filter((line) => line.startsWith("name ")),
      [`name ${own}`, `name ${own}/m\u00c3\u00a4il`],
    );
    await worker.stop();
    assert.throws(() => work(queue, ["default"], () => {}, { label: "a b" }), TypeError);
    assert.throws(
      () => work(queue, "mails" as never, () => {}),
      /tubes is "mails", not a list such as \["mails"\]/,
    );
    assert.throws(() => work(queue, ["mails"], undefined as never), /a worker needs a handler/);
    await queue.close();
  });

  it("is not said to a server without names", async (t) => {
    const server = await scriptedServer(t, (line) =>
      line === "extensions" ? "UNKNOWN_COMMAND\r\n" : undefined,
    );
    const queue = await connect(server.address, { name: "web-1" });
    await queue.close();
    assert.deepEqual(server.lines, ["extensions", "quit"]);
  });

  it("must be one that the server takes", async () => {
    for (const name of ["", "a b", "a\nb", "x".repeat(64), "\u20ac".repeat(22)])
      await assert.rejects(connect("127.0.0.1:1", { name }), TypeError, name);
    assert.throws(
      () => clientName("web-1", "x".repeat(60)),
      /^TypeError: "web-1\/x+" is not a valid name: 1 to 63 bytes/,
    );
    assert.equal(clientName("x".repeat(63), undefined).length, 63);
    assert.ok(clientName(undefined, "x".repeat(50)).length <= 63);
  });

  it("is with the failures of its jobs", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const server = await startServer({ kind: "ours" });
    t.after(() => server.stop());
    const queue = await connect(`127.0.0.1:${server.port}`, { name: "web-1" });
    t.after(() => queue.close());
    const { id } = await queue.put("mails", "x");
    const warnings: string[] = [];
    const worker = work(
      queue,
      ["mails"],
      () => {
        throw new RangeError("no such user");
      },
      { label: "mail", onWarning: (error, job) => warnings.push(`${job?.id}: ${error}`) },
    );
    const isBuried = async (): Promise<boolean> => (await queue.job(id).stats()).state === "buried";
    await eventually("it is buried", isBuried);
    await worker.stop();
    const { worker: name, reason, cause } = (await queue.job(id).lastError())!;
    assert.deepEqual([name, reason, cause], ["web-1/mail", "no such user", "buried"]);
    assert.deepEqual(warnings, [`${id}: RangeError: no such user`]);
    const job = await queue.reserveJob(id);
    assert.deepEqual([(await job.inspect())["worker"], await job.attempts()], ["web-1", 2]);
  });
});

it("a handler that fails without onError and onWarning is one line on stderr", async (t) => {
  const { mock } = t.mock.method(console, "error", () => {});
  const replies: Readonly<Record<string, string>> = {
    extensions: "UNKNOWN_COMMAND\r\n",
    reserve: "RESERVED 17 1\r\nx\r\n",
    bury: "BURIED\r\n",
    watch: "WATCHING 2\r\n",
    ignore: "WATCHING 1\r\n",
    "stats-job": report("pri: 1024\n"),
  };
  let isGiven = false;
  const server = await scriptedServer(t, (line) => {
    const word = line.split(" ", 1)[0]!;
    if (word === "reserve" && isGiven) return undefined;
    isGiven ||= word === "reserve";
    return replies[word];
  });
  const queue = await connect(server.address);
  const worker = work(queue, ["mails"], () => {
    throw new TypeError("no\nnumber");
  });
  await eventually("it is buried", () => server.lines.some((line) => line.startsWith("bury 17")));
  await worker.stop();
  await queue.close();
  const lines = mock.calls.map(({ arguments: [line] }) => line);
  assert.deepEqual(lines, ["runnerbean: job 17 of tube mails failed: TypeError: no number"]);
});

it("a client that is closed while it has no server tries no more", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let dials = 0;
  const dial = async (): Promise<never> => {
    dials++;
    throw new Error("nobody listens");
  };
  const states: string[] = [];
  const link = new Link(dial, { retryMs: [1000, 1000], onConnection: ({ state }) => states.push(state) });
  await soon("a dial has failed", () => states.length > 0);
  await link.close();
  t.mock.timers.tick(60_000);
  assert.equal(dials, 1);
});

it("a kept job that is updated to a time to run of 0 has a second, as the server gives it", async (t) => {
  const replies: Readonly<Record<string, string>> = {
    extensions: report("update-job: 0\n"),
    reserve: "RESERVED 17 1\r\nx\r\n",
    "update-job": "UPDATED\r\n",
  };
  const server = await scriptedServer(t, (line) => replies[line.split(" ", 1)[0]!]);
  const queue = await connect(server.address);
  t.after(() => {
    t.mock.timers.reset();
    return queue.close();
  });
  const job = await queue.reserve();
  t.mock.timers.enable({ apis: ["setTimeout"] });
  job.keep();
  await job.update({ ttr: 0 });
  t.mock.timers.tick(300);
  assert.equal(job.isOver, false);
  t.mock.timers.tick(1000);
  assert.ok(job.isOver);
});
