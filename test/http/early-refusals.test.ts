// Tests of early refusals: a client that still sends gets the whole answer and an orderly end, and
// nothing that came behind a refused request runs.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";

const POST = "POST /v1/tubes/q/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
const CHUNKED = "Transfer-Encoding: chunked\r\n\r\n";
/** What is sent after the answer: in pieces, more than the kernel holds for a closed socket. */
const PIECE_BYTES = 64 * 1024;
const PIECES = 100;
/** The limit of the server, and more than lies in buffers on the way. */
const TOO_MANY_BYTES = 80 << 20;

class Client {
  readonly socket: Socket;
  text = "";
  hasEnd = false;
  error: Error | undefined;

  constructor(port: number) {
    this.socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    this.socket.on("data", (chunk) => {
      this.text += chunk.toString("latin1");
    });
    this.socket.on("end", () => {
      this.hasEnd = true;
    });
    this.socket.on("error", (error) => {
      this.error = error;
    });
  }

  send(bytes: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      this.socket.write(bytes, () => resolve());
    });
  }

  async isAnswered(): Promise<void> {
    await eventually("it answers", () => this.text.includes("\r\n\r\n") || this.error !== undefined);
  }
}

it("all leases are listed, and gzip is not sent to a client that refuses it", async (t) => {
  const server = await startHttpServer();
  t.after(() => server.process.kill());
  for (const jobs of [1000, 400]) {
    const bodies = Array.from({ length: jobs }, () => ({ body: "x" }));
    assert.equal((await server.ask("/v1/tubes/t/jobs", { json: { jobs: bodies } })).status, 200);
    const wanted = { tubes: ["t"], max: jobs, wait: 0 };
    assert.equal((await server.ask("/v1/reserve", { json: wanted })).status, 200);
  }
  const { json } = await server.ask("/v1/leases");
  assert.deepEqual([json.items.length, json.total], [1400, 1400]);
  for (const [accepted, coding] of [
    ["gzip", "gzip"],
    ["gzip;q=0, identity", undefined],
  ] as const) {
    const { headers } = await server.ask("/v1/leases", { headers: { "accept-encoding": accepted } });
    assert.equal(headers["content-encoding"], coding, accepted);
  }
});

