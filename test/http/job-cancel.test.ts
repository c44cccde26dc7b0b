// Tests of progress, notes and cancellation over HTTP: of waiting jobs, of leases, and of jobs that
// clients of the protocol hold.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";

describe("cancelling jobs over HTTP", () => {
  let server: HttpServer;
  let client: WireClient;
  before(async () => {
    server = await startHttpServer("--shards", "2", "--acceptors", "1");
    client = await WireClient.connect(server.process.address);
  });
  after(async () => {
    client.close();
    await server.process.stop();
  });

  const put = async (tube: string): Promise<number> =>
    (await server.ask(`/v1/tubes/${tube}/jobs`, { json: { body: "x" } })).json.id;
  const cancel = (id: number, json: unknown = {}, headers = {}) =>
    server.ask(`/v1/jobs/${id}/cancel`, { json, headers });
  const job = async (id: number) => (await server.ask(`/v1/jobs/${id}`)).json;
  const leaseOf = async (tube: string): Promise<string> =>
    (await server.ask("/v1/reserve", { json: { tubes: [tube], wait: 0 } })).json.jobs[0].lease;

  it("removes a job that waits, and counts it", async () => {
    // With another one, the tube stays.
    await put("waiting");
    const id = await put("waiting");
    assert.deepEqual((await server.ask(`/v1/jobs/${id}/cancel`, { method: "POST" })).json, { held: false });
    assert.equal((await server.ask(`/v1/jobs/${id}`)).status, 404);
    const gone = await cancel(id);
    assert.deepEqual([gone.status, gone.json.code], [404, "job-not-found"]);
    const { totals, details } = (await server.ask("/v1/tubes/waiting")).json;
    assert.deepEqual([totals.cancels, totals.deletes, details?.cancelled], [1, 0, 1]);
    await eventually("the metric counts it", async () => {
      const { text } = await server.ask("/metrics/tubes");
      return /^runnerbean_tube_cancels_total\{tube="waiting"\} 1$/m.test(text);
    });
  });

  it("tells the worker of a lease at its next touch, with the reason", async () => {
    const id = await put("leased");
    const lease = await leaseOf("leased");
    const touch = (json: unknown) => server.ask(`/v1/leases/${lease}/touch`, { json });
    assert.deepEqual((await touch({ progress: 40, note: "é 3" })).json, { timeLeft: 60 });
    assert.deepEqual(
      [(await job(id)).progress, (await job(id)).note, (await job(id)).cancelled],
      [40, "é 3", null],
    );
    const reason = `no 100 % ☃ ${"x".repeat(100)}`;
    assert.deepEqual((await cancel(id, { reason })).json, { held: true });
    assert.equal((await job(id)).cancelled, reason);
    assert.deepEqual((await touch({ progress: 41 })).json, { timeLeft: 60, cancelled: reason });
    const many = await server.ask("/v1/leases", {
      json: { touch: [lease, { lease, progress: 50, note: "" }] },
    });
    const touched = { lease, ok: true, cancelled: reason };
    assert.deepEqual(many.json, { results: [touched, touched], failed: 0 });
    assert.deepEqual([(await job(id)).progress, (await job(id)).note], [50, null]);
    const released = await server.ask(`/v1/leases/${lease}/release`, { json: { delay: 100 } });
    assert.equal(released.status, 200);
    assert.equal((await server.ask(`/v1/jobs/${id}`)).status, 404);
    assert.equal((await touch({})).status, 410);
  });

  it("leaves a job to a worker that does it all the same", async () => {
    const id = await put("done");
    await put("done");
    const lease = await leaseOf("done");
    assert.deepEqual((await cancel(id)).json, { held: true });
    assert.deepEqual((await server.ask(`/v1/leases/${lease}/touch`, { json: {} })).json.cancelled, "");
    assert.equal((await server.ask(`/v1/leases/${lease}/delete`, { method: "POST" })).status, 200);
    const { totals } = (await server.ask("/v1/tubes/done")).json;
    assert.deepEqual([totals.cancels, totals.deletes], [0, 1]);
  });

  it("reaches a worker that speaks the protocol", async () => {
    const id = await put("wire");
    assert.match((await client.ask(`reserve-job ${id}`)).line, /^RESERVED/);
    assert.equal((await client.ask(`touch-job ${id} progress=5 note=%c3%a9`)).line, "TOUCHED");
    const [listed] = (await server.ask("/v1/tubes/wire/jobs?state=reserved")).json.items;
    assert.deepEqual([listed.progress, listed.note], [5, "é"]);
    await cancel(id, { reason: "é" });
    assert.equal((await client.ask(`touch-job ${id}`)).line, "TOUCHED cancelled=%c3%a9");
  });

  it("cuts a reason to what a line holds, and repeats nothing with a key", async () => {
    const id = await put("long");
    await client.ask(`reserve-job ${id}`);
    assert.deepEqual((await cancel(id, { reason: "☃ ".repeat(100) })).json, { held: true });
    // Each takes three bytes and three for the blank.
    assert.equal((await job(id)).cancelled, "☃ ".repeat(33));
    assert.equal((await cancel(id, { reason: "x".repeat(201) })).status, 400);
    const other = await put("long");
    const headers = { "idempotency-key": "once" };
    const first = await cancel(other, { reason: "a" }, headers);
    assert.deepEqual([first.status, first.json], [200, { held: false }]);
    assert.deepEqual((await cancel(other, { reason: "a" }, headers)).json, { held: false });
  });
});
