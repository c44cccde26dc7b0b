// Tests of HTTPS: nothing travels in the clear, certificates identify clients and change without a
// restart, and requests are rate-limited.

import assert from "node:assert/strict";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { request as plainRequest } from "node:http";
import { request } from "node:https";
import { createConnection } from "node:net";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { connect, type SecureContextOptions } from "node:tls";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { eventually } from "../support/eventually.ts";
import { missing, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { launch } from "../support/server/server-process.ts";
import { untilItSays } from "../support/server/until-it-says.ts";

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

const certificateName = "spiffe://test/client-7";

const skip = missing(NEEDS.openssl) ?? false;

/** What is sent after an early answer: more than buffers on the way hold. */
const LATE_PIECES = 100;
const LATE_PIECE_BYTES = 64 * 1024;

describe("https", { skip }, () => {
  const folder = temporaryFolder({ after }, "https");
  const person = newToken("person", "admin");
  const other = newToken("other", "viewer");
  let files: Certificates;
  let guarded: GuardedServer;
  let port: number;
  let config: (more: string) => string;

  before(async () => {
    files = makeCertificates(folder);
    const tls = (more: string): string => `tls = { cert = "${files.cert}", key = "${files.key}"${more} }`;
    config = (more) => `[http]\nlisten = "127.0.0.1:0"\n${tls("")}\n${more}`;
    const tokens = `${person.line}${other.line}${certificateName} viewer certificate\n`;
    guarded = await GuardedServer.start(folder, tokens, 0, () => config(""));
    port = Number(/https:\/\/127\.0\.0\.1:(\d+)/.exec(guarded.server.stderr)![1]);
  });
  after(() => guarded.server.stop());

  function ask(
    path: string,
    options: {
      secret?: string;
      method?: string;
      body?: string;
      cookie?: string;
      at?: number;
      with?: SecureContextOptions;
    } = {},
  ): Promise<Answer> {
    const { secret, cookie, method = "GET", body, at = port, with: secured = {} } = options;
    const headers = {
      connection: "close",
      ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }),
      ...(cookie === undefined ? {} : { cookie }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    };
    const tls = { ca: readFileSync(files.ca), servername: "localhost", agent: false as const, ...secured };
    return new Promise((resolve, reject) => {
      const sent = request({ host: "127.0.0.1", port: at, path, method, headers, ...tls }, (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (chunk) => {
          text += chunk;
        });
        answer.on("end", () => resolve({ status: answer.statusCode!, headers: answer.headers, text }));
        answer.on("error", reject);
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }

  it("serves probes, tokens and jobs, and sessions with Secure cookies", async () => {
    assert.equal((await ask("/readyz")).text, "ok\n");
    assert.equal((await ask("/v1/tubes")).status, 401);
    const put = await ask("/v1/tubes/mail/jobs", {
      secret: person.secret,
      method: "POST",
      body: '{"body":"hello"}',
    });
    assert.equal(put.status, 201);
    const session = await ask("/v1/session", { method: "POST", body: `{"token":"${person.secret}"}` });
    const [cookie] = session.headers["set-cookie"] as string[];
    assert.match(cookie!, /; HttpOnly; SameSite=Strict; Secure$/);
    assert.equal((await ask("/v1/tubes", { cookie: cookie!.split(";")[0]! })).status, 200);
  });

  it("refuses plain text and old TLS versions, and keeps serving", async () => {
    const plain = plainRequest({ host: "127.0.0.1", port, path: "/readyz" });
    await assert.rejects(
      new Promise((resolve, reject) => {
        plain.on("response", resolve).on("error", reject).end();
      }),
    );
    await assert.rejects(
      new Promise((resolve, reject) => {
        const old = { maxVersion: "TLSv1.1", minVersion: "TLSv1.1", rejectUnauthorized: false } as const;
        connect({ host: "127.0.0.1", port, ...old, ciphers: "ALL:@SECLEVEL=0" }, () => resolve(undefined)).on(
          "error",
          reject,
        );
      }),
    );
    // A silent client, and one that leaves during its handshake.
    const silent = createConnection({ host: "127.0.0.1", port });
    const leaving = createConnection({ host: "127.0.0.1", port }, () =>
      leaving.end(Buffer.from([22, 3, 1, 2])),
    );
    assert.equal((await ask("/readyz")).status, 200);
    silent.destroy();
  });

  for (const [what, path, status] of [
    ["a declared length", "/v1/tubes/q/jobs", 413],
    ["an unknown path", "/nowhere", 404],
  ] as const)
    it(`a refusal of ${what} reaches a client that still sends, and the connection ends in order`, async () => {
      const socket = connect({
        socket: createConnection({ host: "127.0.0.1", port, allowHalfOpen: true }),
        ...{ ca: readFileSync(files.ca), servername: "localhost" },
      });
      const errors: Error[] = [];
      let [text, hasEnd] = ["", false];
      socket.on("error", (error) => errors.push(error));
      socket.on("data", (chunk) => {
        text += chunk.toString("latin1");
      });
      socket.on("end", () => {
        hasEnd = true;
      });
      const send = (bytes: string | Uint8Array): Promise<void> =>
        new Promise((resolve) => {
          socket.write(bytes, () => resolve());
        });
      await send(
        `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${person.secret}\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n`,
      );
      await eventually("it answers", () => text.includes("\r\n\r\n") || errors.length > 0);
      for (let piece = 0; piece < LATE_PIECES; piece++) {
        await send(Buffer.alloc(LATE_PIECE_BYTES, "x"));
        await setImmediate();
      }
      await eventually("the server ends", () => hasEnd || errors.length > 0);
      socket.end();
      await eventually("the socket is closed", () => socket.destroyed);
      assert.deepEqual(errors, []);
      const [head, body] = text.split("\r\n\r\n");
      assert.match(head!, new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.match(head!, /^connection: close\r?$/im);
      assert.equal(JSON.parse(body!).status, status);
    });

  it("presents a new certificate after SIGHUP, and refuses an unusable one", async () => {
    const shown = (): Promise<string> =>
      new Promise((resolve, reject) => {
        const socket = connect(
          { host: "127.0.0.1", port, servername: "localhost", ca: readFileSync(files.ca) },
          () => {
            resolve(socket.getPeerCertificate().serialNumber);
            socket.destroy();
          },
        );
        socket.on("error", reject);
      });
    const before = await shown();
    const key = readFileSync(files.key);
    writeFileSync(files.key, "nonsense");
    guarded.server.signal("SIGHUP");
    await untilItSays(
      guarded.server,
      /everything stays as it was: http: the key \S+ holds no private key in PEM/,
    );
    assert.equal(await shown(), before);
    writeFileSync(files.key, key);
    const renewed = makeCertificates(temporaryFolder({ after }, "https-renewed"), 3);
    for (const [from, to] of [
      [renewed.cert, files.cert],
      [renewed.key, files.key],
      [renewed.ca, files.ca],
    ] as const)
      copyFileSync(from, to);
    guarded.server.signal("SIGHUP");
    await untilItSays(guarded.server, /the certificate of http expires on /);
    await eventually("it is another", async () => (await shown()) !== before);
    const health = await ask("/v1/health", { secret: person.secret });
    assert.match(
      JSON.parse(health.text).checks.certificates.detail,
      /^the certificate of http expires on 20/,
    );
  });

  it("answers 429 only to the token that asks too often", async () => {
    writeFileSync(guarded.config, config("max-requests = 3\n"));
    guarded.server.signal("SIGHUP");
    await untilItSays(guarded.server, /changed: http\.max-requests/);
    const statuses: number[] = [];
    // More at once than two seconds allow: a slow machine takes less than that for them.
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => ask("/v1/server", { secret: person.secret })),
    );
    for (const { status, headers } of answers) {
      statuses.push(status);
      if (status === 429) assert.equal(headers["retry-after"], "1");
    }
    assert.ok(statuses.includes(200) && statuses.includes(429), `${statuses}`);
    assert.equal((await ask("/v1/server", { secret: other.secret })).status, 200);
    assert.equal((await ask("/readyz")).status, 200);
  });
});

describe("https with client certificates", { skip }, () => {
  it("accepts a certificate as the name that it has, and refuses others", async (t) => {
    const folder = temporaryFolder(t, "https-clients");
    const files = makeCertificates(folder);
    const person = newToken("person", "admin");
    const tls = `tls = { cert = "${files.cert}", key = "${files.key}", client-ca = "${files.ca}", min = "1.3" }`;
    const tokens = `${person.line}${certificateName} viewer certificate\n`;
    const guarded = await GuardedServer.start(
      folder,
      tokens,
      0,
      () => `[http]\nlisten = "127.0.0.1:0"\n${tls}\n`,
    );
    t.after(() => guarded.server.stop());
    const port = Number(/https:\/\/127\.0\.0\.1:(\d+)/.exec(guarded.server.stderr)![1]);
    const ca = readFileSync(files.ca);
    const mine = { cert: readFileSync(files.clientCert), key: readFileSync(files.clientKey) };
    const ask = (
      path: string,
      secured: SecureContextOptions,
      method = "GET",
      headers = {},
    ): Promise<number> =>
      new Promise((resolve, reject) => {
        const where = { host: "127.0.0.1", port, servername: "localhost", agent: false as const };
        request({ ...where, ca, path, method, headers, ...secured }, (answer) => {
          answer.resume();
          resolve(answer.statusCode!);
        })
          .on("error", reject)
          .end();
      });
    await assert.rejects(ask("/readyz", {}));
    assert.equal(await ask("/v1/tubes", mine), 200);
    // A viewer: what its token says, no more; another token may be told all the same.
    assert.equal(await ask("/v1/tubes/default/clear", mine, "POST"), 403);
    assert.equal(await ask("/v1/connections/0.1", mine, "DELETE"), 403);
    const asPerson = { authorization: `Bearer ${person.secret}` };
    assert.equal(await ask("/v1/connections/0.1", mine, "DELETE", asPerson), 404);
    // A browser sends its certificate by itself, so pages of others are refused as ever.
    assert.equal(
      await ask("/v1/session", mine, "DELETE", {
        "sec-fetch-site": "cross-site",
        origin: "https://evil.example",
      }),
      403,
    );
    // It counts as long as the line stands.
    writeFileSync(join(folder, "tokens"), person.line, { mode: 0o600 });
    guarded.server.signal("SIGHUP");
    await eventually("it is nobody", async () => (await ask("/v1/tubes", mine)) === 401);
  });
});

describe("https at the start", { concurrency: 3 }, () => {
  for (const [flags, message] of [
    [["--http", "0", "--http-tls-cert", "c.pem"], /needs both --http-tls-cert and --http-tls-key/],
    [["--http", "0", "--http-tls-client-ca", "c.pem"], /--http-tls-client-ca needs --http-tls-cert/],
    [
      ["--http", "0", "--http-tls-cert", "/none/c.pem", "--http-tls-key", "/none/k.pem"],
      /http: the certificate \/none\/c\.pem does not exist \(ENOENT\)/,
    ],
    [["--http-tls-cert", "c.pem", "--http-tls-key", "k.pem"], /needs --http/],
    [["--http", "0", "--http-tls-min", "1.1"], /1\.1 is neither 1\.2 nor 1\.3/],
    [["--http", "0", "--http-max-requests", "0"], /http\.max-requests 0 \(at least 1\)/],
  ] as const) {
    it(`explains what is wrong with ${flags.join(" ")}`, async () => {
      const server = await launch({ kind: "ours", flags: [...flags] });
      assert.equal((await server.exited).code, 5);
      assert.match(server.stderr, message);
    });
  }
});