describe("an early refusal over HTTP", () => {
  let server: HttpServer;

  before(async () => {
    server = await startHttpServer("--shards", "2");
  });
  after(() => server.process.stop());

  const cutOff = async (): Promise<number> => {
    const { text } = await server.ask("/metrics?tubes=none");
    return Number(/^runnerbean_http_connections_cut_off_total (\d+)$/m.exec(text)![1]);
  };
  const puts = async (tube: string): Promise<number> =>
    (await server.ask(`/v1/tubes/${tube}?missing=zero`)).json.totals.puts;

  const cases: Readonly<Record<string, readonly [request: string, status: number, code: string]>> = {
    "a declared length": [`${POST}Content-Length: 99999999\r\n\r\n{`, 413, "body-too-big"],
    "an unknown path": [
      "POST /nowhere HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 9999999\r\n\r\n",
      404,
      "not-found",
    ],
    "a path whose escapes are none": [
      "POST /%zz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n",
      400,
      "bad-request",
    ],
    "a chunk's extension": [`${POST}${CHUNKED}1;${"a".repeat(20_000)}`, 400, "bad-request"],
    "a chunk's size": [`${POST}${CHUNKED}1\r\nx\r\nx`, 400, "bad-request"],
    "another coding": [`${POST}Transfer-Encoding: gzip, chunked\r\n\r\n`, 400, "bad-request"],
    "long headers": [`GET / HTTP/1.1\r\nX: ${"x".repeat(20_000)}`, 431, "headers-too-big"],
    "an unknown Expect": [
      `${POST}Expect: banana\r\nContent-Length: 9999999\r\n\r\n`,
      417,
      "expectation-failed",
    ],
    "no Host": ["POST /v1/tubes/q/jobs HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n", 400, "bad-request"],
    CONNECT: ["CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method-not-allowed"],
  };
  for (const [what, [request, status, code]] of Object.entries(cases))
    it(`of ${what} reaches a client that still sends, and the connection ends in order`, async () => {
      const client = new Client(server.port);
      await client.send(request);
      await client.isAnswered();
      for (let piece = 0; piece < PIECES; piece++) {
        await client.send(Buffer.alloc(PIECE_BYTES, "x"));
        await setImmediate();
      }
      await eventually("the server ends", () => client.hasEnd || client.error !== undefined);
      client.socket.end();
      await eventually("the socket is closed", () => client.socket.destroyed);
      assert.equal(client.error, undefined);
      const [head, body] = client.text.split("\r\n\r\n");
      assert.match(head!, new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.match(head!, /^connection: close\r?$/im);
      assert.match(head!, /^content-type: application\/problem\+json\r?$/im);
      assert.match(head!, /^x-request-id: \S+\r?$/im);
      const problem = JSON.parse(body!);
      assert.deepEqual([problem.status, problem.code], [status, code]);
    });

  it("ends neither the connection nor what comes next if the body is short", async () => {
    const client = new Client(server.port);
    await client.send("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhel");
    await client.isAnswered();
    await client.send("loGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await eventually("it answers again", () => /^HTTP\/1\.1 404 .*HTTP\/1\.1 200 /s.test(client.text));
    client.socket.destroy();
  });

  it("keeps what comes behind it in the same packet from running", async () => {
    const hidden = `${POST.replace("/q/", "/hidden/")}Content-Length: 12\r\n\r\n{"body":"x"}`;
    for (const request of [
      `${POST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      `${POST}${CHUNKED.replace("chunked", "chunked, chunked")}0\r\n\r\n`,
      "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /v1/server\r\n\r\n",
    ]) {
      const client = new Client(server.port);
      client.socket.end(request + hidden);
      await once(client.socket, "close");
      assert.equal(client.text.match(/^HTTP\/1\.1 /gm)?.length, 1, client.text);
      assert.match(client.text, /^HTTP\/1\.1 4/);
    }
    assert.equal(await puts("hidden"), 0);
  });

  it("is for the host of an absolute target", async () => {
    const client = new Client(server.port);
    client.socket.end("GET http://evil.example/v1/server HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await once(client.socket, "close");
    assert.match(client.text, /^HTTP\/1\.1 421 .*wrong-host/s);
  });

  it("doesn't answer an earlier request that waits", async () => {
    const wait = '{"tubes":["behind"],"wait":99}';
    const client = new Client(server.port);
    const head = `POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n`;
    await client.send(`${head}Content-Length: ${wait.length}\r\n\r\n${wait}`);
    const tube = async () => (await server.ask("/v1/tubes/behind?missing=zero")).json;
    await eventually("it waits", async () => (await tube()).waiters === 1);
    await client.send("garbage\r\n\r\n");
    await eventually("the connection ends", () => client.hasEnd || client.socket.destroyed);
    client.socket.destroy();
    assert.equal(client.text, "");
    await eventually("it doesn't wait any more", async () => (await tube()).waiters === 0);
  });

  it("is followed by the end of a client that sends without an end", async () => {
    const before = await cutOff();
    const client = new Client(server.port);
    await client.send(`${POST}Content-Length: ${10 * TOO_MANY_BYTES}\r\n\r\n`);
    await client.isAnswered();
    for (let sent = 0; sent < TOO_MANY_BYTES && !client.socket.destroyed; sent += PIECE_BYTES)
      await client.send(Buffer.alloc(PIECE_BYTES, "x"));
    await eventually("the socket is closed", () => client.socket.destroyed);
    assert.match(client.text, /^HTTP\/1\.1 413 /);
    assert.equal((await cutOff()) - before, 1);
  });

  it("is followed by the end of a client that stays without sending", async () => {
    const before = await cutOff();
    const client = new Client(server.port);
    await client.send(`${POST}Content-Length: 99999999\r\n\r\n`);
    await eventually("it has the answer and the end", () => client.hasEnd);
    await eventually("the connection is cut off", async () => (await cutOff()) > before);
    client.socket.destroy();
  });

  it("of a request during the close is a problem that says when to retry", async () => {
    const stopping = await startHttpServer();
    const client = new Client(stopping.port);
    // A request that is not whole keeps its connection open.
    await client.send(`${POST}Expect: 100-continue\r\nContent-Length: 14\r\n\r\n`);
    await eventually("the request has begun", () => client.text.includes("100 Continue"));
    const stopped = stopping.process.stop();
    const isOpen = (): Promise<boolean> =>
      new Promise((resolve) => {
        const probe = connect(stopping.port, "127.0.0.1");
        probe.on("connect", () => resolve(true)).on("error", () => resolve(false));
        probe.on("connect", () => probe.destroy());
      });
    await eventually("the port is closed", async () => !(await isOpen()));
    await client.send('{"body":"a b"}GET /v1/server HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await eventually("the connection ends", () => client.hasEnd || client.socket.destroyed);
    await stopped;
    const [, ...answers] = client.text.split(/(?=HTTP\/1\.1 )/);
    assert.equal(answers.length, 2, client.text);
    for (const answer of answers) {
      assert.match(answer, /^HTTP\/1\.1 503 /);
      assert.match(answer, /^content-type: application\/problem\+json/im);
      assert.match(answer, /^retry-after: 1/im);
      assert.match(answer, /^x-request-id: ./im);
      assert.match(answer, /"code":"stopping"/);
    }
  });
});
