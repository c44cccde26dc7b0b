// Tests of operations on tubes over HTTP, and of copies.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { BIG_BYTES, ManagedServer } from "./manage-requests.ts";

describe("browsing and managing over HTTP", () => {
  const its = new ManagedServer();
  const { get, all, lastChange, putTo } = its.requests;

  describe("a tube", () => {
    it("is paused and resumed", async () => {
      await putTo("paused", 1);
      assert.equal(
        (await its.server.ask("/v1/tubes/paused/pause", { method: "PUT", json: { seconds: 1000 } })).status,
        200,
      );
      assert.equal((await get("/v1/tubes/paused")).pause.seconds, 1000);
      assert.deepEqual(
        (await its.server.ask("/v1/reserve", { json: { tubes: ["paused"], wait: 0 } })).json.jobs,
        [],
      );
      assert.equal((await its.server.ask("/v1/tubes/paused/pause", { method: "DELETE" })).status, 200);
      assert.equal(
        (await its.server.ask("/v1/reserve", { json: { tubes: ["paused"], wait: 0 } })).json.jobs.length,
        1,
      );
      assert.equal(
        (await its.server.ask("/v1/tubes/nothing/pause", { method: "PUT", json: { seconds: 1 } })).status,
        404,
      );
    });

    it("kicks jobs, and counts them before on request", async () => {
      await putTo("kicked", 1000, { delay: 1000 });
      const kick = (json?: object) =>
        its.server.ask("/v1/tubes/kicked/kick", { method: "POST", ...(json === undefined ? {} : { json }) });
      assert.deepEqual((await kick({ dryRun: true })).json, { affected: 1000 });
      assert.equal((await get("/v1/tubes/kicked")).jobs.ready, 0);
      assert.deepEqual((await kick({ max: 700 })).json, { affected: 700 });
      assert.deepEqual((await kick()).json, { affected: 300 });
      assert.equal((await get("/v1/tubes/kicked")).jobs.ready, 1000);
      assert.equal((await kick({ states: ["ready"] })).status, 400);
    });

    it("is cleared by state, by filter, and completely", async () => {
      const ids = await putTo("cleared", 50);
      await putTo("cleared", 50, { delay: 1000 });
      const { jobs } = (
        await its.server.ask("/v1/reserve", { json: { tubes: ["cleared"], wait: 0, max: 5 } })
      ).json;
      const clear = async (json: object) => (await its.server.ask("/v1/tubes/cleared/clear", { json })).json;
      assert.deepEqual(await clear({ states: ["ready"], where: { idTo: ids[9] } }), { affected: 5 });
      assert.deepEqual(await clear({ states: ["delayed"], max: 20 }), { affected: 20 });
      assert.deepEqual(await clear({ states: ["ready", "delayed", "buried"], dryRun: true }), {
        affected: 70,
      });
      const gone = await its.server.ask("/v1/tubes/cleared", { method: "DELETE" });
      assert.deepEqual(gone.json, { deleted: 70, exists: true, users: 0, watchers: 1 });
      const { reserved } = (await get("/v1/tubes/cleared")).jobs;
      assert.equal(reserved, 5);
      assert.equal(
        (await its.server.ask("/v1/tubes/cleared?force=true", { method: "DELETE" })).json.deleted,
        5,
      );
      assert.equal(
        (await its.server.ask(`/v1/leases/${jobs[0].lease}/delete`, { method: "POST" })).status,
        410,
      );
    });

    it("lists all leases, and is deleted as a task if the client prefers that", async () => {
      const jobs = Array.from({ length: 1000 }, () => ({ body: "x" }));
      for (let each = 0; each < 2; each++) await its.server.ask("/v1/tubes/leased/jobs", { json: { jobs } });
      for (const max of [1000, 10])
        await its.server.ask("/v1/reserve", { json: { tubes: ["leased"], wait: 0, max } });
      const { items, total } = (await its.server.ask("/v1/leases")).json;
      assert.ok(total >= 1010 && items.length === total, `${items.length} of ${total}`);
      const headers = { prefer: "respond-async" };
      const path = "/v1/tubes/leased?force=true";
      const { status, json, headers: given } = await its.server.ask(path, { method: "DELETE", headers });
      assert.equal(status, 202);
      assert.equal(given["location"], `/v1/tasks/${json.id}`);
      await eventually("the task is done", async () => (await get(`/v1/tasks/${json.id}`)).state === "done");
      assert.equal((await get(`/v1/tasks/${json.id}`)).affected, 2000);
    });

    it("changes jobs, and moves them with their ids to tubes of any shard", async () => {
      const ids = await putTo("bulk-0", 20);
      const update = { states: ["ready"], where: { idTo: ids[9] }, set: { pri: 5, delay: 1000 } };
      assert.deepEqual((await its.server.ask("/v1/tubes/bulk-0/update", { json: update })).json, {
        affected: 10,
      });
      assert.deepEqual((await get("/v1/tubes/bulk-0")).jobs, {
        ready: 10,
        urgent: 0,
        reserved: 0,
        delayed: 10,
        buried: 0,
      });
      for (let n = 1; n <= 5; n++) {
        const json = { states: ["ready", "delayed"], to: `bulk-${n}` };
        const path = `/v1/tubes/bulk-${n - 1}/move`;
        assert.deepEqual((await its.server.ask(path, { json: { ...json, dryRun: true } })).json, {
          affected: 20,
        });
        assert.deepEqual((await its.server.ask(path, { json })).json, { affected: 20 });
        const items = await all(`/v1/tubes/bulk-${n}/jobs?limit=100`);
        assert.deepEqual(
          items.map(({ id }) => id),
          ids,
        );
        assert.deepEqual([items[0]!.pri, items[0]!.state], [5, "delayed"]);
      }
    });

    it("refuses moved jobs beyond its limits, on any shard", async () => {
      for (const to of ["narrow-1", "narrow-2", "narrow-3", "narrow-4"]) {
        assert.equal((await its.client.ask(`set-tube ${to} max-jobs=5`)).line, "SET");
        await putTo(`wide-${to}`, 8);
        const move = { json: { states: ["ready"], to } };
        const { status, json } = await its.server.ask(`/v1/tubes/wide-${to}/move`, move);
        assert.deepEqual([status, json.code], [409, "tube-full"]);
        assert.match(json.detail, /^After 5 jobs /);
        assert.deepEqual(await lastChange(), [5, 409]);
        assert.equal((await get(`/v1/tubes/wide-${to}`)).jobs.ready, 3);
        assert.equal((await get(`/v1/tubes/${to}`)).jobs.ready, 5);
      }
    });

    it("executes a request with a key once", async () => {
      await putTo("once", 10);
      const clear = () =>
        its.server.ask("/v1/tubes/once/clear", {
          json: { states: ["ready"], max: 3 },
          headers: { "idempotency-key": "clear-1" },
        });
      assert.deepEqual((await clear()).json, { affected: 3 });
      assert.deepEqual((await clear()).json, { affected: 3 });
      assert.equal((await get("/v1/tubes/once")).jobs.ready, 7);
    });

    it("repeats the answer to a request with a key, even after the tube is gone", async () => {
      await putTo("gone-once", 3);
      const clear = () =>
        its.server.ask("/v1/tubes/gone-once/clear", {
          json: { states: ["ready"] },
          headers: { "idempotency-key": "clear-2" },
        });
      assert.deepEqual((await clear()).json, { affected: 3 });
      assert.equal((await its.server.ask("/v1/tubes/gone-once")).status, 404);
      assert.deepEqual((await clear()).json, { affected: 3 });
    });
  });

  describe("copies", () => {
    const copy = (tube: string, body: object) =>
      its.server.ask(`/v1/tubes/${tube}/move`, { json: { copy: true, ...body } });

    it("are new jobs in any tube, on any shard, and the originals stay", async () => {
      const ids = await putTo("originals", 20, { pri: 7, ttr: 99 });
      await putTo("originals", 3, { delay: 1000, pri: 8 });
      const big = Buffer.alloc(BIG_BYTES, "0123456789");
      await its.server.ask("/v1/tubes/originals/jobs?pri=9", { body: big });
      for (const to of ["copies-a", "copies-b", "copies-c", "copies-d"]) {
        const { status, json } = await copy("originals", { states: ["ready", "delayed"], to });
        assert.deepEqual([status, json], [200, { affected: 24 }]);
        const items = await all(`/v1/tubes/${to}/jobs?limit=10`);
        assert.deepEqual(
          items.slice(0, 20).map((job) => [job.body, job.pri, job.state]),
          ids.map((_, n) => [`${n}`, 7, "ready"]),
        );
        assert.ok(items[0]!.id > ids.at(-1)!);
        assert.equal(items.filter(({ state }) => state === "delayed").length, 3);
        const { bytes } = await its.server.ask(`/v1/jobs/${items.at(-1)!.id}/body`);
        assert.ok(bytes.equals(big));
        const first = await get(`/v1/jobs/${items[0]!.id}`);
        assert.deepEqual([first.ttr, first.reserves], [99, 0]);
      }
      assert.equal((await all("/v1/tubes/originals/jobs?limit=10")).length, 24);
    });

    it("are made of the filtered jobs, and once each into the same tube", async () => {
      await putTo("doubled", 300);
      assert.deepEqual((await copy("doubled", { states: ["ready"], to: "doubled", dryRun: true })).json, {
        affected: 300,
      });
      assert.deepEqual((await copy("doubled", { states: ["ready"], to: "doubled" })).json, { affected: 300 });
      assert.equal((await get("/v1/tubes/doubled")).jobs.ready, 600);
      const some = { states: ["ready"], to: "some", where: { text: "29" }, max: 10 };
      assert.deepEqual((await copy("doubled", some)).json, { affected: 10 });
      assert.ok((await all("/v1/tubes/some/jobs?limit=50")).every(({ body }) => body.includes("29")));
      assert.equal((await copy("nothing", { states: ["ready"], to: "some" })).status, 404);
      assert.equal((await copy("doubled", { states: ["reserved"], to: "some" })).status, 400);
    });

    it("end when the tube is full", async () => {
      await its.client.ask("set-tube narrow max-jobs=2");
      const { status, json } = await copy("doubled", { states: ["ready"], to: "narrow" });
      assert.deepEqual([status, json.code], [409, "tube-full"]);
      assert.match(json.detail, /^After 2 copies/);
      assert.deepEqual(await lastChange(), [2, 409]);
      assert.equal((await its.server.ask("/v1/tubes/narrow/jobs", { body: "more" })).json.code, "tube-full");
    });

    it("end with a refused put, and report their number", async () => {
      await its.server.ask("/v1/server/drain", { method: "PUT" });
      const { status, json } = await copy("doubled", { states: ["ready"], to: "refused" });
      await its.server.ask("/v1/server/drain", { method: "DELETE" });
      assert.deepEqual([status, json.code], [503, "draining"]);
      assert.match(json.detail, /^After 0 copies, a put was refused/);
      const task = (await get("/v1/tasks")).items.at(-1);
      assert.deepEqual([task.act, task.state], ["copy", "failed"]);
      assert.match(task.fault, /DRAINING/);
    });
  });

  it("drains the server, and ends the drain", async () => {
    assert.deepEqual((await its.server.ask("/v1/server/drain", { method: "PUT" })).json, { draining: true });
    const refused = await its.server.ask("/v1/tubes/drained/jobs", { json: { body: "a" } });
    assert.deepEqual(
      [refused.status, refused.json.code, refused.headers["retry-after"]],
      [503, "draining", "1"],
    );
    assert.equal((await its.server.ask("/readyz?for=put")).status, 503);
    assert.equal((await its.server.ask("/readyz")).status, 200);
    await its.server.ask("/v1/server/drain", { method: "DELETE" });
    assert.equal((await its.server.ask("/v1/tubes/drained/jobs", { json: { body: "a" } })).status, 201);
  });
});
