// Tests of schedules over HTTP.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { pack } from "msgpackr";
import { eventually } from "../../support/eventually.ts";
import { temporaryFolder } from "../../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../../support/server/guarded-server.ts";
import { type HttpAnswer, type HttpServer, startHttpServer } from "../../support/server/http-server.ts";

describe("schedules over HTTP", () => {
  let server: HttpServer;
  before(async () => {
    server = await startHttpServer("--shards", "3", "--acceptors", "1");
  });
  after(() => server.process.stop());

  const ask = (path: string, options: object = {}): Promise<HttpAnswer> =>
    server.ask(`/v1/schedules${path}`, options);
  const set = (name: string, json: object): Promise<HttpAnswer> =>
    ask(`/${encodeURIComponent(name)}`, { method: "PUT", json });
  const post = (path: string): Promise<HttpAnswer> => ask(path, { method: "POST" });

  it("are set, shown, replaced and removed", async () => {
    const asked = {
      tube: "reports",
      cron: "30 2 * * MON-FRI",
      tz: "Europe/Berlin",
      missed: "all",
      overlap: "skip",
      ...{ pri: 7, delay: 1.5, ttr: 90, ttl: 3600, group: "größe", weight: 3, meta: { tenant: "köln" } },
    };
    const { status, json } = await set("nächtlich/1", { ...asked, body: "é\n" });
    assert.equal(status, 200);
    const { next, nextRuns, ...one } = json;
    assert.deepEqual(one, {
      ...asked,
      ...{ name: "nächtlich/1", every: null, paused: false, last: null, fired: 0, runs: 0, missedTicks: 0 },
      ...{ skipped: 0 },
      ...{ duplicates: 0, refusals: 0, lastRefusal: null, bytes: 3, body: "é\n", truncated: false },
    });
    assert.equal(nextRuns.length, 5);
    assert.equal(nextRuns[0], next);
    assert.deepEqual((await ask(`/${encodeURIComponent("nächtlich/1")}`)).json, json);
    const replaced = (await set("nächtlich/1", { tube: "reports", every: 3600.5, json: { a: 1 } })).json;
    assert.deepEqual(
      [replaced.cron, replaced.every, replaced.group, replaced.meta],
      [null, 3600.5, null, {}],
    );
    await set("named", { tube: "reports", every: 60, body: "x", group: "none" });
    assert.equal((await ask("/named")).json.group, "none");
    await set("named", { tube: "reports", every: 60, body: "x", missed: "none" });
    assert.equal((await ask("/named")).json.missed, "none");
    assert.equal((await ask("/named", { method: "DELETE" })).status, 204);
    const removed = await ask("/-?name=n%C3%A4chtlich/1", { method: "DELETE" });
    assert.equal(removed.status, 204);
    const gone = await ask("/-?name=n%C3%A4chtlich/1");
    assert.deepEqual([gone.status, gone.json.code], [404, "schedule-not-found"]);
    const [change] = (await server.ask("/v1/audit")).json.items;
    assert.deepEqual([change.method, change.route], ["DELETE", "/v1/schedules/:name"]);
  });

  it("keep a json as it is written, and bytes as they are", async () => {
    const raw = '{"tube":"exact","cron":"@yearly","json": {"a":12345678901234567890, "b":1.0}}';
    await ask("/exact", { method: "PUT", body: raw, headers: { "content-type": "application/json" } });
    assert.equal((await ask("/exact")).json.body, '{"a":12345678901234567890, "b":1.0}');
    const bytes = pack({ tube: "exact", every: 60, body: Buffer.from([0, 255]) });
    const type = { "content-type": "application/msgpack" };
    assert.equal((await ask("/exact", { method: "PUT", body: bytes, headers: type })).status, 200);
    assert.equal((await ask("/exact")).json.bodyBase64, "AP8=");
    const long = (await set("exact", { tube: "exact", every: 60, body: "x".repeat(65_535) })).json;
    assert.deepEqual([long.bytes, long.body.length, long.truncated], [65_535, 4096, true]);
    assert.equal((await set("exact", { tube: "exact", every: 60, body: "x".repeat(65_536) })).status, 413);
  });

  it("put jobs now, and at their times", async () => {
    await set("tick", { tube: "ticks", every: 1, body: "tick" });
    const run = await post("/tick/run");
    assert.equal(run.status, 201);
    assert.equal(run.headers["location"], `/v1/jobs/${run.json.id}`);
    const ids: number[] = [];
    while (ids.length < 2) {
      const { jobs } = (await server.ask("/v1/reserve", { json: { tubes: ["ticks"] } })).json;
      ids.push(...jobs.map(({ id }: { id: number }) => id));
    }
    assert.equal(ids[0], run.json.id);
    const one = (await ask("/tick")).json;
    assert.ok(one.fired >= 1 && one.runs === 1 && Date.parse(one.last) <= Date.now());
    assert.deepEqual([(await post("/tick/pause")).json, (await ask("/tick")).json.paused], [{}, true]);
    assert.deepEqual([(await post("/tick/resume")).json, (await ask("/tick")).json.paused], [{}, false]);
    await post("/tick/pause");
    await server.ask("/v1/settings/ticks", { method: "PUT", json: { maxJobs: 1 } });
    const full = await post("/tick/run");
    assert.deepEqual([full.status, full.json.code], [409, "tube-full"]);
    for (const what of ["run", "pause", "resume"]) assert.equal((await post(`/unknown/${what}`)).status, 404);
    assert.equal((await ask("/unknown", { method: "DELETE" })).status, 404);
  });

  it("are listed by name, page by page, or of a tube", async () => {
    const names = Array.from({ length: 23 }, (_, index) => `p${String(index).padStart(2, "0")}-ü`);
    await Promise.all(
      names.map((name, index) => set(name, { tube: `listed${index % 2}`, cron: "@yearly", body: "x" })),
    );
    for (const [tube, wanted] of [
      ["", names],
      ["&tube=listed1", names.filter((_, index) => index % 2 === 1)],
    ] as const) {
      const found: string[] = [];
      let cursor: string | null = "";
      while (cursor !== null) {
        const page: HttpAnswer = await ask(`?limit=4${tube}${cursor === "" ? "" : `&cursor=${cursor}`}`);
        assert.ok(page.json.items.length <= 4);
        found.push(...page.json.items.map(({ name }: { name: string }) => name));
        ({ cursor } = page.json);
      }
      assert.deepEqual(
        found.filter((name) => name.startsWith("p")),
        wanted,
      );
    }
    const [item] = (await ask("?tube=listed1")).json.items;
    const { next, ...rest } = item;
    assert.ok(Date.parse(next) > Date.now());
    assert.deepEqual(rest, {
      ...{ name: "p01-ü", tube: "listed1", cron: "@yearly", every: null, tz: "UTC", missed: "once" },
      ...{ paused: false, last: null, fired: 0, missedTicks: 0, refusals: 0, bytes: 1 },
      ...{ overlap: "allow", skipped: 0 },
    });
    assert.equal((await ask("?cursor=x")).json.code, "bad-cursor");
    const namesOf = async (query: string): Promise<string[]> =>
      (await ask(query)).json.items.map(({ name }: { name: string }) => name);
    await post(`/${encodeURIComponent(names[3]!)}/pause`);
    assert.deepEqual(await namesOf("?state=paused&match=p*"), [names[3]]);
    assert.deepEqual(await namesOf("?match=03-%C3%BC"), [names[3]]);
    assert.deepEqual(await namesOf("?match=listed1&limit=2&state=active"), [names[1], names[5]]);
    assert.deepEqual(await namesOf("?match=p*&state=missed"), []);
    await server.ask("/v1/settings/held-up", { method: "PUT", json: { maxJobs: 1 } });
    await server.ask("/v1/tubes/held-up/jobs", { json: { body: "x" } });
    await set("refused", { tube: "held-up", cron: "* * * * * *", missed: "all", body: "x" });
    await eventually("it is late", async () => `${await namesOf("?state=late")}` === "refused");
    assert.deepEqual(await namesOf("?match=held&state=active"), []);
  });

  const wrong: [name: string, json: object, detail: RegExp][] = [
    ["neither", {}, /exactly one of "\/cron" and "\/every"/],
    ["both", { cron: "@daily", every: 5 }, /exactly one of "\/cron" and "\/every"/],
    ["cron", { cron: "61 * * * *" }, /61/],
    ["zone", { cron: "@daily", tz: "Mars/Olympus" }, /Mars\/Olympus/],
    ["line", { cron: "@daily", tz: "UTC\r\ndelete 1" }, /"\/tz" must be 1 to 200 printable/],
    ["often", { every: 0.5 }, /every/],
    ["missed", { every: 5, missed: "some" }, /"\/missed" must be once or all or none, not "some"/],
    ["tube", { every: 5, tube: "a b" }, /a b/],
    ["bodies", { every: 5, json: 1 }, /exactly one of body/],
    ["a b", { every: 5 }, /1 to 128 bytes/],
    ["x".repeat(129), { every: 5 }, /1 to 128 bytes/],
  ];
  for (const [name, json, detail] of wrong) {
    it(`are refused with a reason: ${name.slice(0, 20)}`, async () => {
      const { status, json: problem } = await set(name, { tube: "t", body: "x", ...json });
      assert.equal(status, 400);
      assert.match(problem.detail, detail);
    });
  }
});

