// Tests of the byte limit for unread long responses.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect } from "node:net";
import { it } from "node:test";
import Fastify from "fastify";
import type { Api } from "../../../../src/http/api/api.ts";
import { ResponseBudget } from "../../../../src/http/limits/budgets.ts";
import { Busy } from "../../../../src/http/link/control-client.ts";

/** More than the kernel keeps between two processes. */
const LONG_BYTES = 16 << 20;

it("unread long answers are dropped at a bound, and short ones continue", async (t) => {
  const room = new ResponseBudget(2 * LONG_BYTES);
  const api = Fastify() as unknown as Api;
  t.after(() => api.close());
  const sent: string[] = [];
  const refused: unknown[] = [];
  room.addTo(api);
  api.addHook("onRequest", (request, reply, done) => {
    reply.raw.once("close", () => room.give(request));
    done();
  });
  api.addHook("onSend", (request, _reply, payload, done) => {
    sent.push(request.url);
    done(null, payload);
  });
  api.setErrorHandler((error, _request, reply) => {
    refused.push(error);
    return reply.code(503).send("busy");
  });
  const long = "x".repeat(LONG_BYTES);
  api.get("/long", () => long);
  api.get("/short", () => "short");
  await api.listen({ port: 0, host: "127.0.0.1" });
  const { port } = api.server.address() as AddressInfo;
  const statusOf = async (path: string): Promise<number> => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`);
    await answer.text();
    return answer.status;
  };
  const deaf = () => {
    const socket = connect(port, "127.0.0.1").pause();
    socket.write("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return socket;
  };
  const sockets = [deaf(), deaf()];
  const until = async (is: () => boolean): Promise<void> => {
    while (!is()) await new Promise((resolve) => setImmediate(resolve));
  };
  await until(() => sent.length === 2);
  assert.equal(await statusOf("/long"), 503);
  assert.ok(refused[0] instanceof Busy);
  assert.equal(await statusOf("/short"), 200);
  const closed = once(sockets[0]!, "close");
  sockets[0]!.destroy();
  await closed;
  let status = 503;
  while (status === 503) status = await statusOf("/long");
  assert.equal(status, 200, "there is room again");
  sockets[1]!.destroy();
});

it("long answers count from their creation, and shortened ones with their rest", async (t) => {
  const room = new ResponseBudget(100_000);
  const api = Fastify() as unknown as Api;
  t.after(() => api.close());
  const held: (() => void)[] = [];
  room.addTo(api, (_request, _reply, _payload, done) => {
    held.push(() => done(null, Buffer.from("short")));
  });
  api.setErrorHandler((error, _request, reply) => {
    assert.ok(error instanceof Busy);
    return reply.code(503).send();
  });
  api.get("/long", () => "x".repeat(80_000));
  const first = api.inject("/long");
  while (held.length < 1) await new Promise((resolve) => setImmediate(resolve));
  const second = api.inject("/long");
  // The refusal is made shorter, too.
  while (held.length < 2) await new Promise((resolve) => setImmediate(resolve));
  for (const each of held.splice(0)) each();
  assert.deepEqual([(await first).statusCode, (await second).statusCode], [200, 503]);
  const third = api.inject("/long");
  while (held.length < 1) await new Promise((resolve) => setImmediate(resolve));
  for (const each of held.splice(0)) each();
  assert.equal((await third).statusCode, 200);
});
