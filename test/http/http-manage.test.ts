// Tests of browsing jobs, and of operations on tubes and jobs over HTTP.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";

const JOBS = 3000;
/** More than comes with what is told of a job. */
const BIG_BYTES = 200_000;
/**
 * What a page of long bodies has at most: 2 MiB of them, a last one, and what is told of the jobs.
 */
const PAGE_BYTES_MAX = 2.2 * 1024 * 1024;

describe("browsing and managing over HTTP", () => {
  let server: HttpServer;
  let client: WireClient;

  before(async () => {
    server = await startHttpServer("--shards", "3", "--acceptors", "1", "-z", `${BIG_BYTES}`);
    client = await WireClient.connect(server.process.address);
    for (let from = 0; from < JOBS; from += 1000) {
      const jobs = Array.from({ length: 1000 }, (_, n) => ({
        body: (from + n) % 100 === 7 ? `needle ${from + n}` : `hay ${from + n}`,
        pri: JOBS - from - n,
        ...((from + n) % 3 === 0 ? { delay: 1000 + from + n } : {}),
      }));
      await server.ask("/v1/tubes/many/jobs", { json: { jobs } });
    }
  });
  after(async () => {
    client.socket.destroy();
    await server.process.stop();
  });

  const get = async (path: string) => (await server.ask(path)).json;
  /** All items of a list, page by page. */
  const all = async (
    path: string,
  ): Promise<{ id: number; body: string; state: string; tube: string; pri: number }[]> => {
    const items = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const page = await get(`${path}${cursor === "" ? "" : `&cursor=${cursor}`}`);
      items.push(...page.items);
      cursor = page.cursor;
    }
    return items;
  };
  /** What is known afterwards of the last change: how many jobs, and how it was answered. */
  const lastChange = async (): Promise<[affected: number, status: number]> => {
    const [{ affected, status }] = (await get("/v1/audit")).items;
    return [affected, status];
  };
  const putTo = async (tube: string, count: number, more: object = {}): Promise<number[]> => {
    const jobs = Array.from({ length: count }, (_, n) => ({ body: `${n}`, ...more }));
    const { results } = (await server.ask(`/v1/tubes/${tube}/jobs`, { json: { jobs } })).json;
    return results.map(({ id }: { id: number }) => id);
  };

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
      assert.equal((await server.ask("/v1/tubes/many/jobs?order=next")).status, 400);
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

    it("ends a page when its bodies exceed an answer, and continues behind it", async () => {
      const body = "b".repeat(65_000);
      const ids: number[] = [];
      for (let n = 0; n < 60; n++)
        ids.push((await server.ask("/v1/tubes/big/jobs?delay=1000", { body })).json.id);
      const path = "/v1/tubes/big/jobs?limit=1000&bodyMax=65536";
      // A page ends after 200 ms, too: on a busy machine it takes more than one try to see one that
      // its bodies have filled.
      await eventually("a page is as full as its bodies allow", async () => {
        const first = await server.ask(path);
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
        const next = await server.ask(`${path}&state=delayed&order=next`);
        assert.ok(next.text.length < PAGE_BYTES_MAX, `${next.text.length} bytes`);
        return next.json.items.length === ids.length ? next.json : undefined;
      });
      assert.deepEqual(
        soonest.map(({ id }: { id: number }) => id),
        ids,
      );
      assert.equal(examined, ids.length);
      assert.deepEqual([soonest[0].truncated, soonest.at(-1).truncated], [false, true]);
      await server.ask("/v1/tubes/big", { method: "DELETE" });
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
        assert.equal((await server.ask(`/v1/tubes/many/jobs?${query}`)).status, 400, query);
      const { json } = await server.ask("/v1/tubes/many/jobs?state=redy");
      assert.equal(json.detail, '"/state" must be ready or reserved or delayed or buried.');
    });
  });

  describe("a tube", () => {
    it("is paused and resumed", async () => {
      await putTo("paused", 1);
      assert.equal(
        (await server.ask("/v1/tubes/paused/pause", { method: "PUT", json: { seconds: 1000 } })).status,
        200,
      );
      assert.equal((await get("/v1/tubes/paused")).pause.seconds, 1000);
      assert.deepEqual(
        (await server.ask("/v1/reserve", { json: { tubes: ["paused"], wait: 0 } })).json.jobs,
        [],
      );
      assert.equal((await server.ask("/v1/tubes/paused/pause", { method: "DELETE" })).status, 200);
      assert.equal(
        (await server.ask("/v1/reserve", { json: { tubes: ["paused"], wait: 0 } })).json.jobs.length,
        1,
      );
      assert.equal(
        (await server.ask("/v1/tubes/nothing/pause", { method: "PUT", json: { seconds: 1 } })).status,
        404,
      );
    });

    it("kicks jobs, and counts them before on request", async () => {
      await putTo("kicked", 1000, { delay: 1000 });
      const kick = (json?: object) =>
        server.ask("/v1/tubes/kicked/kick", { method: "POST", ...(json === undefined ? {} : { json }) });
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
      const { jobs } = (await server.ask("/v1/reserve", { json: { tubes: ["cleared"], wait: 0, max: 5 } }))
        .json;
      const clear = async (json: object) => (await server.ask("/v1/tubes/cleared/clear", { json })).json;
      assert.deepEqual(await clear({ states: ["ready"], where: { idTo: ids[9] } }), { affected: 5 });
      assert.deepEqual(await clear({ states: ["delayed"], max: 20 }), { affected: 20 });
      assert.deepEqual(await clear({ states: ["ready", "delayed", "buried"], dryRun: true }), {
        affected: 70,
      });
      const gone = await server.ask("/v1/tubes/cleared", { method: "DELETE" });
      assert.deepEqual(gone.json, { deleted: 70, exists: true, users: 0, watchers: 1 });
      const { reserved } = (await get("/v1/tubes/cleared")).jobs;
      assert.equal(reserved, 5);
      assert.equal((await server.ask("/v1/tubes/cleared?force=true", { method: "DELETE" })).json.deleted, 5);
      assert.equal((await server.ask(`/v1/leases/${jobs[0].lease}/delete`, { method: "POST" })).status, 410);
    });

    it("changes jobs, and moves them with their ids to tubes of any shard", async () => {
      const ids = await putTo("bulk-0", 20);
      const update = { states: ["ready"], where: { idTo: ids[9] }, set: { pri: 5, delay: 1000 } };
      assert.deepEqual((await server.ask("/v1/tubes/bulk-0/update", { json: update })).json, {
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
        assert.deepEqual((await server.ask(path, { json: { ...json, dryRun: true } })).json, {
          affected: 20,
        });
        assert.deepEqual((await server.ask(path, { json })).json, { affected: 20 });
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
        assert.equal((await client.ask(`set-tube ${to} max-jobs=5`)).line, "SET");
        await putTo(`wide-${to}`, 8);
        const move = { json: { states: ["ready"], to } };
        const { status, json } = await server.ask(`/v1/tubes/wide-${to}/move`, move);
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
        server.ask("/v1/tubes/once/clear", {
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
        server.ask("/v1/tubes/gone-once/clear", {
          json: { states: ["ready"] },
          headers: { "idempotency-key": "clear-2" },
        });
      assert.deepEqual((await clear()).json, { affected: 3 });
      assert.equal((await server.ask("/v1/tubes/gone-once")).status, 404);
      assert.deepEqual((await clear()).json, { affected: 3 });
    });
  });

  describe("copies", () => {
    const copy = (tube: string, body: object) =>
      server.ask(`/v1/tubes/${tube}/move`, { json: { copy: true, ...body } });

    it("are new jobs in any tube, on any shard, and the originals stay", async () => {
      const ids = await putTo("originals", 20, { pri: 7, ttr: 99 });
      await putTo("originals", 3, { delay: 1000, pri: 8 });
      const big = Buffer.alloc(BIG_BYTES, "0123456789");
      await server.ask("/v1/tubes/originals/jobs?pri=9", { body: big });
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
        const { bytes } = await server.ask(`/v1/jobs/${items.at(-1)!.id}/body`);
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
      await client.ask("set-tube narrow max-jobs=2");
      const { status, json } = await copy("doubled", { states: ["ready"], to: "narrow" });
      assert.deepEqual([status, json.code], [409, "tube-full"]);
      assert.match(json.detail, /^After 2 copies/);
      assert.deepEqual(await lastChange(), [2, 409]);
      assert.equal((await server.ask("/v1/tubes/narrow/jobs", { body: "more" })).json.code, "tube-full");
    });

    it("end with a refused put, and report their number", async () => {
      await server.ask("/v1/server/drain", { method: "PUT" });
      const { status, json } = await copy("doubled", { states: ["ready"], to: "refused" });
      await server.ask("/v1/server/drain", { method: "DELETE" });
      assert.deepEqual([status, json.code], [503, "draining"]);
      assert.match(json.detail, /^After 0 copies a put was refused/);
      const task = (await get("/v1/tasks")).items.at(-1);
      assert.deepEqual([task.act, task.state], ["copy", "failed"]);
      assert.match(task.fault, /DRAINING/);
    });
  });

  it("drains the server, and ends the drain", async () => {
    assert.deepEqual((await server.ask("/v1/server/drain", { method: "PUT" })).json, { draining: true });
    const refused = await server.ask("/v1/tubes/drained/jobs", { json: { body: "a" } });
    assert.deepEqual(
      [refused.status, refused.json.code, refused.headers["retry-after"]],
      [503, "draining", "1"],
    );
    assert.equal((await server.ask("/readyz?for=put")).status, 503);
    assert.equal((await server.ask("/readyz")).status, 200);
    await server.ask("/v1/server/drain", { method: "DELETE" });
    assert.equal((await server.ask("/v1/tubes/drained/jobs", { json: { body: "a" } })).status, 201);
  });

  it("tasks keep their results, and a finished one can't be cancelled", async () => {
    await putTo("task", 10);
    await server.ask("/v1/tubes/task/clear", { json: { states: ["ready"] } });
    const { items } = await get("/v1/tasks");
    const task = items.at(-1);
    assert.deepEqual(
      [task.act, task.tube, task.affected, task.state, task.progress],
      ["delete", "task", 10, "done", 1],
    );
    assert.equal((await server.ask(`/v1/tasks/${task.id}`, { method: "DELETE" })).json.state, "done");
    assert.equal((await server.ask("/v1/tasks/t999")).json.code, "task-not-found");
  });

  describe("a job", () => {
    it("is deleted, by force only if it is reserved", async () => {
      const [id, held] = await putTo("single", 2);
      assert.equal((await server.ask(`/v1/jobs/${id}`, { method: "DELETE" })).status, 204);
      assert.equal((await server.ask(`/v1/jobs/${id}`, { method: "DELETE" })).status, 404);
      await client.ask(`reserve-job ${held}`);
      const refused = await server.ask(`/v1/jobs/${held}`, { method: "DELETE" });
      assert.deepEqual([refused.status, refused.json.code], [409, "job-reserved"]);
      assert.equal((await server.ask(`/v1/jobs/${held}?force=true`, { method: "DELETE" })).status, 204);
      assert.equal((await client.ask(`delete ${held}`)).line, "NOT_FOUND");
    });

    it("is changed, and moved to a tube of any shard", async () => {
      const [id] = await putTo("move-0", 1);
      const to = ["move-1", "move-2", "move-3", "move-4", "move-5", "move-6", "move-7", "move-8"];
      for (const tube of to) {
        assert.equal((await server.ask(`/v1/jobs/${id}/move`, { json: { to: tube } })).status, 200);
        assert.equal((await get(`/v1/jobs/${id}`)).tube, tube);
      }
      assert.equal((await server.ask("/v1/jobs/999999/move", { json: { to: "move-1" } })).status, 404);
      assert.equal((await server.ask(`/v1/jobs/${id}/update`, { json: { pri: 7, ttr: 9 } })).status, 200);
      const job = await get(`/v1/jobs/${id}`);
      assert.deepEqual([job.pri, job.ttr, job.state], [7, 9, "ready"]);
      assert.equal((await server.ask(`/v1/jobs/${id}/update`, { json: {} })).status, 400);
      assert.equal((await server.ask("/v1/jobs/999999/update", { json: { pri: 1 } })).status, 404);
    });

    it("is kicked, and taken from its holder as by its ttr", async () => {
      const [id] = await putTo("act", 1, { delay: 1000 });
      assert.equal((await server.ask(`/v1/jobs/${id}/kick`, { method: "POST" })).status, 200);
      assert.equal((await server.ask(`/v1/jobs/${id}/kick`, { method: "POST" })).json.code, "job-state");
      assert.equal((await server.ask(`/v1/jobs/${id}/release`, { method: "POST" })).json.code, "job-state");
      await client.ask("watch act");
      assert.match((await client.ask("reserve-with-timeout 0")).line, /^RESERVED/);
      assert.match((await get(`/v1/jobs/${id}`)).holder, /^0\.[0-9]+$/);
      assert.equal((await server.ask(`/v1/jobs/${id}/release`, { method: "POST" })).status, 200);
      const job = await get(`/v1/jobs/${id}`);
      assert.deepEqual([job.state, job.timeouts, job.holder], ["ready", 1, null]);
      assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
    });
  });

  it("connections show what they use, watch and hold, and can be closed", async () => {
    const other = await WireClient.connect(server.process.address);
    await other.ask("use theirs");
    other.send("put 0 0 60 1\r\na\r\n");
    await other.readReply();
    await other.ask("watch theirs");
    const { line } = await other.ask("reserve-with-timeout 0");
    const id = Number(line.split(" ")[1]);
    const { items } = await get("/v1/connections?tube=theirs");
    assert.equal(items.length, 1);
    const [connection] = items;
    assert.deepEqual(
      [connection.uses, connection.watches, connection.held, connection.holds[0].id],
      ["theirs", ["default", "theirs"], 1, id],
    );
    assert.deepEqual([connection.producer, connection.worker, connection.waiting], [true, true, false]);
    assert.equal(connection.address, `127.0.0.1:${other.socket.localPort}`);
    assert.deepEqual((await get("/v1/server")).listeners, [connection.listener]);
    assert.ok(connection.idle >= 0 && connection.idle <= connection.age, `${connection.idle}`);
    const asked = `listener=${connection.listener}&address=${connection.address}&sort=idle`;
    assert.equal((await get(`/v1/connections?${asked}`)).matched, 1);
    assert.equal((await get("/v1/connections?listener=nowhere")).matched, 0);
    assert.equal((await get("/v1/connections?address=10.0.0.1:")).matched, 0);
    assert.ok(
      connection.id.startsWith(`${(await get(`/v1/jobs/${id}`)).holder}.`),
      "the job names its holder so",
    );
    assert.equal((await get(`/v1/connections/${connection.id}`)).held, 1);
    assert.equal((await get("/v1/connections?state=holding")).matched, 1);
    other.send("reserve\r\n");
    await eventually("it waits", async () => (await get("/v1/connections?state=waiting")).matched === 1);
    const closed = await server.ask(`/v1/connections/${connection.id}`, { method: "DELETE" });
    assert.equal(closed.status, 202);
    assert.match((await other.readReply()).line, /^(TIMED_OUT|DEADLINE_SOON)$/);
    await eventually("its job is ready", async () => (await get(`/v1/jobs/${id}`)).state === "ready");
    assert.equal((await server.ask(`/v1/connections/${connection.id}`, { method: "DELETE" })).status, 404);
    assert.equal((await server.ask("/v1/connections/x")).json.code, "connection-not-found");
    other.socket.destroy();
  });

  it("ended connections are listed with the reason, the last first", async () => {
    const open = async (tube: string): Promise<{ socket: WireClient; peer: string }> => {
      const socket = await WireClient.connect(server.process.address);
      await socket.ask(`use ${tube}`);
      await socket.ask(`watch ${tube}`);
      return { socket, peer: `127.0.0.1:${socket.socket.localPort}` };
    };
    const [quits, ends, isClosed] = [
      await open("end-quit"),
      await open("end-client"),
      await open("end-admin"),
    ];
    quits.socket.send("quit\r\n");
    await once(quits.socket.socket, "end");
    ends.socket.socket.end();
    await once(ends.socket.socket, "end");
    const [shown] = (await get("/v1/connections?tube=end-admin")).items;
    assert.deepEqual([shown.closedFor, shown.reason], [null, null]);
    const closed = once(isClosed.socket.socket, "end");
    assert.equal((await server.ask(`/v1/connections/${shown.id}`, { method: "DELETE" })).status, 202);
    await closed;
    const { items } = await get("/v1/connections?state=closed&limit=3");
    assert.deepEqual(
      items.map(({ address, uses, watches, reason }: Record<string, unknown>) => [
        ...[address, uses, reason],
        watches,
      ]),
      [
        [isClosed.peer, "end-admin", "admin", ["default", "end-admin"]],
        [ends.peer, "end-client", "client", ["default", "end-client"]],
        [quits.peer, "end-quit", "quit", ["default", "end-quit"]],
      ],
    );
    assert.ok(
      items.every(({ closedFor, age }: { closedFor: number; age: number }) => closedFor >= 0 && age >= 0),
    );
    const some = await get("/v1/connections?state=closed&tube=end-client");
    assert.equal(some.matched, 1);
    const there = `listener=${some.items[0].listener}&address=${ends.peer}`;
    assert.equal((await get(`/v1/connections?state=closed&${there}`)).matched, 1);
    const counted = /connections_closed_total\{reason="quit"\} (\d+)/.exec(
      (await server.ask("/metrics?tubes=none")).text,
    );
    assert.ok(Number(counted?.[1]) >= 1, "metrics count it");
    assert.equal(some.items[0].id.split(".").length, 3);
    // A client that dies: its socket is reset.
    const dies = await open("end-reset");
    dies.socket.socket.resetAndDestroy();
    const gone = await eventually("the reset connection has ended", async () => {
      const page = await get("/v1/connections?state=closed&tube=end-reset");
      return page.items[0];
    });
    assert.ok(["error", "client"].includes(gone.reason), gone.reason);
  });

  it("a large clear is a task with progress, can be cancelled, and delays no other client", async () => {
    for (let put = 0; put < 10; put++) await putTo("huge", 1000, { body: "x".repeat(2000) });
    // A text that is in no body: all of 60 MB are looked through.
    const began = server.ask("/v1/tubes/huge/clear", {
      json: { states: ["ready"], where: { text: "nothing" } },
    });
    const task = await eventually("the task runs or is over", async () => {
      const { items } = await get("/v1/tasks");
      return items.find(({ tube }: { tube: string }) => tube === "huge");
    });
    assert.match((await client.ask("stats-tube huge")).line, /^OK/);
    const ended = (await server.ask(`/v1/tasks/${task.id}`, { method: "DELETE" })).json;
    assert.ok(["cancelled", "done"].includes(ended.state));
    assert.equal((await began).status, 200);
    assert.equal((await get("/v1/tubes/huge")).jobs.ready, 10_000);
  });
});