interface Answer {
  readonly body?: string;
  readonly bytes: number;
  readonly truncated: boolean;
}

describe("schedules over HTTP with tokens", () => {
  it("demand their permissions, and refuse tokens of some tubes", async (t) => {
    const monitor = newToken("m", "monitor");
    const viewer = newToken("v", "viewer");
    const operator = newToken("o", "operator");
    const limited = newToken("l", "operator tubes=reports");
    const lines = [monitor, viewer, operator, limited].map(({ line }) => line).join("");
    const flags = ["--http", "127.0.0.1:0"];
    const guarded = await GuardedServer.start(temporaryFolder(t, "schedules"), lines, 0, () => "", flags);
    t.after(() => guarded.server.stop());
    const [base] = /http:\/\/127\.0\.0\.1:\d+/.exec(guarded.server.stderr)!;
    const askAs = async ({ secret }: { secret: string }, method: string, path: string, json?: object) => {
      const headers = {
        authorization: `Bearer ${secret}`,
        ...(json && { "content-type": "application/json" }),
      };
      const body = json && JSON.stringify(json);
      return await fetch(`${base}/v1/schedules${path}`, { method, headers, ...(body && { body }) });
    };
    const statusOf = async (...asked: Parameters<typeof askAs>) => (await askAs(...asked)).status;
    const json = { tube: "reports", cron: "@daily", body: "x" };
    assert.equal(await statusOf(operator, "PUT", "/nightly", json), 200);
    for (const [method, path] of [
      ["PUT", "/nightly"],
      ["DELETE", "/nightly"],
      ["POST", "/nightly/run"],
      ["POST", "/nightly/pause"],
      ["POST", "/nightly/resume"],
    ] as const)
      for (const token of [viewer, limited])
        assert.equal(
          await statusOf(token, method, path, method === "PUT" ? json : undefined),
          403,
          method + path,
        );
    assert.deepEqual(
      [await statusOf(monitor, "GET", ""), await statusOf(monitor, "GET", "/nightly")],
      [200, 200],
    );
    const bodyFor = async (token: { secret: string }) => {
      const { body, bytes, truncated } = (await (await askAs(token, "GET", "/nightly")).json()) as Answer;
      return [body, bytes, truncated];
    };
    assert.deepEqual(await bodyFor(viewer), ["x", 1, false]);
    assert.deepEqual(await bodyFor(monitor), [undefined, 1, true]);
    for (const path of ["", "/nightly", "?tube=reports"])
      assert.equal(await statusOf(limited, "GET", path), 403);
    assert.equal(await statusOf(operator, "POST", "/nightly/run"), 201);
  });
});
