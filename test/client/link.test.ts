// Tests of the client's reactions to faults that real servers seldom cause, and over sockets other
// than plain TCP.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { inspect } from "node:util";
import {
  BadFormat,
  Buried,
  ConnectionLost,
  type ConnectOptions,
  connect,
  DeadlineSoon,
  NotFound,
  NotSupported,
  OutOfMemory,
  ProtocolError,
  type Queue,
  QueueError,
  ReplyError,
  Unauthorized,
  type Worker,
  work,
} from "../../src/client/client.ts";
import { Link } from "../../src/client/link.ts";
import { makeCertificates } from "../support/certificates.ts";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { type ServerKind, startServer } from "../support/server/server-process.ts";
import { type Answer, scriptedServer } from "./scripted-server.ts";

/** Answers as a plain beanstalkd does. */
const plain =
  (answer: Answer): Answer =>
  (line, ...more) =>
    line === "extensions" ? "UNKNOWN_COMMAND\r\n" : answer(line, ...more);

/**
 * Closed when the test is over, however it ends: one that can't reach its server any more would try
 * for ever. In time that is the machine's again, for which nobody has to call.
 */
async function connectFor(
  t: TestContext,
  address: string,
  options?: ConnectOptions,
): Promise<Queue<Uint8Array, Uint8Array | string>> {
  const queue = await connect(address, options);
  t.after(() => {
    t.mock.timers.reset();
    return queue.close();
  });
  return queue;
}

/** The same: its connections are its own. */
function workFor(
  t: TestContext,
  ...args: Parameters<typeof work<Uint8Array, Uint8Array | string>>
): Worker<Uint8Array> {
  const worker = work(...args);
  t.after(() => {
    t.mock.timers.reset();
    return worker.stop({ graceMs: 0 });
  });
  return worker;
}

const dictionary = (...verbs: string[]): string => {
  const text = `---\n${verbs.map((verb) => `${verb}: 0\n`).join("")}`;
  return `OK ${text.length}\r\n${text}\r\n`;
};

