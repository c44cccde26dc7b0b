// Tests of the bytes of requests under way, against a model: requests of known and unknown length
// grow, end and are refused in random order, and everything granted is given back.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect } from "node:net";
import { describe, it } from "node:test";
import type { FastifyRequest } from "fastify";
import Fastify from "fastify";
import type { Api } from "../../../../src/http/api/api.ts";
import { RequestBudget, ResponseBudget } from "../../../../src/http/limits/budgets.ts";
import { Busy } from "../../../../src/http/link/control-client.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const UNDER_WAY_MAX = 32 << 20;
const FIRST_BYTES = 64 * 1024;
const OPEN_BYTES_MAX = 16 * 1024;
const ONE_MAX = 5 << 20;

type Begin = (headers: Readonly<Record<string, string>>, destroyed?: boolean) => FastifyRequest;

/** A budget, and how a request begins on a route that needs a token, and on an open one. */
function scene(bytesMax = ONE_MAX): { budget: RequestBudget; begin: Begin; beginOpen: Begin } {
  const budget = new RequestBudget(bytesMax);
  let onRoute: (route: object) => void = () => {};
  const addHook = (_name: string, hook: (route: object) => void): void => {
    onRoute = hook;
  };
  budget.addTo({ addHook } as unknown as Api);
  const beginOn = (may: string | null): Begin => {
    const route: { config: object; onRequest?: ((...all: unknown[]) => void)[] } = { config: { may } };
    onRoute(route);
    return (headers, destroyed = false) => {
      const request = { bodyRoom: 0, bodyBytesMax: 0, raw: { headers } };
      route.onRequest![0]!(request, { raw: { destroyed } }, () => {});
      return request as unknown as FastifyRequest;
    };
  };
  return { budget, begin: beginOn("put"), beginOpen: beginOn(null) };
}

const json = (bytes?: number): Record<string, string> => ({
  "content-type": "application/json",
  ...(bytes === undefined ? {} : { "content-length": `${bytes}` }),
});

/** Requests in random order; each is granted what it asks for exactly if there is room. */
class Model {
  readonly #random: SeededRandom;
  readonly #scene = scene();
  readonly #open = new Set<FastifyRequest>();
  refused = 0;

  constructor(seed: number) {
    this.#random = new SeededRandom(seed);
  }

  get #used(): number {
    return [...this.#open].reduce((sum, { bodyRoom }) => sum + bodyRoom, 0);
  }

  step(): void {
    const wish = this.#random.below(10);
    const one = this.#random.pick([...this.#open]);
    if (wish < 4 || one === undefined) this.#begin();
    else if (wish < 7) this.#grow(one);
    else this.#end(one);
  }

  #must(hasRoom: boolean, act: () => void): void {
    if (hasRoom) {
      act();
      return;
    }
    this.refused++;
    assert.throws(act, Busy);
  }

  #begin(): void {
    const { begin } = this.#scene;
    const declared = this.#random.chance(0.3) ? undefined : this.#random.below(2 * ONE_MAX);
    const wanted = Math.min(declared ?? FIRST_BYTES, ONE_MAX);
    // Nothing would give back what a client takes that has left.
    if (this.#random.chance(0.1)) assert.throws(() => begin(json(declared), true), Busy);
    else this.#must(this.#used + wanted <= UNDER_WAY_MAX, () => this.#open.add(begin(json(declared))));
  }

  #grow(one: FastifyRequest): void {
    const arrived = this.#random.below(2 * ONE_MAX);
    const room = one.bodyRoom;
    const next = arrived <= room ? room : Math.max(arrived, Math.min(2 * room, ONE_MAX));
    const hasRoom = this.#used - room + next <= UNDER_WAY_MAX;
    this.#must(hasRoom, () => this.#scene.budget.grow(one, arrived));
    assert.equal(one.bodyRoom, hasRoom ? next : room);
  }

  #end(one: FastifyRequest): void {
    this.#open.delete(one);
    this.#scene.budget.give(one);
    // A request may end in several ways at once.
    if (this.#random.chance(0.5)) this.#scene.budget.give(one);
  }

  endAll(): void {
    for (const each of this.#open) this.#end(each);
  }

  /** Whether there is room for a request that grows to so many bytes; it stays. */
  tries(declared: number, bytes: number): boolean {
    try {
      this.#scene.budget.grow(this.#scene.begin(json(declared)), bytes);
      return true;
    } catch {
      return false;
    }
  }
}

describe("RequestBudget", () => {
  it("grants what is declared, at most the maximum of one request, and only for gathered bodies", () => {
    const { begin, beginOpen } = scene();
    for (const [declared, granted, open] of [
      [undefined, FIRST_BYTES, OPEN_BYTES_MAX],
      [0, 0, 0],
      [1, 1, 1],
      [OPEN_BYTES_MAX + 1, OPEN_BYTES_MAX + 1, OPEN_BYTES_MAX],
      [ONE_MAX, ONE_MAX, OPEN_BYTES_MAX],
      [ONE_MAX + 1, ONE_MAX, OPEN_BYTES_MAX],
    ] as const) {
      assert.equal(begin(json(declared)).bodyRoom, granted, `${declared}`);
      assert.equal(beginOpen(json(declared)).bodyRoom, open, `${declared} without a token`);
    }
    for (const type of ["text/plain", "application/jsonp", "image/png"])
      assert.equal(begin({ "content-type": type, "content-length": "9" }).bodyRoom, 0, type);
    for (const type of ["application/json; charset=utf-8", "application/x-msgpack", " Application/MsgPack "])
      assert.equal(begin({ "content-type": type, "content-length": "9" }).bodyRoom, 9, type);
    assert.equal(begin({ "content-length": "9" }).bodyRoom, 0);
  });

  it("doubles a grant as the body grows, and counts each byte once", () => {
    const { budget, begin } = scene();
    const request = begin(json());
    for (const [arrived, granted] of [
      [FIRST_BYTES, FIRST_BYTES],
      [FIRST_BYTES + 1, 2 * FIRST_BYTES],
      [2 * FIRST_BYTES, 2 * FIRST_BYTES],
      [5 * FIRST_BYTES, 5 * FIRST_BYTES],
      [ONE_MAX - 1, ONE_MAX - 1],
      [ONE_MAX, ONE_MAX],
      [ONE_MAX + 9, ONE_MAX + 9],
    ] as const) {
      budget.grow(request, arrived);
      assert.equal(request.bodyRoom, granted);
    }
  });

  it("is 32 MiB for all requests, and whole again once all have ended, however they end", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const model = new Model(seed);
      for (let step = 0; step < 300; step++) model.step();
      assert.ok(model.refused > 0, `seed ${seed}`);
      model.endAll();
      assert.equal(model.tries(0, UNDER_WAY_MAX), true, `seed ${seed}`);
      assert.equal(model.tries(0, 1), false, `seed ${seed}`);
      assert.equal(model.tries(0, 0), true, `seed ${seed}`);
    }
  });
});

// Tests of the byte limit for unread long responses.

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
