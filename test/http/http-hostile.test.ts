// Tests of hostile HTTP input: the sender gets a clear refusal at most, and all other clients are
// served.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import { printSeed, seed } from "../support/seeded-property.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { atNight, skipVariant } from "../support/whole.ts";

const GARBAGE = 150;
const SCRAPED_TUBES = atNight(5000, 2500);
const BYTE_PIECES = atNight(2_000_000, 1_000_000);
/** As many as a busy machine takes within the time that the server waits for a request. */
const BYTE_PIECES_MIN = 1_000_000;
/** Time for which they are sent again on a machine too busy for that time limit, ms. */
const SENT_AGAIN_MS = 240_000;
const IDLE_CONNECTIONS = 300;
const CONNECTIONS_MAX = 1024;
/** Reserved for probes and metrics. */
const KEPT_MAX = 64;

/** Fails where a connection would be held for as long as a request may wait. */
async function within<T>(seconds: number, result: Promise<T>): Promise<T> {
  const ended = new AbortController();
  const late = sleep(seconds * 1000, undefined, { signal: ended.signal }).then(() => {
    throw new Error(`The connection is open after ${seconds} s`);
  });
  try {
    return await Promise.race([result, late]);
  } finally {
    ended.abort();
    late.catch(() => {});
  }
}