describe("the client and a failing server", { concurrency: true }, () => {
  it("fails to connect to a missing server or to one that isn't beanstalkd", async (t) => {
    const web = await scriptedServer(t, () => "HTTP/1.1 400 Bad Request\r\n\r\n");
    await assert.rejects(connect(web.address), ProtocolError);
    const silent = await scriptedServer(t, () => undefined);
    await assert.rejects(
      connect(silent.address, { connectMs: 1500, offlineMs: 0 }),
      /no answer within 1500 ms/,
    );
    await assert.rejects(connect("127.0.0.1:1", { offlineMs: 0 }), ConnectionLost);
    await assert.rejects(connect("unix:/nowhere/at/all", { offlineMs: 300 }), (error: Error) => {
      assert.match(error.message, /^no connection within \d+ ms: connect ENOENT \/nowhere\/at\/all$/);
      return error instanceof ConnectionLost;
    });
    for (const address of ["", "a b", "host:0", "host:65536", "host:x", "http://host", "::1"])
      await assert.rejects(connect(address), TypeError, address);
  });

  it("sends its token first, and reports a refusal", async (t) => {
    const guarded = await scriptedServer(t, (line) =>
      line === "auth right" ? "AUTHENTICATED\r\n" : line === "extensions" ? dictionary() : "UNAUTHORIZED\r\n",
    );
    const queue = await connectFor(t, guarded.address, { token: "right" });
    assert.deepEqual(guarded.lines, ["auth right", "extensions"]);
    await assert.rejects(queue.put("t", "x"), Unauthorized);
    await queue.close();
    await assert.rejects(connect(guarded.address, { token: "wrong" }), Unauthorized);
    await assert.rejects(connect(guarded.address, { token: "a\r\nb" }), TypeError);
  });

  it("shows no token in its errors, and at most a hundred characters of a command", async (t) => {
    for (const answer of ["UNAUTHORIZED\r\n", "KICKED 1\r\n", "end"]) {
      const server = await scriptedServer(t, (line, _, socket) =>
        answer !== "end" ? answer : line.startsWith("auth ") ? void socket.end() : "",
      );
      await assert.rejects(connect(server.address, { token: "secret", offlineMs: 0 }), (error: Error) => {
        assert.match(error.message, /^auth: /);
        assert.doesNotMatch(inspect(error, { depth: 9 }), /secret/);
        return true;
      });
    }
    const server = await scriptedServer(t, (line) =>
      line === "extensions" ? dictionary("delete-batch") : "BAD_FORMAT\r\n",
    );
    const queue = await connectFor(t, server.address);
    const ids = Array.from({ length: 900 }, (_, index) => index + 1);
    await assert.rejects(queue.deleteMany(ids), (error: Error) => error.message.length < 250);
  });

  it("opens a new connection after the server has closed an idle one", async (t) => {
    const server = await scriptedServer(
      t,
      plain((line, connection, socket) => {
        if (line.startsWith("use ")) return "USING t\r\n";
        if (!line.startsWith("put ")) return "KICKED 3\r\n";
        if (connection === 0) socket.pause().end();
        return undefined;
      }),
    );
    const queue = await connectFor(t, server.address, { retryMs: [1, 1] });
    const more = queue.put("t", new Uint8Array(32 << 20));
    await assert.rejects(more, (error: Error) => error instanceof ConnectionLost && error.sent);
    assert.equal(await queue.tube("t").kick(1), 3);
  });

  it("waits as long as at first when it loses a connection that it had", async (t) => {
    const server = await scriptedServer(
      t,
      plain((_line, _connection, socket) => void socket.destroy()),
    );
    const delaysMs: number[] = [];
    const queue = await connectFor(t, server.address, {
      retryMs: [1, 60_000],
      onConnection: (event) => {
        if (event.state === "lost") delaysMs.push(event.retryMs);
      },
    });
    for (let loss = 1; loss <= 8; loss++) await assert.rejects(queue.job(1).kick(), ConnectionLost);
    assert.equal(delaysMs.length, 8);
    assert.ok(Math.max(...delaysMs) <= 1, `${delaysMs}`);
  });

  it("keeps no job that another has deleted, nor a connection for it", async (t) => {
    for (const isOne of [true, false]) {
      const connections: number[] = [];
      const server = await scriptedServer(
        t,
        plain((line, connection) => {
          if (!line.startsWith("reserve")) return "NOT_FOUND\r\n";
          connections.push(connection);
          return "RESERVED 7 1\r\nx\r\n";
        }),
      );
      const queue = await connectFor(t, server.address);
      for (let round = 1; round <= 3; round++) {
        const job = await queue.reserve();
        if (isOne) await assert.rejects(job.delete(), NotFound);
        else assert.deepEqual(await queue.deleteMany([job.id]), [job.id]);
        assert.ok(job.isOver && job.signal.aborted);
      }
      assert.equal(new Set(connections).size, 1, `${connections}`);
    }
  });

  it("never sends a command that has given up waiting for a connection", async (t) => {
    const server = await scriptedServer(t, (line) =>
      line === "extensions" ? "UNKNOWN_COMMAND\r\n" : "USING default\r\n",
    );
    const { promise: isUp, resolve: comesUp } = Promise.withResolvers<void>();
    const { hostname, port } = new URL(`tcp://${server.address}`);
    const link = new Link(
      async () => {
        await isUp;
        return createConnection(Number(port), hostname);
      },
      { offlineMs: 1 },
    );
    t.after(() => link.close());
    await assert.rejects(link.ask("use late", "USING"), /no connection within 1 ms/);
    comesUp();
    await link.begin();
    await link.ask("list-tube-used", "USING");
    assert.deepEqual(server.lines, ["extensions", "list-tube-used"]);
  });

  it("never puts into another tube after a failed use", async (t) => {
    let memory = false;
    const server = await scriptedServer(
      t,
      plain((line) => {
        if (line === "use b" && !memory) return "OUT_OF_MEMORY\r\n";
        if (line.startsWith("use ")) return `USING ${line.slice(4)}\r\n`;
        return line.startsWith("put ") ? undefined : "INSERTED 1\r\n";
      }),
    );
    const queue = await connectFor(t, server.address);
    const puts = ["a", "a", "b", "a"].map((tube, index) => queue.put(tube, `${tube}${index}`));
    const done = await Promise.allSettled(puts);
    assert.deepEqual(
      done.map(({ status }) => status),
      ["fulfilled", "fulfilled", "rejected", "fulfilled"],
    );
    await assert.rejects(puts[2]!, OutOfMemory);
    memory = true;
    await queue.put("b", "b4");
    const said = server.lines.filter((line) => !line.startsWith("put "));
    assert.deepEqual(said, ["extensions", "use a", "a0", "a1", "use b", "a3", "use b", "b4"]);
  });

  it("has a class for each error", async (t) => {
    let reply = "";
    const server = await scriptedServer(t, (line) =>
      line === "extensions" ? dictionary("put-in-tube") : line === "x" ? `${reply}\r\n` : undefined,
    );
    const queue = await connectFor(t, server.address);
    const cases: [reply: string, error: typeof QueueError | typeof ReplyError][] = [
      ["BURIED 7", Buried],
      ["OUT_OF_MEMORY", OutOfMemory],
      ["UNKNOWN_OPTION unique", NotSupported],
      ["BAD_FORMAT", BadFormat],
      ["INTERNAL_ERROR", ReplyError],
      ["EXPECTED_CRLF", ReplyError],
      ["KICKED 1", ProtocolError],
    ];
    for (const [said, Class] of cases) {
      reply = said;
      const error = await queue.put("t", "x").then(
        () => assert.fail("it was put"),
        (thrown) => thrown,
      );
      assert.ok(error.constructor === Class && error instanceof QueueError, `${said}: ${error}`);
      assert.equal(error.name, Class.name);
      if (error instanceof ReplyError) assert.equal(error.reply, said);
    }
  });

  it("drops a connection with unexpected replies", async (t) => {
    const server = await scriptedServer(
      t,
      plain((line, connection) =>
        line === "use t" ? "USING t\r\n".repeat(connection === 0 ? 2 : 1) : "KICKED 3\r\n",
      ),
    );
    const events: string[] = [];
    const queue = await connectFor(t, server.address, {
      retryMs: [1, 1],
      onConnection: (event) => events.push(event.state === "lost" ? event.error.name : event.state),
    });
    assert.equal(await queue.tube("t").kick(1), 3, "what had not been sent is done on the next one");
    assert.deepEqual(events, ["connected", "ConnectionLost", "connected"]);
  });

  it("takes other jobs beside one in its safety margin, and tells a manual reserve", async (t) => {
    let jobs = 0;
    const replies: Readonly<Record<string, string>> = {
      extensions: dictionary("reserve-batch"),
      watch: "WATCHING 2\r\n",
      ignore: "WATCHING 1\r\n",
      "list-tube-used": "ABORTED\r\nUSING default\r\n",
      // Asked on a slow machine, before all is done.
      "stats-job": "OK 12\r\n---\nttr: 60\n\r\n",
    };
    const server = await scriptedServer(t, (line, connection) => {
      const [command = ""] = line.split(" ");
      if (command !== "reserve-batch") return replies[command];
      // The first connection holds one, and so is told DEADLINE_SOON from then on; so is the
      // fourth, which is not the worker's.
      if (connection === 1 && jobs > 0) return "DEADLINE_SOON\r\n";
      if (connection === 4) return "DEADLINE_SOON\r\n";
      return jobs++ < 2 ? `RESERVED_BATCH 1\r\nRESERVED ${jobs} 1 t\r\nx\r\n` : undefined;
    });
    const queue = await connectFor(t, server.address);
    const begun: number[] = [];
    const worker = workFor(t, queue, ["t"], (job) => begun.push(job.id) > 0 && new Promise(() => {}), {
      concurrency: 3,
    });
    await eventually("two are begun", () => begun.length === 2);
    assert.deepEqual(begun, [1, 2]);
    await eventually(
      "it waits for the third",
      () => server.lines.filter((line) => /^reserve/.test(line)).length > 4,
    );
    await assert.rejects(queue.reserve(), DeadlineSoon);
    await worker.stop({ graceMs: 0 });
  });
});

