// Tests of the options of a put over HTTP: unique keys, expiry and groups, as put-in-tube has them,
// how jobs show them, and lists by key and group.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { pack } from "msgpackr";
import { eventually } from "../support/eventually.ts";
import { type HttpAnswer, type HttpServer, startHttpServer } from "../support/server/http-server.ts";

describe("options of a put over HTTP", () => {
  let server: HttpServer;
  before(async () => {
    server = await startHttpServer("--shards", "2", "--acceptors", "1");
  });
  after(() => server.process.stop());

  const put = (tube: string, json: unknown, query = ""): Promise<HttpAnswer> =>
    server.ask(`/v1/tubes/${tube}/jobs${query}`, { json });
  const job = async (id: number) => (await server.ask(`/v1/jobs/${id}`)).json;
  const bodies = async (path: string): Promise<string[]> =>
    (await server.ask(path)).json.items.map(({ body }: { body: string }) => body);

  it("make a job unique, and name the one that has the key", async () => {
    const first = await put("mails", { body: "a", unique: "welcome:17", uniqueFor: 3600 });
    assert.equal(first.status, 201);
    const second = await put("mails", { body: "b", unique: "welcome:17" });
    assert.equal(second.status, 200);
    assert.deepEqual(second.json, { id: first.json.id, duplicate: true });
    assert.equal(second.headers["location"], `/v1/jobs/${first.json.id}`);
    assert.equal((await job(first.json.id)).unique, "welcome:17");
    // The key outlives the job that a worker has done.
    const [{ lease }] = (await server.ask("/v1/reserve", { json: { tubes: ["mails"] } })).json.jobs;
    assert.equal((await server.ask(`/v1/leases/${lease}/delete`, { method: "POST" })).status, 200);
    assert.equal((await put("mails", { body: "c", unique: "welcome:17" })).json.duplicate, true);
    // It outlives a job that an operator deletes or clears away, too.
    const other = { body: "d", unique: "welcome:18", uniqueFor: 3600 };
    const path = async (): Promise<string> => `/v1/jobs/${(await put("mails", other)).json.id}`;
    const deleted = await path();
    assert.equal((await server.ask(deleted, { method: "DELETE" })).status, 204);
    assert.equal(await path(), deleted);
    const held = { body: "e", unique: "welcome:19", uniqueFor: 3600 };
    const { id } = (await put("mails", held)).json;
    assert.equal((await server.ask("/v1/reserve", { json: { tubes: ["mails"] } })).json.jobs[0].id, id);
    assert.equal((await server.ask(`/v1/jobs/${id}?force=true`, { method: "DELETE" })).status, 204);
    assert.deepEqual((await put("mails", held)).json, { id, duplicate: true });
    const cleared = { body: "f", unique: "welcome:20", uniqueFor: 3600 };
    const first20 = (await put("mails", cleared)).json.id;
    await server.ask("/v1/tubes/mails/clear", { json: { states: ["ready"] } });
    assert.deepEqual((await put("mails", cleared)).json, { id: first20, duplicate: true });
    // Any other tube has keys of its own; so do bodies that come as they are.
    const raw = { body: "raw", headers: { "content-type": "text/plain" } };
    const faxes = "/v1/tubes/faxes/jobs?unique=welcome:17&uniqueUntil=reserve";
    assert.equal((await server.ask(faxes, raw)).status, 201);
    assert.equal((await server.ask(faxes, raw)).json.duplicate, true);
    await server.ask("/v1/reserve", { json: { tubes: ["faxes"] } });
    assert.equal((await server.ask(faxes, raw)).status, 201);
  });

  it("change the job that has the key, and say how", async () => {
    const first = await put("index", { body: "a", unique: "doc:7", delay: 100, pri: 9 });
    const again = async (json: object): Promise<object> =>
      (await put("index", { body: "b", unique: "doc:7", ...json })).json;
    const { id } = first.json;
    assert.deepEqual(await again({ onDuplicate: "keep" }), { id, duplicate: true, outcome: "kept" });
    assert.deepEqual(await again({ onDuplicate: "escalate", pri: 1 }), {
      id,
      duplicate: true,
      outcome: "escalated",
    });
    assert.deepEqual(await again({ onDuplicate: "debounce", delay: 200, debounceMax: 150 }), {
      id,
      duplicate: true,
      outcome: "debounced",
    });
    assert.deepEqual(await again({ onDuplicate: "replace" }), { id, duplicate: true, outcome: "replaced" });
    const { body, state } = await job(id);
    assert.deepEqual([body, state], ["b", "ready"]);
    assert.match((await put("index", { body: "a", onDuplicate: "keep" })).json.detail, /need a key/);
    const wrong = await put("index", { body: "a", unique: "k", onDuplicate: "later" });
    assert.equal(wrong.status, 400);
    assert.match(wrong.json.detail, /onDuplicate/);
  });

  it("keep context with a job", async () => {
    const meta = { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", tenant: "köln:1" };
    const { id } = (await put("traced", { body: "a", meta })).json;
    assert.deepEqual((await job(id)).meta, meta);
    assert.deepEqual((await job((await put("traced", { body: "a" })).json.id)).meta, {});
    for (const wrong of [{ "a b": "c" }, { a: "b c" }, { a: "x".repeat(199) }, { a: 1 }])
      assert.equal((await put("traced", { body: "a", meta: wrong })).status, 400, JSON.stringify(wrong));
  });

  it("keep as much context as the protocol, and refuse more by its size", async () => {
    const five = Object.fromEntries(["a", "b", "c", "d", "e"].map((name) => [name, "x".repeat(198)]));
    const whole = { ...five, f: "123456" };
    const { id } = (await put("full", { body: "a", meta: whole })).json;
    assert.deepEqual((await job(id)).meta, whole);
    const longer = await put("full", { body: "a", meta: { ...five, f: "1234567" } });
    assert.equal(longer.status, 400);
    assert.match(longer.json.detail, /"\/meta" and the other options .* at most 1020 bytes .* not 1021/);
    const { f, ...less } = whole;
    assert.equal((await put("full", { body: "a", meta: less, weight: 3 })).status, 201);
    const both = await put("full", { body: "a", meta: less, weight: 3, group: "g" });
    assert.match(both.json.detail, /not 1023/);
  });

  it("give the context to the worker that reserves the job", async () => {
    const meta = { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", tenant: "köln" };
    const full = Object.fromEntries(["a", "b", "c", "d", "e"].map((name) => [name, "x".repeat(198)]));
    const tube = `/${"l".repeat(199)}`;
    for (const each of [meta, {}, full]) await put("handed", { body: "a", meta: each });
    const long = (
      await server.ask(`/v1/tubes/${encodeURIComponent(tube)}/jobs`, { json: { body: "b", meta: full } })
    ).json;
    const { jobs } = (await server.ask("/v1/reserve", { json: { tubes: ["handed"], max: 3 } })).json;
    assert.deepEqual(
      jobs.map((each: { tube: string; meta: object }) => [each.tube, each.meta]),
      [meta, {}, full].map((each) => ["handed", each]),
    );
    const one = (await server.ask(`/v1/jobs/${long.id}/reserve`, { method: "POST" })).json;
    assert.deepEqual([one.tube, one.meta, one.body], [tube, full, "b"]);
  });

  it("in a batch hold for each job, and the query string fills what is left out", async () => {
    const { json } = await put(
      "batch",
      {
        jobs: [
          { body: "0", unique: "a", pri: 5 },
          { body: "1", unique: "a" },
          { body: "2", unique: "b c" },
          { body: "3", group: "g\u00fc", weight: 3, cost: 4, ttl: 99.5 },
        ],
      },
      "?pri=7&group=all",
    );
    assert.equal(json.failed, 1);
    const [{ id }, known, refused, last] = json.results;
    assert.deepEqual(known, { id, duplicate: true });
    assert.match(refused.detail, /"\/unique" must be 1 to 200 bytes/);
    const [one, four] = [await job(id), await job(last.id)];
    assert.deepEqual([one.pri, one.group, one.weight, one.expiresIn], [5, "all", 1, null]);
    assert.deepEqual([four.pri, four.group, four.weight, four.unique, four.cost], [7, "g\u00fc", 3, null, 4]);
    assert.ok(four.expiresIn > 90 && four.expiresIn <= 99.5);
  });

  it("let a job expire, and groups take turns", async () => {
    const { id } = (await put("short", { body: "x", ttl: 0.001 })).json;
    await eventually("it has expired", async () => (await server.ask(`/v1/jobs/${id}`)).status === 404);
    for (const [body, group] of [
      ["loud 1", "loud"],
      ["loud 2", "loud"],
      ["quiet", "quiet"],
    ])
      await put("sync", { body, group });
    const order = [];
    for (let n = 0; n < 3; n++) {
      const { jobs } = (await server.ask("/v1/reserve", { json: { tubes: ["sync"] } })).json;
      order.push(jobs[0].body);
    }
    assert.deepEqual(order, ["loud 1", "quiet", "loud 2"]);
  });

  it("are filters of lists and of changes", async () => {
    for (const [body, unique, group] of [
      ["a", "k1", "acme"],
      ["b", "k2", "acme"],
      ["c", "k3", "gl\u00fc"],
    ])
      await put("filters", { body, unique, group });
    await put("filters", { body: "d" });
    await put("filters-too", { body: "e", unique: "k1", group: "acme" });
    const list = (query: string) => bodies(`/v1/tubes/filters/jobs?${query}`);
    assert.deepEqual(await list("group=acme"), ["a", "b"]);
    assert.deepEqual(await list(`group=${encodeURIComponent("gl\u00fc")}`), ["c"]);
    assert.deepEqual(await list("unique=k2"), ["b"]);
    assert.deepEqual(await list("unique=k2&group=other"), []);
    assert.deepEqual(await list("unique=k2&state=ready&order=next"), ["b"]);
    assert.deepEqual((await bodies("/v1/jobs?unique=k1&group=acme")).toSorted(), ["a", "e"]);
    const clear = { states: ["ready"], where: { group: "acme" } };
    const cleared = await server.ask("/v1/tubes/filters/clear", { json: clear });
    assert.deepEqual(cleared.json, { affected: 2 });
    assert.deepEqual(await list(""), ["c", "d"]);
  });

  it("that are wrong are refused with their field, and nothing is put", async () => {
    const refused: [json: object, said: RegExp][] = [
      [{ pri: -1 }, /"\/pri" must be at least 0, not -1/],
      [{ ttr: "60" }, /"\/ttr" must be a whole number, not "60"/],
      [{ bdy: "x" }, /"\/bdy" is unknown; allowed: pri, .*unique/],
      [{ unique: "" }, /"\/unique" must/],
      [{ unique: "a b" }, /"\/unique" must be 1 to 200 bytes of UTF-8 without blanks/],
      [{ unique: "a\r\nstats" }, /"\/unique" must/],
      [{ unique: "a\u007f" }, /"\/unique" must/],
      [{ unique: "\ud800" }, /"\/unique" must/],
      [{ unique: "\u00fc".repeat(101) }, /"\/unique" must be 1 to 200 bytes/],
      [{ unique: 5 }, /"\/unique" must be text/],
      [{ group: "a\tb" }, /"\/group" must/],
      [{ uniqueFor: 60 }, /need a key in "\/unique"/],
      [{ unique: "a", uniqueFor: 0.0004 }, /"\/uniqueFor" must be 0 or at least 0.001/],
      [{ unique: "a", uniqueUntil: "never" }, /"\/uniqueUntil" must be delete or reserve/],
      [{ ttl: 0.0004 }, /"\/ttl" must be 0 or at least 0.001, not 0.0004/],
      [{ ttl: -1 }, /"\/ttl" must be at least 0/],
      [{ weight: 0 }, /"\/weight" must be at least 1/],
      [{ weight: 1001 }, /"\/weight" must be at most 1000/],
      [{ cost: 1001 }, /"\/cost" must be at most 1000/],
    ];
    for (const [json, said] of refused) {
      const { status, json: problem } = await put("refused", { body: "x", ...json });
      assert.equal(status, 400, JSON.stringify(json));
      assert.match(problem.detail, said);
    }
    for (const [query, said] of [
      ["unique=a%20b", /"\/unique" must/],
      ["weight=many", /"\/weight" must be a whole number/],
      ["uniqueFor=5", /need a key/],
    ] as const) {
      const answer = await server.ask(`/v1/tubes/refused/jobs?${query}`, { body: "delete 1\r\n" });
      assert.equal(answer.status, 400, query);
      assert.match(answer.json.detail, said);
    }
    assert.deepEqual(await bodies("/v1/tubes/refused/jobs"), []);
  });

  it("work with the longest keys, in MessagePack, and with a body that comes in pieces", async () => {
    const long = "\u00fc".repeat(100);
    const msgpack = { "content-type": "application/vnd.msgpack" };
    const packed = { body: pack({ body: "x", unique: long, group: long, uniqueFor: 4294967295, ttl: 1e9 }) };
    const { json, status } = await server.ask("/v1/tubes/long/jobs", { ...packed, headers: msgpack });
    assert.equal(status, 201);
    const { unique, group } = await job(json.id);
    assert.deepEqual([unique, group], [long, long]);
    const big = { body: Buffer.alloc(60_000, 120), headers: { "content-type": "text/plain" } };
    const path = `/v1/tubes/long/jobs?unique=big&group=${encodeURIComponent(long)}`;
    const first = (await server.ask(path, big)).json;
    assert.equal((await job(first.id)).bytes, 60_000);
    assert.deepEqual((await server.ask(path, big)).json, { id: first.id, duplicate: true });
  });
});
