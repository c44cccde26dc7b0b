// Tests of lists of jobs over HTTP, and of operations on one job.

import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { ManagedServer } from "./manage-requests.ts";

const JOBS = 3000;
/** Largest page of long bodies: 2 MiB of them, a last one, and the fields of the jobs. */
const PAGE_BYTES_MAX = 2.2 * 1024 * 1024;

describe("browsing and managing over HTTP", () => {
  const its = new ManagedServer();
  before(async () => {
    for (let from = 0; from < JOBS; from += 1000) {
      const jobs = Array.from({ length: 1000 }, (_, n) => ({
        body: (from + n) % 100 === 7 ? `needle ${from + n}` : `hay ${from + n}`,
        pri: JOBS - from - n,
        ...((from + n) % 3 === 0 ? { delay: 1000 + from + n } : {}),
      }));
      await its.server.ask("/v1/tubes/many/jobs", { json: { jobs } });
    }
  });
  const { get, all, putTo } = its.requests;

  describe("a list of jobs", () => {
    it("has each job of a tube once, by id, over all pages", async () => {
      const items = await all("/v1/tubes/many/jobs?limit=170");
      assert.equal(items.length, JOBS);
      const ids = items.map(({ id }) => id);
      assert.deepEqual(
        ids,
        ids.toSorted((a, b) => a - b),
      );
      assert.equal(new Set(ids).size, JOBS);
    });

    it("filters by state, text and bounds", async () => {
      assert.equal((await all("/v1/tubes/many/jobs?state=delayed&limit=1000")).length, JOBS / 3);
      const needles = await all("/v1/tubes/many/jobs?text=needle&limit=20");
      assert.equal(needles.length, JOBS / 100);
      assert.ok(needles.every(({ body }) => body.startsWith("needle ")));
      assert.equal(
        (await get("/v1/tubes/many/jobs?textBase64=bmVlZGxlIDEwNw==")).items[0].body,
        "needle 107",
      );
      assert.deepEqual(
        (await get("/v1/tubes/many/jobs?priFrom=10&priTo=12")).items.map(({ pri }: { pri: number }) => pri),
        [12, 11, 10],
      );
      assert.equal((await get("/v1/tubes/many/jobs?idFrom=5&idTo=9")).items.length, 5);
      assert.equal((await get("/v1/tubes/many/jobs?ageFrom=1000")).items.length, 0);
      assert.equal((await get("/v1/tubes/many/jobs?reservesFrom=1")).items.length, 0);
      assert.equal((await get("/v1/tubes/nothing/jobs")).items.length, 0);
    });

    it("lists the first jobs in the order of handing out", async () => {
      const ready = (await get("/v1/tubes/many/jobs?state=ready&order=next&limit=50")).items;
      const pris = ready.map(({ pri }: { pri: number }) => pri);
      assert.equal(pris.length, 50);
      assert.deepEqual(
        pris,
        pris.toSorted((a: number, b: number) => a - b),
      );
      assert.equal(pris[0], 1);
      const delayed = (await get("/v1/tubes/many/jobs?state=delayed&order=next&limit=3")).items;
      assert.deepEqual(
        delayed.map(({ delay }: { delay: number }) => delay),
        [1000, 1003, 1006],
      );
      assert.equal((await its.server.ask("/v1/tubes/many/jobs?order=next")).status, 400);
    });

    it("of all tubes covers all shards", async () => {
      for (const tube of ["list-a", "list-b", "list-c", "list-d"]) await putTo(tube, 3);
      const items = await all("/v1/jobs?limit=500");
      const tubes = new Set(items.map(({ tube }) => tube));
      for (const tube of ["many", "list-a", "list-b", "list-c", "list-d"]) assert.ok(tubes.has(tube), tube);
      assert.equal(new Set(items.map(({ id }) => id)).size, items.length);
    });

    it("shows the requested part of bodies", async () => {
      const [job] = (await get("/v1/tubes/many/jobs?limit=1&bodyMax=3")).items;
      assert.deepEqual([job.body, job.truncated], ["hay", true]);
    });

    it("shows no part of a character", async () => {
      const { id } = (await its.server.ask("/v1/tubes/characters/jobs", { json: { body: "é€😀é" } })).json;
      const parts = ["", "", "é", "é", "é", "é€", "é€", "é€", "é€", "é€😀", "é€😀", "é€😀é"];
      assert.equal(parts.length, Buffer.byteLength("é€😀é") + 1);
      for (const [bytes, part] of parts.entries()) {
        const job = await get(`/v1/jobs/${id}?bodyMax=${bytes}`);
        assert.deepEqual([job.body, job.truncated], [part, part !== "é€😀é"], `${bytes} bytes`);
      }
    });

    it("ends a page when its bodies exceed an answer, and continues behind it", async () => {
      const body = "b".repeat(65_000);
      const ids: number[] = [];
      for (let n = 0; n < 60; n++)
        ids.push((await its.server.ask("/v1/tubes/big/jobs?delay=1000", { body })).json.id);
      const path = "/v1/tubes/big/jobs?limit=1000&bodyMax=65536";
      // A page ends after 200 ms, too: on a busy machine it takes more than one try to see one that
      // its bodies have filled.
      await eventually("a page is as full as its bodies allow", async () => {
        const first = await its.server.ask(path);
        assert.ok(first.text.length < PAGE_BYTES_MAX, `${first.text.length} bytes`);
        assert.ok(first.json.cursor !== null && first.json.items.length < ids.length);
        return first.json.items.length > 30;
      });
      const items = await all(path);
      assert.deepEqual(
        items.map(({ id }) => id),
        ids,
      );
      assert.ok(items.every((item) => item.body === body));
      // Without a cursor: the jobs are all told of, with what of their bodies there is room for.
      const { items: soonest, examined } = await eventually("a page has all of them", async () => {
        const next = await its.server.ask(`${path}&state=delayed&order=next`);
        assert.ok(next.text.length < PAGE_BYTES_MAX, `${next.text.length} bytes`);
        return next.json.items.length === ids.length ? next.json : undefined;
      });
      assert.deepEqual(
        soonest.map(({ id }: { id: number }) => id),
        ids,
      );
      assert.equal(examined, ids.length);
      assert.deepEqual([soonest[0].truncated, soonest.at(-1).truncated], [false, true]);
      await its.server.ask("/v1/tubes/big", { method: "DELETE" });
    });

    it("is as long as requested, also in the order of handing out", async () => {
      const path = "/v1/tubes/many/jobs?state=ready&limit=1000&bodyMax=0";
      const { items } = await eventually("a page has as many as were asked for", async () => {
        const page = await get(`${path}&order=next`);
        return page.items.length === 1000 ? page : undefined;
      });
      assert.equal(new Set(items.map(({ id }: { id: number }) => id)).size, 1000);
    });

    it("refuses invalid cursors and unknown fields", async () => {
      for (const query of [
        "cursor=x",
        "cursor=WzAsMCww",
        "cursor=Wzk5LDBd",
        "stat=ready",
        "limit=1001",
        "text=",
        "text=a&textBase64=YQ==",
      ])
        assert.equal((await its.server.ask(`/v1/tubes/many/jobs?${query}`)).status, 400, query);
      const { json } = await its.server.ask("/v1/tubes/many/jobs?state=redy");
      assert.equal(json.detail, '"/state" must be ready or reserved or delayed or buried.');
    });
  });

  describe("a job", () => {
    it("is deleted, by force only if it is reserved", async () => {
      const [id, held] = await putTo("single", 2);
      assert.equal((await its.server.ask(`/v1/jobs/${id}`, { method: "DELETE" })).status, 204);
      assert.equal((await its.server.ask(`/v1/jobs/${id}`, { method: "DELETE" })).status, 404);
      await its.client.ask(`reserve-job ${held}`);
      const refused = await its.server.ask(`/v1/jobs/${held}`, { method: "DELETE" });
      assert.deepEqual([refused.status, refused.json.code], [409, "job-reserved"]);
      assert.equal((await its.server.ask(`/v1/jobs/${held}?force=true`, { method: "DELETE" })).status, 204);
      assert.equal((await its.client.ask(`delete ${held}`)).line, "NOT_FOUND");
    });

    it("is changed, and moved to a tube of any shard", async () => {
      const [id] = await putTo("move-0", 1);
      const to = ["move-1", "move-2", "move-3", "move-4", "move-5", "move-6", "move-7", "move-8"];
      for (const tube of to) {
        assert.equal((await its.server.ask(`/v1/jobs/${id}/move`, { json: { to: tube } })).status, 200);
        assert.equal((await get(`/v1/jobs/${id}`)).tube, tube);
      }
      assert.equal((await its.server.ask("/v1/jobs/999999/move", { json: { to: "move-1" } })).status, 404);
      assert.equal((await its.server.ask(`/v1/jobs/${id}/update`, { json: { pri: 7, ttr: 9 } })).status, 200);
      const job = await get(`/v1/jobs/${id}`);
      assert.deepEqual([job.pri, job.ttr, job.state], [7, 9, "ready"]);
      assert.equal((await its.server.ask(`/v1/jobs/${id}/update`, { json: {} })).status, 400);
      assert.equal((await its.server.ask("/v1/jobs/999999/update", { json: { pri: 1 } })).status, 404);
    });

    it("is kicked, and taken from its holder as by its ttr", async () => {
      const [id] = await putTo("act", 1, { delay: 1000 });
      assert.equal((await its.server.ask(`/v1/jobs/${id}/kick`, { method: "POST" })).status, 200);
      assert.equal((await its.server.ask(`/v1/jobs/${id}/kick`, { method: "POST" })).json.code, "job-state");
      assert.equal(
        (await its.server.ask(`/v1/jobs/${id}/release`, { method: "POST" })).json.code,
        "job-state",
      );
      await its.client.ask("watch act");
      assert.match((await its.client.ask("reserve-with-timeout 0")).line, /^RESERVED/);
      assert.match((await get(`/v1/jobs/${id}`)).holder, /^0\.[0-9]+$/);
      assert.equal((await its.server.ask(`/v1/jobs/${id}/release`, { method: "POST" })).status, 200);
      const job = await get(`/v1/jobs/${id}`);
      assert.deepEqual([job.state, job.timeouts, job.holder], ["ready", 1, null]);
      assert.equal((await its.client.ask(`delete ${id}`)).line, "DELETED");
    });
  });
});