describe("HTTP and hostile clients", () => {
  let server: HttpServer;
  let client: WireClient;
  /** The answer to endless headers, while the other tests run. */
  let slow: Promise<{ readonly text: string; readonly seconds: number }>;

  before(async () => {
    server = await startHttpServer("--shards", "2");
    client = await WireClient.connect(server.process.address);
    const startedAt = performance.now();
    slow = raw("GET /livez HTTP/1.1\r\nHost", false).then((text) => ({
      text,
      seconds: (performance.now() - startedAt) / 1000,
    }));
  });
  after(async () => {
    client.socket.destroy();
    await server.process.stop();
  });

  /**
   * Sends bytes as they are, and the end if it is to come; resolves with what came until the end.
   */
  const raw = (bytes: string | Uint8Array, ends = true): Promise<string> =>
    new Promise((resolve) => {
      const socket = connect(server.port, "127.0.0.1");
      let text = "";
      socket.on("data", (chunk) => {
        text += chunk.toString("latin1");
      });
      socket.on("error", () => {});
      socket.on("close", () => resolve(text));
      if (ends) socket.end(bytes);
      else socket.write(bytes);
    });

  const serves = async (): Promise<void> => {
    assert.equal((await server.ask("/readyz")).status, 200);
    assert.match((await client.ask("stats-tube default")).line, /^OK/);
  };

  it("random bytes", async (t) => {
    printSeed(t);
    const random = new SeededRandom(seed);
    const beginnings = [
      "",
      "GET / HTTP/1.1\r\n",
      "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n",
      "PUT /v1/tubes/a/pause HTTP/1.1\r\nhost: localhost\r\n",
    ];
    for (let n = 0; n < GARBAGE; n++) {
      const bytes = Buffer.from(Array.from({ length: random.below(300) }, () => random.below(256)));
      await raw(Buffer.concat([Buffer.from(beginnings[random.below(beginnings.length)]!), bytes]));
    }
    await serves();
  });

  it("requests that two parsers could read differently", async () => {
    const head = "POST /v1/tubes/smuggled/jobs HTTP/1.1\r\nHost: localhost\r\n";
    for (const lines of [
      "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\n\r\n",
      "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
      "Transfer-Encoding: xchunked\r\n\r\nhello",
      "Content-Length: -1\r\n\r\nhello",
      "Content-Length: 5 \r\n X: y\r\n\r\nhello",
    ])
      assert.match(await raw(head + lines), /^HTTP\/1\.1 400 /, lines);
    assert.equal((await server.ask("/v1/tubes/smuggled?missing=zero")).json.totals.puts, 0);
  });

  it("paths that leave the root, and names of prototypes", async () => {
    for (const path of [
      "/v1/../../etc/passwd",
      "/v1/tubes/..%2f..%2fetc",
      "/%00",
      "/v1/jobs/1e9",
      "/v1/jobs/__proto__",
      "/v1/tasks/__proto__",
      "/v1/leases/constructor/delete",
      "/v1/tubes?sort=constructor",
      "/v1/tubes?fields=__proto__",
      "//evil.example/v1/tubes",
    ]) {
      const { status } = await server.ask(path);
      assert.ok(status >= 400 && status < 500, `${path}: ${status}`);
    }
    await serves();
  });

  it("requests that are too large", async () => {
    assert.match(
      await raw(`GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(20_000)}\r\n\r\n`),
      /^HTTP\/1\.1 431 /,
    );
    const type = { "content-type": "application/json" };
    // The answer comes before the end of the request, and the connection ends with it.
    const json = `{"tubes":["${"a".repeat(9_000_000)}"]}`;
    const large = await raw(
      `POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${json.length}\r\n\r\n`,
    );
    assert.match(large, /^HTTP\/1\.1 413 .*body-too-big/s);
    const deep = await server.ask("/v1/tubes/deep/jobs", {
      method: "POST",
      body: `{"body":${"[".repeat(5000)}${"]".repeat(5000)}}`,
      headers: type,
    });
    assert.equal(deep.status, 400);
    const nested = Buffer.concat([Buffer.alloc(5000, 0x91), Buffer.from([0xc0])]);
    const packed = await server.ask("/v1/tubes/deep/jobs", {
      method: "POST",
      body: nested,
      headers: { "content-type": "application/vnd.msgpack" },
    });
    assert.equal(packed.status, 400);
    const huge = Buffer.from([0xdd, 0xff, 0xff, 0xff, 0xff]);
    const lied = await server.ask("/v1/tubes/deep/jobs", {
      method: "POST",
      body: huge,
      headers: { "content-type": "application/vnd.msgpack" },
    });
    assert.equal(lied.status, 400);
    await serves();
  });

  it("few bytes that decode to many values", async () => {
    const size = 8 * 1024 * 1024 - 64;
    const maps = Buffer.alloc(size, 0x80);
    maps[0] = 0xdd;
    maps.writeUInt32BE(size - 5, 1);
    const put = (body: Uint8Array, type: string): Promise<number> =>
      server
        .ask("/v1/tubes/many/jobs", { method: "POST", body, headers: { "content-type": type } })
        .then(({ status }) => status);
    assert.equal(await put(maps, "application/vnd.msgpack"), 413);
    assert.equal(await put(Buffer.from(`[${"[],".repeat(size / 3 - 2)}[]]`), "application/json"), 413);
    await serves();
  });

  it("large requests that never end", async () => {
    const bytes = 8 * 1024 * 1024 - 64;
    const head = `POST /v1/tubes/slow/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n{"body":"`;
    // More than the heap of the thread could hold.
    const part = Buffer.alloc(bytes - 100, "x");
    const answers = new Map<Socket, string>();
    const sockets = Array.from({ length: 40 }, () => {
      const socket = connect(server.port, "127.0.0.1");
      socket.on("error", () => {});
      socket.on("data", (chunk) => answers.set(socket, chunk.toString("latin1")));
      socket.write(head);
      return socket;
    });
    await eventually("the others are refused", () => answers.size >= 36);
    for (const socket of sockets) if (!answers.has(socket)) socket.write(part);
    for (const answer of answers.values()) assert.match(answer, /^HTTP\/1\.1 503 .*retry-after: 1/s);
    await serves();
    for (const socket of sockets) socket.destroy();
    await eventually(
      "there is room again",
      async () => (await server.ask("/v1/tubes/slow/jobs", { json: { body: "x" } })).status === 201,
    );
  });

  it("a body in one-byte pieces", async () => {
    let count = BYTE_PIECES;
    const sent = async (): Promise<string> => {
      const socket = connect(server.port, "127.0.0.1");
      socket.on("error", () => {});
      // A server that has answered closes, and the answer may be lost with what was sent after it.
      let text = "";
      socket.on("data", (bytes) => {
        text += bytes;
      });
      const closed = new Promise<void>((resolve) => {
        socket.once("close", () => resolve());
      });
      const type = "Content-Type: application/json\r\nTransfer-Encoding: chunked";
      socket.write(
        `POST /v1/tubes/bytes/jobs HTTP/1.1\r\nHost: localhost\r\n${type}\r\n\r\n9\r\n{"body":"\r\n`,
      );
      // Each would be 200 bytes of the heap. A write to a server that has closed would lose the
      // answer, so what has come is read before each.
      const pieces = Buffer.from("1\r\nx\r\n".repeat(count / 100));
      for (let part = 0; part < 100 && text === "" && !socket.destroyed; part++) {
        if (!socket.write(pieces))
          await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), closed]);
        await setImmediate();
      }
      if (text === "") socket.write('2\r\n"}\r\n0\r\n\r\n');
      await Promise.race([eventually("it answers", () => text !== ""), closed]);
      socket.destroy();
      return text;
    };
    // Bodies of earlier clients may still take the room, and on a busy machine the request may
    // take longer than the server waits for one.
    const text = await eventually(
      "there is room and time for it",
      async () => {
        const answered = await sent();
        if (/^HTTP\/1\.1 408 /.test(answered)) count = Math.max(BYTE_PIECES_MIN, count / 2);
        return answered !== "" && !/^HTTP\/1\.1 (503 .*retry-after: 1|408 )/s.test(answered) && answered;
      },
      SENT_AGAIN_MS,
    );
    assert.match(text, /^HTTP\/1\.1 413 .*job-too-big/s);
    await serves();
  });

  it("small requests without a length fit side by side", async () => {
    const head =
      "POST /v1/tubes/chunked/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    const sockets = Array.from({ length: 20 }, () => {
      const socket = connect(server.port, "127.0.0.1");
      socket.on("error", () => {});
      socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n9\r\n{"body":"\r\n`);
      return socket;
    });
    const { status } = await server.ask("/v1/tubes/chunked/jobs", { json: { body: "x" } });
    assert.equal(status, 201);
    const answers = await Promise.all(
      sockets.map(async (socket) => {
        socket.write('2\r\n"}\r\n0\r\n\r\n');
        return `${await once(socket, "data")}`;
      }),
    );
    for (const answer of answers) assert.match(answer, /^HTTP\/1\.1 201 /);
    for (const socket of sockets) socket.destroy();
  });

  it("JSON with a strange blank in its content type is counted, too", async () => {
    const head = Buffer.from(
      `POST /v1/tubes/blank/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: \u00a0application/json\r\nContent-Length: 8000000\r\n\r\n`,
      "latin1",
    );
    const sockets = Array.from({ length: 5 }, () => connect(server.port, "127.0.0.1"));
    const refused = Promise.any(
      sockets.map(async (socket) => {
        socket.on("error", () => {});
        socket.write(head);
        return `${await once(socket, "data")}`;
      }),
    );
    assert.match(await refused, /^HTTP\/1\.1 503 /);
    for (const socket of sockets) socket.destroy();
  });

  it("a path whose escapes are none ends its connection", async () => {
    for (const path of ["/%zz", "/v1/tubes/%zz", "/livez%"]) {
      const request = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
      assert.match(
        await within(60, raw(request, false)),
        /^HTTP\/1\.1 400 [\s\S]*\r\nconnection: close\r\n/i,
        path,
      );
    }
    await serves();
  });

  for (const [index, path] of ["/v1/tubes", "/%zz"].entries())
    it(`many requests of ${path} in one packet, whose answers wait for the first`, {
      skip: skipVariant(index, 2),
    }, async () => {
      for (let n = 0; n < 65; n++)
        await server.ask(`/v1/tubes/listed-${n}-${"x".repeat(150)}/jobs`, { json: { body: "x" } });
      // The table of tubes is up to 0.2 s old.
      let length = 0;
      await eventually("all tubes are listed", async () => {
        length = (await server.ask("/v1/tubes?fresh=true")).bytes.length;
        return length > 50_000;
      });
      assert.ok(length < 64 * 1024, `${length}`);
      const body = '{"tubes":["nothing"],"wait":99}';
      const wait = `POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
      const request = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
      const sockets = Array.from({ length: 10 }, () => connect(server.port, "127.0.0.1"));
      const ended = sockets.map((socket) => {
        socket.on("error", () => {});
        socket.write(wait + request.repeat(1000));
        return new Promise((resolve) => socket.on("close", resolve));
      });
      await within(60, Promise.any(ended));
      await serves();
      for (const socket of sockets) socket.destroy();
    });

  it("scrapes of all tubes that come at once", async () => {
    const watcher = await WireClient.connect(server.process.address);
    for (let tube = 0; tube < SCRAPED_TUBES; tube++) watcher.socket.write(`watch scraped-${tube}\r\n`);
    await eventually("all are there", async () => {
      const { json } = await server.ask("/v1/tubes?limit=1&fresh=true&match=scraped-*");
      return json.matched === SCRAPED_TUBES;
    });
    const scrapes = Array.from({ length: 12 }, () => server.ask("/metrics/tubes?match=scraped-*"));
    for (const { status } of await Promise.all(scrapes)) assert.equal(status, 200);
    watcher.socket.destroy();
  });

  it("large requests to unknown paths get no room", async () => {
    for (const [path, status] of [
      ["/nowhere", "404"],
      ["/v1/tubes", "405"],
    ]) {
      const socket = connect(server.port, "127.0.0.1");
      socket.on("error", () => {});
      const answer = new Promise<string>((resolve) =>
        socket.once("data", (chunk) => resolve(chunk.toString("latin1"))),
      );
      const type = "Content-Type: application/json";
      socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\n${type}\r\nContent-Length: 8000000\r\n\r\n`);
      // Nothing of the body is waited for.
      assert.equal((await answer).split(" ")[1], status);
      socket.destroy();
    }
    await serves();
  });

  it("more connections than allowed", async () => {
    const sockets = Array.from({ length: CONNECTIONS_MAX + 100 }, () => connect(server.port, "127.0.0.1"));
    let closed = 0;
    for (const socket of sockets) {
      socket.on("error", () => {});
      socket.on("close", () => closed++);
    }
    await eventually("some are closed at once", () => closed >= 100);
    for (const path of ["/livez", "/readyz", "/metrics?tubes=none"]) {
      const probe = connect(server.port, "127.0.0.1");
      probe.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      const [answer] = await once(probe, "data");
      assert.match(`${answer}`, /^HTTP\/1\.1 200 /, `${path} while the others are silent`);
      probe.destroy();
    }
    assert.ok(closed < 300, `${closed} closed: most others stay until their time is over`);
    assert.match((await client.ask("stats-tube default")).line, /^OK/);
    for (const socket of sockets) socket.destroy();
    await eventually("there is room again", async () => {
      const answer = await server.ask("/readyz").catch(() => undefined);
      return answer?.status === 200;
    });
  });

  it("waits on all connections leave some for probes and metrics", async () => {
    const metric = async (name: string): Promise<number> =>
      Number(new RegExp(`^runnerbean_${name} (\\d+)$`, "m").exec((await server.ask("/metrics")).text)?.[1]);
    const refusedBefore = await metric("http_connections_refused_total");
    const body = JSON.stringify({ tubes: ["all-wait"], wait: 99 });
    const head = `POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    let answers = "";
    let closed = 0;
    const sockets = Array.from({ length: CONNECTIONS_MAX }, () => connect(server.port, "127.0.0.1"));
    for (const socket of sockets) {
      socket.on("error", () => {});
      socket.on("data", (chunk: Buffer) => {
        answers += chunk.toString();
      });
      socket.on("close", () => closed++);
      socket.write(head + body);
    }
    await eventually("all wait but those for whom there is no room", async () => {
      // While all of them are open, even this one may be too many.
      const waits = await metric("http_waits").catch(() => 0);
      return waits > CONNECTIONS_MAX - 2 * KEPT_MAX && waits + closed === CONNECTIONS_MAX;
    });
    for (const path of ["/livez", "/readyz", "/metrics?tubes=none"])
      assert.equal((await server.ask(path)).status, 200, path);
    assert.match(answers, /^HTTP\/1\.1 503 /);
    assert.match(answers, /^connection: close\r$/im);
    assert.match(answers, /"code":"busy"/);
    assert.ok((await metric("http_connections_refused_total")) > refusedBefore);
    assert.match(server.process.stderr, /a connection above the limit was /);
    for (const socket of sockets) socket.destroy();
    await eventually("there is room again", async () => (await server.ask("/v1/stats")).status === 200);
  });

  it("many silent connections", async () => {
    const sockets = Array.from({ length: IDLE_CONNECTIONS }, () => connect(server.port, "127.0.0.1"));
    for (const socket of sockets) {
      socket.on("error", () => {});
      socket.write("GET /livez HTTP/1.1\r\nHost");
    }
    await serves();
    for (const socket of sockets) socket.destroy();
  });

  it("waits of clients that leave", async () => {
    const head =
      'POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 28\r\n\r\n{"tubes":["gone"],"wait":99}';
    const sockets = Array.from({ length: 50 }, () => connect(server.port, "127.0.0.1"));
    for (const socket of sockets) {
      socket.on("error", () => {});
      socket.write(head);
    }
    const tube = async () => (await server.ask("/v1/tubes/gone?missing=zero")).json;
    await eventually("all wait", async () => (await tube()).waiters === 50);
    for (const socket of sockets) socket.destroy();
    await eventually("none waits, and none watches", async () => {
      const { waiters, watchers } = await tube();
      return waiters === 0 && watchers === 0;
    });
  });

  it("endless headers are cut off after about ten seconds", async () => {
    const { text, seconds } = await slow;
    assert.match(text, /^HTTP\/1\.1 408 /);
    // A whole request may take thirty.
    assert.ok(seconds < 25, `it took ${seconds} s`);
  });
});
