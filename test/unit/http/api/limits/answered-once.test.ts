// Tests that a request with an Idempotency-Key runs once: for its owner, for its content, and only
// if it succeeded.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FastifyRequest } from "fastify";
import { answeredOnce, noteContent } from "../../../../../src/http/api/limits/answered-once.ts";
import { Problem } from "../../../../../src/http/api/problem.ts";
import type { Service } from "../../../../../src/http/queue/service.ts";
import { IdempotencyKeys } from "../../../../../src/http/state/idempotency.ts";

interface Asked {
  readonly owner?: string;
  readonly key?: string;
  readonly url?: string;
  readonly body?: string;
}

const codeOf = (code: string) => (error: unknown) => error instanceof Problem && error.code === code;

class Requests {
  readonly #service = { keys: new IdempotencyKeys(() => 0) } as Pick<Service, "keys"> as Service;
  done = 0;

  send(asked: Asked, act?: () => Promise<void>): Promise<{ status: number; payload: { id: number } }> {
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
    return answeredOnce(request, this.#service, async () => {
      await act?.();
      return { status: 201, payload: { id: ++this.done } };
    });
  }
}

describe("a request with an Idempotency-Key", () => {
  it("is executed once, and its answer repeated", async () => {
    const requests = new Requests();
    const first = await requests.send({});
    assert.deepEqual(await requests.send({}), first);
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
    assert.deepEqual(await requests.send({}), answer);
    assert.equal(requests.done, 1);
  });

  it("may be repeated after a failure", async () => {
    const requests = new Requests();
    const busy = (): Promise<void> => Promise.reject(new Problem("busy", "x"));
    await assert.rejects(requests.send({}, busy), codeOf("busy"));
    assert.equal((await requests.send({})).payload.id, 1);
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
    const service = { keys } as unknown as Service;
    const headers = { "idempotency-key": "key" };
    const request = { method: "POST", url: "/", headers, contentHash: "" } as unknown as FastifyRequest;
    for (const payload of [
      { id: 1 },
      { results: [] },
      { results: Array(3).fill({}) },
      { results: Array(1000) },
    ])
      await answeredOnce(request, service, () => Promise.resolve({ status: 200, payload }));
    assert.deepEqual(weights, [1, 0, 3, 1000]);
  });
});
