// Tests of HTTP clients that disconnect before they get their response: what they took is released.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";

const JSON_TYPE = "Content-Type: application/json";
/** More than four of them have no room beside each other. */
const LARGE_BYTES = 8_000_000;

describe("an HTTP client that leaves", () => {
  let server: HttpServer;

  before(async () => {
    server = await startHttpServer("--shards", "2", "-z", "100000");
  });
  after(() => server.process.stop());

  const head = (line: string, ...lines: string[]): string =>
    [`${line} HTTP/1.1`, "Host: localhost", ...lines, "", ""].join("\r\n");
  const waitFor = (tube: string): string => {
    const body = JSON.stringify({ tubes: [tube], wait: 200 });
    return head("POST /v1/reserve", JSON_TYPE, `Content-Length: ${body.length}`) + body;
  };
  const send = (text: string, then: (socket: Socket) => void = () => {}): Socket => {
    const socket = connect(server.port, "127.0.0.1");
    socket.on("error", () => {});
    socket.write(text, () => then(socket));
    return socket;
  };
  const noStreams = async (): Promise<boolean> =>
    /^runnerbean_http_streams 0$/m.test((await server.ask("/metrics")).text);
  const tube = async (name: string) => (await server.ask(`/v1/tubes/${name}?missing=zero`)).json;

  it("takes its waiting later requests with it", async () => {
    const sockets = Array.from({ length: 5 }, () =>
      send(
        waitFor("first") +
          waitFor("second") +
          head("GET /v1/events?get=/v1/health", "Accept: text/event-stream") +
          head("POST /v1/tubes/large/jobs", JSON_TYPE, `Content-Length: ${LARGE_BYTES}`),
      ),
    );
    const waiters = async (): Promise<number[]> => [
      (await tube("first")).waiters,
      (await tube("second")).waiters,
    ];
    await eventually("all wait", async () => (await waiters()).every((count) => count === 5));
    for (const socket of sockets) socket.destroy();
    await eventually("nobody waits", async () => (await waiters()).every((count) => count === 0));
    const put = () => server.ask("/v1/tubes/large/jobs", { json: { body: "x".repeat(90_000) } });
    await eventually("there is room for requests", async () => (await put()).status === 201);
    await eventually("no stream is left", noStreams);
  });

  it("leaves no stream behind", async () => {
    for (let round = 0; round < 30; round++) {
      const sockets = Array.from({ length: 4 }, () =>
        send(head("GET /v1/events?get=/v1/connections", "Accept: text/event-stream"), (socket) =>
          socket.resetAndDestroy(),
        ),
      );
      await Promise.all(sockets.map((socket) => once(socket, "close")));
    }
    await eventually("no stream is left", noStreams);
  });

  it("causes no error by leaving in the middle of a body", async () => {
    for (const type of ["application/json", "application/msgpack", "text/plain"]) {
      const lines = [`Content-Type: ${type}`, "Content-Length: 2000"];
      const socket = send(`${head("POST /v1/tubes/broken/jobs", ...lines)}abc`, () => socket.destroy());
      await once(socket, "close");
    }
    await server.process.stop();
    assert.doesNotMatch(server.process.stderr, /"level":50/);
  });
});