/** Timers are not the machine's here, so nothing else may run in this process meanwhile. */
describe("the client and time", () => {
  /** Lets time pass in steps until something has come true. */
  async function passTime(t: TestContext, stepMs: number, isSo: () => boolean): Promise<number> {
    let passedMs = 0;
    for (; !isSo(); passedMs += stepMs) {
      t.mock.timers.tick(stepMs);
      // For what comes through sockets.
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
    return passedMs;
  }

  it("stops a worker and closes even if the server no longer answers", async (t) => {
    let isSilent = false;
    const server = await scriptedServer(t, (line) => {
      if (isSilent) return "";
      if (line === "extensions") return dictionary("reserve-batch", "update-job");
      if (/^(?:watch|ignore)/.test(line)) return "WATCHING 1\r\n";
      return line.startsWith("reserve-batch 2") ? "RESERVED_BATCH 1\r\nRESERVED 1 1 t\r\nx\r\n" : undefined;
    });
    const queue = await connectFor(t, server.address);
    const warnings: unknown[] = [];
    let signal: AbortSignal | undefined;
    const handler = (_: unknown, given: AbortSignal): Promise<void> => {
      signal = given;
      return new Promise(() => {});
    };
    const worker = workFor(t, queue, ["t"], handler, {
      concurrency: 2,
      onWarning: (error) => warnings.push(error),
    });
    await eventually("it waits for another", () =>
      server.lines.some((line) => line.startsWith("reserve-batch 1")),
    );
    isSilent = true;
    t.mock.timers.enable({ apis: ["setTimeout"] });
    let isStopped = false;
    const stopped = worker
      .stop({ graceMs: 1 })
      .then(() => queue.close())
      .then(() => {
        isStopped = true;
      });
    const passedMs = await passTime(t, 1000, () => isStopped);
    await stopped;
    assert.ok(passedMs >= 10_000 && passedMs <= 60_000, `${passedMs} ms`);
    assert.ok(signal?.aborted);
  });

  it("touches a job whenever half of its ttr is over", async (t) => {
    const report = "---\nid: 1\nttr: 100\npri: 5\n";
    const server = await scriptedServer(
      t,
      plain((line) => {
        if (/^(?:watch|ignore)/.test(line)) return "WATCHING 1\r\n";
        if (line === "reserve") return "RESERVED 1 1\r\nx\r\n";
        if (line === "stats-job 1") return `OK ${report.length}\r\n${report}\r\n`;
        if (line.startsWith("release")) return "RELEASED\r\n";
        return line === "touch 1" ? "TOUCHED\r\n" : undefined;
      }),
    );
    const queue = await connectFor(t, server.address);
    const touches = (): number => server.lines.filter((line) => line === "touch 1").length;
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const job = (await queue.reserve()).keep().keep();
    t.mock.timers.tick(400);
    for (let touch = 1; touch < 5; touch++) {
      // Replies come in order: with this one that of the touch before it is there.
      await job.stats();
      await new Promise((resolve) => setImmediate(resolve));
      assert.equal(touches(), touch);
      t.mock.timers.tick(45_000);
      await job.stats();
      assert.equal(touches(), touch);
      t.mock.timers.tick(5000);
    }
    assert.equal(job.signal.aborted, false);
    await job.release();
    assert.equal(server.lines.at(-1), "release 1 5 0");
    t.mock.timers.tick(1_000_000);
    assert.equal(touches(), 5);
    await queue.close();
  });
});

describe("the client over other sockets", () => {
  for (const kind of ["ours", "beanstalkd-1.12"] as const satisfies ServerKind[]) {
    it(`works over a unix socket of ${kind}`, async (t) => {
      if (!canRun(t, kind === "ours" ? NEEDS.ours : NEEDS.beanstalkd)) return;
      const unixPath = join(temporaryFolder(t), "queue.sock");
      const server = await startServer({ kind, unixPath });
      t.after(() => server.stop());
      const queue = await connectFor(t, `unix:${unixPath}`);
      const { id } = await queue.put("t", "x");
      assert.equal(Buffer.from(await queue.job(id).peek()).toString(), "x");
      await queue.close();
    });
  }

  it("works over TLS with a token for some tubes", async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.openssl)) return;
    const folder = temporaryFolder(t);
    const files = makeCertificates(folder);
    const { secret, line } = newToken("mailer", "worker tubes=mail-*");
    const configOf = ([port]: readonly number[]): string => `[[listener]]
address = "127.0.0.1:${port}"
auth = "token"
tls = { cert = "${files.cert}", key = "${files.key}" }
`;
    const { server, ports } = await GuardedServer.start(folder, line, 1, configOf, ["--shards", "2"]);
    t.after(() => server.stop());
    const tls = { ca: readFileSync(files.ca) };
    for (const [address, token] of [
      [`tls:localhost:${ports[0]}`, secret],
      [`127.0.0.1:${ports[0]}`, secret],
    ] as const) {
      const queue = await connectFor(t, address, { tls, token });
      const done: number[] = [];
      const worker = workFor(t, queue, ["mail-a"], (job) => done.push(job.id));
      const { id } = await queue.put("mail-a", "x");
      await eventually("it is done", () => done.includes(id));
      await worker.stop();
      await assert.rejects(queue.put("other", "x"), Unauthorized);
      await queue.put("mail-b", new Uint8Array(60_000).fill(7));
      queue.watch("mail-b");
      const job = await queue.reserve();
      assert.deepEqual([job.bytes.length, job.bytes[59_999]], [60_000, 7]);
      await job.delete();
      await queue.close();
    }
    await assert.rejects(connect(`tls:127.0.0.1:${ports[0]}`, { token: secret }), /certificate/);
    await assert.rejects(connect(`tls:127.0.0.1:${ports[0]}`, { tls, token: "wrong" }), Unauthorized);
    await assert.rejects(connect(`tls:127.0.0.1:${ports[0]}`, { tls }), Unauthorized);
  });
});
