// Tests that a request with an Idempotency-Key runs once: for its owner, for its content, and only
// if it succeeded.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Problem } from "../../../../src/http/api/problem.ts";
import { answeredOnce, noteContent } from "../../../../src/http/app/answered-once.ts";
import { IdempotencyKeys } from "../../../../src/http/state/idempotency.ts";

interface Asked {
  readonly owner?: string;
  readonly key?: string;
  readonly url?: string;
  readonly body?: string;
}

interface Answer {
  readonly status: number;
  readonly payload: { readonly id: number };
  readonly location: unknown;
  readonly isRepeated: boolean;
}

function replyOf(): FastifyReply {
  const headers: Record<string, unknown> = {};
  const reply = {
    statusCode: 200,
    code: (status: number) => Object.assign(reply, { statusCode: status }),
    header: (name: string, value: unknown) => {
      headers[name] = value;
      return reply;
    },
    getHeader: (name: string) => headers[name],
  };
  return reply as unknown as FastifyReply;
}

const codeOf = (code: string) => (error: unknown) => error instanceof Problem && error.code === code;

class Requests {
  readonly #keys = new IdempotencyKeys(() => 0);
  done = 0;

  async send(asked: Asked, work?: (request: FastifyRequest) => Promise<void>): Promise<Answer> {
    const { owner, key = "key", url = "/v1/tubes/a/jobs", body = "{}" } = asked;
    const request = {
      method: "POST",
      url,
      owner,
      headers: { "idempotency-key": key },
      body: {},
      contentHash: "",
    } as unknown as FastifyRequest;
    noteContent(request, Buffer.from(body));
    const reply = replyOf();
    const act = async (): Promise<{ id: number }> => {
      await work?.(request);
      reply.code(201).header("location", "/v1/jobs/1");
      return { id: ++this.done };
    };
    const payload = (await answeredOnce(request, reply, this.#keys, act, key)) as { id: number };
    const location = reply.getHeader("location");
    return { status: reply.statusCode, payload, location, isRepeated: request.isRepeated === true };
  }
}

describe("a request with an Idempotency-Key", () => {
  it("is executed once, and its answer repeated", async () => {
    const requests = new Requests();
    const first = await requests.send({});
    assert.equal(first.isRepeated, false);
    assert.deepEqual(await requests.send({}), { ...first, isRepeated: true });
    assert.equal(requests.done, 1);
  });

  it("belongs to its owner: another owner's equal key is executed on its own", async () => {
    const requests = new Requests();
    const answers = [await requests.send({ owner: "a" }), await requests.send({ owner: "b" })];
    assert.deepEqual(
      answers.map(({ payload }) => payload.id),
      [1, 2],
    );
    // Nor is anything told of it when the content is another.
    assert.equal((await requests.send({ owner: "c", body: "[]" })).payload.id, 3);
  });

  it("is refused with other content or another address", async () => {
    const requests = new Requests();
    await requests.send({});
    for (const other of [{ body: "{ }" }, { url: "/v1/tubes/b/jobs" }])
      await assert.rejects(requests.send(other), codeOf("idempotency-mismatch"));
  });

  it("is refused while the first is in flight, and answered like it afterwards", async () => {
    const requests = new Requests();
    let finish = (): void => {};
    const first = requests.send({}, () => new Promise((resolve) => (finish = resolve)));
    await assert.rejects(requests.send({}), codeOf("idempotency-in-progress"));
    finish();
    const answer = await first;
    assert.deepEqual(await requests.send({}), { ...answer, isRepeated: true });
    assert.equal(requests.done, 1);
  });

  it("may be repeated after a failure", async () => {
    const requests = new Requests();
    const busy = (): Promise<void> => Promise.reject(new Problem("busy", "x"));
    await assert.rejects(requests.send({}, busy), codeOf("busy"));
    assert.equal((await requests.send({})).payload.id, 1);
  });

  it("may be repeated once it is known that its answer does not arrive", async () => {
    const requests = new Requests();
    let finish = (): void => {};
    const first = requests.send({}, (request) => {
      request.forgetKey!();
      return new Promise((resolve) => (finish = resolve));
    });
    const second = requests.send({});
    finish();
    assert.equal((await first).payload.id, 2);
    // The answer of the first, which nobody got, replaces nothing.
    assert.deepEqual((await requests.send({})).payload, (await second).payload);
  });

  it("has a key of 1 to 64 visible characters", async () => {
    const requests = new Requests();
    for (const key of ["", "a b", "ü", "x".repeat(65)])
      await assert.rejects(requests.send({ key }), codeOf("bad-request"));
    await requests.send({ key: "x".repeat(64) });
  });

  it("weighs as much as it has results, so that a million jobs are kept", async () => {
    const weights: number[] = [];
    const keys = {
      begin: () => "begun",
      end: (_key: string, _answer: object, weight: number) => weights.push(weight),
    };
    const headers = { "idempotency-key": "key" };
    const request = { method: "POST", url: "/", headers, contentHash: "" } as unknown as FastifyRequest;
    for (const payload of [
      { id: 1 },
      { results: [] },
      { results: Array(3).fill({}) },
      { results: Array(1000) },
      { jobs: [{ bytes: 100 }] },
    ])
      await answeredOnce(request, replyOf(), keys as unknown as IdempotencyKeys, () => payload, "key");
    assert.deepEqual(weights, [1, 0, 3, 1000, 4]);
  });
});
