// The client where things go wrong that a real server seldom does, and over other sockets than plain TCP.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { connect as dial } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { createServer as createTlsServer } from "node:tls";
import {
  BadFormat,
  Buried,
  ConnectionLost,
  connect,
  DeadlineSoon,
  NotSupported,
  OutOfMemory,
  ProtocolError,
  QueueError,
  ReplyError,
  Unauthorized,
  work,
} from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/need.ts";
import { type ServerKind, startServer } from "../support/server-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { type Answer, scriptedServer } from "./scripted-server.ts";

/** What a plain beanstalkd says first. */
const plain =
  (answer: Answer): Answer =>
  (line, ...more) =>
    line === "extensions" ? "UNKNOWN_COMMAND\r\n" : answer(line, ...more);

const dictionary = (...verbs: string[]): string => {
  const text = `---\n${verbs.map((verb) => `${verb}: 0\n`).join("")}`;
  return `OK ${text.length}\r\n${text}\r\n`;
};

describe("the client and a server that fails", { concurrency: true, timeout: 30_000 }, () => {
  it("does not connect to what is no beanstalkd, or is not there", async (t) => {
    const web = await scriptedServer(t, () => "HTTP/1.1 400 Bad Request\r\n\r\n");
    await assert.rejects(connect(web.address), ProtocolError);
    const silent = await scriptedServer(t, () => undefined);
    await assert.rejects(connect(silent.address, { connectMs: 30 }), /no answer within 30 ms/);
    await assert.rejects(connect("127.0.0.1:1"), ConnectionLost);
    await assert.rejects(connect("unix:/nowhere/at/all"), ConnectionLost);
    for (const address of ["", "a b", "host:0", "host:65536", "host:x", "http://host", "::1"])
      await assert.rejects(connect(address), TypeError, address);
  });

  it("says its token first, and says so when it is refused", async (t) => {
    const guarded = await scriptedServer(t, (line) =>
      line === "auth right" ? "AUTHENTICATED\r\n" : line === "extensions" ? dictionary() : "UNAUTHORIZED\r\n",
    );
    const queue = await connect(guarded.address, { token: "right" });
    assert.deepEqual(guarded.lines, ["auth right", "extensions"]);
    await assert.rejects(queue.put("t", "x"), Unauthorized);
    await queue.close();
    await assert.rejects(connect(guarded.address, { token: "wrong" }), Unauthorized);
    await assert.rejects(connect(guarded.address, { token: "a\r\nb" }), TypeError);
  });

  it("never puts into another tube behind a use that failed", async (t) => {
    let memory = false;
    const server = await scriptedServer(
      t,
      plain((line) => {
        if (line === "use b" && !memory) return "OUT_OF_MEMORY\r\n";
        if (line.startsWith("use ")) return `USING ${line.slice(4)}\r\n`;
        return line.startsWith("put ") ? undefined : "INSERTED 1\r\n";
      }),
    );
    const queue = await connect(server.address);
    t.after(() => queue.close());
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
    const queue = await connect(server.address);
    t.after(() => queue.close());
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

  it("breaks off a connection on which replies came that nobody asked for", async (t) => {
    const server = await scriptedServer(
      t,
      plain((line, connection) =>
        line === "use t" ? "USING t\r\n".repeat(connection === 0 ? 2 : 1) : "KICKED 3\r\n",
      ),
    );
    const events: string[] = [];
    const queue = await connect(server.address, {
      retryMs: [1, 1],
      onConnection: (event) => events.push(event.state === "lost" ? event.error.name : event.state),
    });
    t.after(() => queue.close());
    assert.equal(await queue.tube("t").kick(1), 3, "what had not been sent is done on the next one");
    assert.deepEqual(events, ["connected", "ConnectionLost", "connected"]);
  });

  it("takes other jobs beside one that is always in its margin, and tells who reserves by hand", async (t) => {
    let jobs = 0;
    const server = await scriptedServer(t, (line, connection) => {
      if (line === "extensions") return dictionary("reserve-batch");
      if (line.startsWith("watch")) return "WATCHING 2\r\n";
      if (line.startsWith("ignore")) return "WATCHING 1\r\n";
      if (line === "list-tube-used") return "ABORTED\r\nUSING default\r\n";
      if (!line.startsWith("reserve-batch")) return undefined;
      // The first connection holds one, and so is told DEADLINE_SOON from then on; so is the fourth, which is not the worker's.
      if (connection === 1 && jobs > 0) return "DEADLINE_SOON\r\n";
      if (connection === 4) return "DEADLINE_SOON\r\n";
      return jobs++ < 2 ? `RESERVED_BATCH 1\r\nRESERVED ${jobs} 1 t\r\nx\r\n` : undefined;
    });
    const queue = await connect(server.address);
    t.after(() => queue.close());
    const begun: number[] = [];
    const worker = work(queue, ["t"], (job) => begun.push(job.id) > 0 && new Promise(() => {}), {
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

for (const kind of ["ours", "beanstalkd-1.12"] as const satisfies ServerKind[]) {
  const need = kind === "ours" ? NEEDS.ours : NEEDS.beanstalkd;
  describe(`the client over other sockets, ${kind}`, { timeout: 30_000 }, () => {
    it("unix and TLS", async (t) => {
      if (!canRun(t, need, NEEDS.openssl)) return;
      const folder = temporaryFolder(t);
      const unixPath = join(folder, "queue.sock");
      const server = await startServer({ kind, unixPath });
      t.after(() => server.stop());
      const unix = await connect(`unix:${unixPath}`);
      t.after(() => unix.close());
      const { id } = await unix.put("t", "x");

      const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
      const names = "subjectAltName=IP:127.0.0.1,DNS:localhost";
      const make = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext ${names}`;
      execFileSync("openssl", [...make.split(" "), "-keyout", key, "-out", cert], { stdio: "ignore" });
      const options = { key: readFileSync(key), cert: readFileSync(cert) };
      const secure = createTlsServer(options, (socket) => {
        const upstream = dial({ path: unixPath });
        socket.pipe(upstream).pipe(socket);
        for (const each of [socket, upstream]) each.on("error", () => {});
      });
      await new Promise<void>((resolve) => secure.listen(0, "127.0.0.1", resolve));
      t.after(() => secure.close());
      const address = secure.address();
      const port = typeof address === "object" ? address?.port : 0;
      for (const host of [`tls:127.0.0.1:${port}`, `tls:localhost:${port}`, `127.0.0.1:${port}`]) {
        const queue = await connect(host, { tls: { ca: options.cert } });
        assert.equal(Buffer.from(await queue.job(id).peek()).toString(), "x");
        await queue.close();
      }
      await assert.rejects(connect(`tls:127.0.0.1:${port}`), /self-signed certificate/);
    });
  });
}
