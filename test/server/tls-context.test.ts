// Tests of TLS listeners: old versions and unknown clients are refused, client certificates
// identify clients, and certificates change without a restart.

import assert from "node:assert/strict";
import { once } from "node:events";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { createConnection, type Socket } from "node:net";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { urisOf } from "../../src/acceptor/sockets/tls-context.ts";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { missing, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { launch } from "../support/server/server-process.ts";
import { runTool, type ToolResult } from "../support/server/tool.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";

const BODY_BYTES = 300_000;
/** More than the sockets of both ends take together. */
const UNREAD_BYTES = 16 << 20;

const skip = missing(NEEDS.openssl) ?? false;

describe("tls", { skip }, () => {
  const folder = temporaryFolder({ after }, "tls");
  const worker = newToken("mailer", "worker");
  let files: Certificates;
  let guarded: GuardedServer;

  before(async () => {
    files = makeCertificates(folder);
    const tls = (more: string): string => `tls = { cert = "${files.cert}", key = "${files.key}"${more} }`;
    const configOf = ([plain, token, certificate, modern]: readonly number[]): string => `max-job-size = "1M"
[[listener]]
address = "127.0.0.1:${plain}"
${tls("")}
[[listener]]
address = "127.0.0.1:${token}"
auth = "token"
${tls("")}
[[listener]]
address = "127.0.0.1:${certificate}"
auth = "certificate"
${tls(`, client-ca = "${files.ca}"`)}
[[listener]]
address = "127.0.0.1:${modern}"
${tls(`, min = "1.3"`)}
`;
    const tokens = `${worker.line}spiffe://test/client-7 worker certificate tubes=mail-*,default\n`;
    guarded = await GuardedServer.start(folder, tokens, 4, configOf, ["--shards", "3", "--acceptors", "2"]);
  });
  after(() => guarded.server.stop());

  it("tells a client without TLS what it needs", async () => {
    const port = guarded.ports[0]!;
    const socket = createConnection(port, "127.0.0.1");
    socket.write("stats\r\n");
    const chunks = await socket.toArray();
    assert.equal(Buffer.concat(chunks).toString(), "TLS_REQUIRED\r\n");
    const tool = (url: string, ...more: string[]): Promise<ToolResult> =>
      runTool(["stats", "--url", url, ...more], { env: {} });
    const plain = await tool(`beanstalk://127.0.0.1:${port}`);
    assert.match(
      plain.stderr,
      /^runnerbean: stats: TLS_REQUIRED \(this port takes TLS only: .*tls:\/\/host:port\)$/m,
    );
    const unknown = await tool(`tls://localhost:${port}`);
    assert.equal(unknown.code, 3);
    assert.match(unknown.stderr, /^runnerbean: [^;]*: name the file of its authority with --ca;/);
    assert.equal((await tool(`tls://localhost:${port}`, "--ca", files.ca)).code, 0);
  });

  /** Resolves when the handshake is done. */
  function dial(listener: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
    return new Promise((resolve, reject) => {
      const ca = readFileSync(files.ca);
      const where = { host: "127.0.0.1", port: guarded.ports[listener]!, servername: "localhost" };
      const socket = connect({ ...where, ca, ...options }, () => resolve(socket));
      socket.once("error", reject);
    });
  }
  const clientOf = async (listener: number, options?: ConnectionOptions): Promise<WireClient> =>
    new WireClient(await dial(listener, options));

  it("serves everything that plain sockets support, pipelined and with large bodies", async () => {
    const client = await clientOf(0);
    const body = "x".repeat(BODY_BYTES);
    client.send("use tls-a\r\nwatch tls-a\r\n");
    for (let job = 0; job < 20; job++) client.send(`put 0 0 60 ${BODY_BYTES}\r\n${body}\r\n`);
    for (let reply = 0; reply < 22; reply++)
      assert.match((await client.readReply()).line, /^(USING|WATCH|INSERTED)/);
    for (let job = 0; job < 20; job++) client.send("reserve\r\n");
    const ids: string[] = [];
    for (let job = 0; job < 20; job++) {
      const reply = await client.readReply();
      assert.equal(reply.body?.length, BODY_BYTES);
      ids.push(reply.line.split(" ")[1]!);
    }
    for (const id of ids) assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
    client.send("quit\r\n");
    await client.expectEnd();
  });

  // With io_uring the thread sleeps up to half a second where it forgets the event loop: that is 25
  // seconds here.
  it("answers at once, one command after the other", async () => {
    const client = await clientOf(0);
    const tookMs: number[] = [];
    for (let round = 0; round < 50; round++) {
      const startedAt = performance.now();
      assert.equal((await client.ask("use a")).line, "USING a");
      tookMs.push(performance.now() - startedAt);
    }
    // Half of them: a machine may hold up some.
    assert.ok(tookMs.sort((x, y) => x - y)[25]! < 160, `${tookMs}`);
    client.close();
  });

  it("releases the jobs of a client that leaves", async () => {
    const holder = await clientOf(0);
    assert.match((await holder.ask("use tls-b")).line, /^USING/);
    const id = (await holder.put("x")).line.split(" ")[1]!;
    await holder.ask("watch tls-b");
    assert.match((await holder.ask("reserve")).line, /^RESERVED/);
    const waiting = await clientOf(0);
    await waiting.ask("watch tls-b");
    waiting.send("reserve\r\n");
    holder.close();
    assert.equal((await waiting.readReply()).line, `RESERVED ${id} 1`);
    waiting.close();
  });

  it("demands a token after the handshake", async () => {
    const client = await clientOf(1);
    assert.equal((await client.ask(`auth ${worker.secret}`)).line, "AUTHENTICATED");
    assert.equal((await client.ask("use a")).line, "USING a");
    client.close();
    const stranger = await clientOf(1);
    assert.equal((await stranger.ask("use a")).line, "UNAUTHORIZED");
    await stranger.expectEnd();
  });

  it("accepts a certificate as the name that it has, with its tubes, and refuses others", async () => {
    const cert = readFileSync(files.clientCert);
    const key = readFileSync(files.clientKey);
    const client = await clientOf(2, { cert, key });
    assert.equal((await client.ask("use mail-1")).line, "USING mail-1");
    assert.equal((await client.ask("use other")).line, "UNAUTHORIZED");
    client.close();
    await assert.rejects(async () => {
      // With TLS 1.3 a client hears only after its own handshake that it lacked a certificate.
      const stranger = await clientOf(2);
      await stranger.ask("use mail-1");
    }, /certificate|ended|end of|reset|closed|socket/i);
    // A certificate of the right authority that no line names.
    const server = { cert: readFileSync(files.cert), key: readFileSync(files.key) };
    const unnamed = await clientOf(2, server);
    unnamed.send("use mail-1\r\n");
    assert.equal(await unnamed.readSome(10_000), null);
    await untilItSays(
      guarded.server,
      /no token matches a name in the certificate of 127\.0\.0\.1: localhost/,
    );
  });

  it("refuses versions below the minimum, and plain text", async () => {
    await assert.rejects(dial(3, { maxVersion: "TLSv1.2" }), /version|alert/i);
    (await dial(3)).destroy();
    await assert.rejects(dial(0, { maxVersion: "TLSv1.1", minVersion: "TLSv1" }), /version|alert|protocol/i);
    const plain = await WireClient.connect({ port: guarded.ports[0]!, host: "127.0.0.1" });
    plain.send("put 0 0 60 1\r\nx\r\n");
    const answer = await plain.readSome(10_000);
    assert.ok(answer === null || !answer.includes("INSERTED"));
    plain.close();
    await untilItSays(guarded.server, /its handshake on 127\.0\.0\.1:\d+ failed/);
  });

  it("survives random bytes, broken handshakes, and resets anywhere", async () => {
    const random = new SeededRandom(20261121);
    const where = { port: guarded.ports[0]!, host: "127.0.0.1" };
    const raw = await Promise.all(Array.from({ length: 60 }, () => WireClient.connect(where)));
    for (const [index, client] of raw.entries()) {
      // The beginning of a ClientHello, or not even that.
      const head = index % 2 === 0 ? [22, 3, 1, 0, random.below(256)] : [];
      const bytes = Array.from({ length: random.below(300) }, () => random.below(256));
      client.send(Buffer.from([...head, ...bytes]));
      if (index % 3 === 0) client.reset();
      else if (index % 3 === 1) client.halfClose();
    }
    const secure = await Promise.all(Array.from({ length: 30 }, () => dial(0)));
    for (const [index, socket] of secure.entries()) {
      socket.on("error", () => {});
      socket.write("put 0 0 60 100000\r\n");
      if (index % 3 === 0) socket.destroy();
      else if (index % 3 === 1) socket.end();
      // With unread bytes of the other side a close is a reset.
      else socket.pause().write("stats\r\n".repeat(100), () => socket.destroy());
    }
    for (const client of raw) client.close();
    const client = await clientOf(0);
    assert.equal((await client.ask("use after-all-that")).line, "USING after-all-that");
    client.close();
    assert.ok(!guarded.server.hasExited);
  });

  it("presents a new certificate after SIGHUP; open connections stay; a bad one changes nothing", async () => {
    const before = await clientOf(0);
    const shown = async (): Promise<string> => {
      const socket = await dial(0);
      const { fingerprint256 } = socket.getPeerCertificate();
      socket.destroy();
      return fingerprint256;
    };
    const first = await shown();
    const fresh = makeCertificates(temporaryFolder({ after }, "tls-fresh"), 3);
    copyFileSync(fresh.cert, files.cert);
    guarded.server.signal("SIGHUP");
    await untilItSays(
      guarded.server,
      /everything stays as it was: 127\.0\.0\.1:\d+: the key \S+ does not belong to the certificate/,
    );
    assert.equal(await shown(), first);
    copyFileSync(fresh.key, files.key);
    copyFileSync(fresh.ca, files.ca);
    guarded.server.signal("SIGHUP");
    await untilItSays(guarded.server, /configuration read again/);
    // The orders are with the acceptors, but each may take it in its own time.
    await untilItSays(guarded.server, /the certificate of .* expires on/);
    assert.notEqual(await shown(), first);
    assert.equal((await before.ask("use a")).line, "USING a");
    before.close();
  });
});

describe("tls at a stop", { skip }, () => {
  for (const flags of [[], ["--transport", "libuv"]]) {
    it(`ends as soon as its clients have their replies ${flags.join(" ")}`, async (t) => {
      const folder = temporaryFolder(t, "tls");
      const files = makeCertificates(folder);
      const { cert, key } = files;
      const configOf = ([port]: readonly number[]): string =>
        `max-job-size = "32M"\n[[listener]]\naddress = "127.0.0.1:${port}"\ntls = { cert = "${cert}", key = "${key}" }\n`;
      const { server, ports } = await GuardedServer.start(folder, "", 1, configOf, flags);
      const where = { host: "127.0.0.1", port: ports[0]! };
      const ca = readFileSync(files.ca);
      const dialled = (socket?: Socket): Promise<WireClient> =>
        new Promise((resolve, reject) => {
          const way = socket === undefined ? where : { socket };
          const secured = connect({ ...way, servername: "localhost", ca }, () =>
            resolve(new WireClient(secured)),
          );
          secured.once("error", reject);
          secured.once("close", () => reject(new Error("closed")));
        });
      // A silent client, an idle one, one that waits for a job, and one in its handshake.
      const silent = await dialled();
      const idle = await dialled();
      assert.equal((await idle.ask("use a")).line, "USING a");
      const waiting = await dialled();
      waiting.send("use b\r\nreserve\r\n");
      assert.equal((await waiting.readReply()).line, "USING b");
      const shaking = createConnection(where);
      await once(shaking, "connect");
      // More than sockets buffer, so the server waits for the reader.
      const reading = await dialled();
      reading.send(`use c\r\nwatch c\r\nput 0 0 60 ${UNREAD_BYTES}\r\n`);
      reading.send(Buffer.alloc(UNREAD_BYTES));
      reading.send("\r\n");
      for (const line of ["USING c", "WATCHING 2", "INSERTED 1"])
        assert.equal((await reading.readReply()).line, line);
      reading.send("reserve\r\n");
      assert.equal(`${await reading.readUntil("\r\n")}`, `RESERVED 1 ${UNREAD_BYTES}\r\n`);
      reading.socket.pause();
      server.signal("SIGTERM");
      assert.equal((await waiting.readReply()).line, "TIMED_OUT");
      for (const client of [silent, idle, waiting]) await client.expectEnd();
      await assert.rejects(async () => await (await dialled(shaking)).ask("list-tube-used"));
      reading.socket.resume();
      assert.equal((await reading.readBytes(UNREAD_BYTES + 2)).length, UNREAD_BYTES + 2);
      await reading.expectEnd();
      assert.equal((await server.exited).code, 0);
      // A stop that waits too long says so.
      assert.doesNotMatch(server.stderr, /did not read their replies in time/);
    });
  }
});

describe("tls at the start", () => {
  for (const [name, listener, message] of [
    [
      "a certificate that is not there",
      'tls = { cert = "/nonexistent", key = "/nonexistent" }',
      /: the certificate \/nonexistent does not exist \(ENOENT\)/,
    ],
    ["a certificate without its key", 'tls = { cert = "/nonexistent" }', /tls needs both cert and key/],
    ["certificates of clients without an authority", 'auth = "certificate"', /needs tls\.client-ca/],
    ["tokens without a file of them", 'auth = "token"', /needs a token-file/],
    ["a network that is none", 'allow = ["10.0.0.0/40"]', /is not an address or network/],
    ["an unknown key", 'tls = { crt = "x" }', /unknown key tls.crt: did you mean tls.cert/],
  ] as const) {
    it(`refuses ${name}, with exit code 5`, async (t) => {
      const config = join(temporaryFolder(t, "tls"), "runnerbean.toml");
      writeFileSync(config, `[[listener]]\naddress = "127.0.0.1:0"\n${listener}\n`);
      const server = await launch({ kind: "ours", flags: ["--config", config] });
      assert.equal((await server.exited).code, 5);
      assert.match(server.stderr, message);
    });
  }
});

describe("the names of a certificate", () => {
  it("are its URIs, and no other kind of name passes for one", () => {
    assert.deepEqual(urisOf("DNS:a.example, URI:spiffe://x/a, IP Address:127.0.0.1"), ["spiffe://x/a"]);
    assert.deepEqual(urisOf('DNS:"a, URI:spiffe://x/admin", URI:spiffe://x/a'), ["spiffe://x/a"]);
    assert.deepEqual(urisOf('URI:"spiffe://x/a, URI:spiffe://x/admin"'), [
      "spiffe://x/a, URI:spiffe://x/admin",
    ]);
    assert.deepEqual(urisOf('DNS:"a'), []);
    assert.deepEqual(urisOf("othername:<unsupported>, URI:x"), ["x"]);
    assert.deepEqual(urisOf(""), []);
  });
});
