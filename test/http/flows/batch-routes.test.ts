// Tests of batches over HTTP.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type HttpAnswer, type HttpServer, startHttpServer } from "../../support/server/http-server.ts";
import { ManageRequests } from "../manage-requests.ts";

describe("batches over HTTP", () => {
  let server: HttpServer;
  before(async () => {
    server = await startHttpServer("--shards", "3", "--acceptors", "1");
  });
  after(() => server.process.stop());

  const open = (json: object): Promise<HttpAnswer> => server.ask("/v1/batches", { json });
  const post = (path: string): Promise<HttpAnswer> => server.ask(`/v1/batches/${path}`, { method: "POST" });
  const show = async (name: string) => (await server.ask(`/v1/batches/${encodeURIComponent(name)}`)).json;
  const put = (tube: string, json: object, query = ""): Promise<HttpAnswer> =>
    server.ask(`/v1/tubes/${tube}/jobs${query}`, { json });
  const reserve = async (tube: string) =>
    (await server.ask("/v1/reserve", { json: { tubes: [tube] } })).json.jobs[0];
  const done = async (tube: string): Promise<void> => {
    const { lease } = await reserve(tube);
    assert.equal((await server.ask(`/v1/leases/${lease}/delete`, { method: "POST" })).status, 200);
  };

  it("collect jobs of any tube, and release what waits for them", async () => {
    const opened = await open({ name: "import/7", keep: 60.5 });
    assert.equal(opened.status, 201);
    const { number, age, ...one } = opened.json;
    assert.ok(number > 0 && age >= 0);
    assert.deepEqual(one, {
      ...{ name: "import/7", state: "open", outcome: null, members: 0, open: 0, done: 0, failed: 0 },
      ...{ buried: 0, waiting: 0, keep: 60.5, forgetsIn: null },
    });
    assert.equal((await put("rows-a", { body: "1", batch: "import/7" })).status, 201);
    const many = await put("rows-b", { jobs: [{ body: "2" }, { body: "3" }] }, "?batch=import/7");
    assert.equal(many.json.failed, 0);
    assert.equal((await put("reports", { body: "report", after: "import/7" })).status, 201);
    const raw = { body: "clean up", headers: { "content-type": "text/plain" } };
    assert.equal((await server.ask("/v1/tubes/cleaning/jobs?afterAny=import/7", raw)).status, 201);
    assert.equal((await post("import%2F7/commit")).json.state, "committed");
    await done("rows-a");
    await done("rows-b");
    const { members, waiting, state } = await show("import/7");
    assert.deepEqual([members, waiting, state], [3, 2, "committed"]);
    await done("rows-b");
    assert.deepEqual(
      [(await reserve("reports")).body, (await reserve("cleaning")).body],
      ["report", "clean up"],
    );
    const complete = (await server.ask("/v1/batches/-?name=import/7")).json;
    assert.deepEqual([complete.state, complete.outcome, complete.done], ["complete", "success", 3]);
    assert.ok(complete.forgetsIn > 0 && complete.forgetsIn <= 61);
  });

  it("are named by the jobs that belong to them or wait for them", async () => {
    for (const name of ["earlier", "later"]) await open({ name });
    const viewOf = async (json: object) => {
      const { id } = (await put("viewed", { body: "x", ...json })).json;
      const { batch, waitsFor, waitsForAny, timeLeft } = (await server.ask(`/v1/jobs/${id}`)).json;
      return [batch, waitsFor, waitsForAny, timeLeft];
    };
    assert.deepEqual(await viewOf({}), [null, null, false, 0]);
    assert.deepEqual(await viewOf({ batch: "earlier" }), ["earlier", null, false, 0]);
    assert.deepEqual(await viewOf({ after: "earlier" }), [null, "earlier", false, 0]);
    assert.deepEqual(await viewOf({ batch: "later", afterAny: "earlier" }), ["later", "earlier", true, 0]);
    const { items } = (await server.ask("/v1/tubes/viewed/jobs?state=delayed")).json;
    assert.deepEqual(
      items.map(({ waitsFor, timeLeft }: Record<string, unknown>) => [waitsFor, timeLeft]),
      [
        ["earlier", 0],
        ["earlier", 0],
      ],
    );
  });

  it("are cancelled, and listed in the order of opening, page by page", async () => {
    const names = Array.from({ length: 13 }, (_, index) => `listed-${13 - index}`);
    for (const name of names) assert.equal((await open({ name })).status, 201);
    await put("cancelled", { body: "x", batch: names[0]! });
    assert.equal((await post(`${names[0]}/cancel`)).json.failed, 1);
    const found: { name: string; state: string; outcome: string | null }[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const page: HttpAnswer = await server.ask(
        `/v1/batches?limit=4${cursor === "" ? "" : `&cursor=${cursor}`}`,
      );
      assert.ok(page.json.items.length <= 4);
      found.push(...page.json.items);
      ({ cursor } = page.json);
    }
    const listed = found.filter(({ name }) => name.startsWith("listed-"));
    assert.deepEqual(
      listed.map(({ name }) => name),
      names,
    );
    assert.deepEqual([listed[0]!.outcome, listed[1]!.state, listed[1]!.outcome], ["cancelled", "open", null]);
    const newest: string[] = [];
    for (cursor = ""; cursor !== null; ) {
      const from: string = cursor === "" ? "" : `&cursor=${cursor}`;
      const page: HttpAnswer = await server.ask(`/v1/batches?order=newest&limit=4${from}`);
      newest.push(...page.json.items.map(({ name }: { name: string }) => name));
      ({ cursor } = page.json);
    }
    assert.deepEqual(newest, found.map(({ name }) => name).reverse());
    assert.equal((await server.ask("/v1/batches?order=best")).status, 400);
    const { items, cursor: more } = (await server.ask("/v1/batches?counts=true&limit=3")).json;
    assert.equal(items.length, 3);
    assert.ok(more);
    for (const { age, ...item } of items) {
      const { age: _, ...alone } = await show(item.name);
      assert.deepEqual({ ...item, forgetsIn: null }, { ...alone, forgetsIn: null });
      assert.ok(age >= 0);
    }
    assert.equal((await server.ask("/v1/batches?counts=true&limit=101")).status, 400);
  });

  it("are listed by a text in the name, a state and an outcome", async () => {
    const listed = async (query: string): Promise<string[]> =>
      (await server.ask(`/v1/batches?${query}`)).json.items.map(({ name }: { name: string }) => name);
    for (const name of ["sought-a", "sought-b", "sought-c"]) await open({ name });
    await post("sought-b/commit");
    await post("sought-c/cancel");
    assert.deepEqual(await listed("match=ght-&order=newest"), ["sought-c", "sought-b", "sought-a"]);
    assert.deepEqual(await listed("match=sought-?&state=unfinished"), ["sought-a"]);
    assert.deepEqual(await listed("match=sought&state=complete&outcome=success&counts=true"), ["sought-b"]);
    assert.deepEqual(await listed("match=sought&outcome=cancelled"), ["sought-c"]);
    assert.deepEqual(await listed("match=ght-?-"), []);
    const { items, cursor } = (await server.ask("/v1/batches?match=sought&limit=2")).json;
    assert.equal(items.length, 2);
    assert.deepEqual(await listed(`match=sought&limit=2&cursor=${cursor}`), ["sought-c"]);
    assert.equal((await server.ask("/v1/batches?state=lost")).status, 400);
  });

  it("select the jobs that belong to them or wait for them", async () => {
    for (const name of ["chosen", "other"]) await open({ name });
    const of = async (json: object, tube = "chosen-rows"): Promise<number> =>
      (await put(tube, { body: "x", ...json })).json.id;
    const [member, elsewhere] = [await of({ batch: "chosen" }), await of({ batch: "chosen" }, "more-rows")];
    const callback = await of({ batch: "other", after: "chosen" });
    await of({ batch: "other" });
    await of({});
    const { all } = new ManageRequests(() => server);
    // On a busy machine, a page may end before it has looked at all.
    const idsAt = async (path: string): Promise<number[]> => (await all(path)).map(({ id }) => id).sort();
    assert.deepEqual(await idsAt("/v1/jobs?batch=chosen"), [member, elsewhere].sort());
    assert.deepEqual(await idsAt("/v1/tubes/chosen-rows/jobs?batch=chosen"), [member]);
    assert.deepEqual(await idsAt("/v1/jobs?waitsFor=chosen"), [callback]);
    assert.deepEqual(await idsAt("/v1/jobs?waitsFor=chosen&batch=chosen"), []);
    assert.deepEqual(await idsAt("/v1/jobs?ofBatch=chosen"), [member, elsewhere, callback].sort());
    assert.deepEqual(await idsAt("/v1/jobs?ofBatch=chosen&batch=other"), [callback]);
    assert.deepEqual(await idsAt("/v1/jobs?batch=unknown"), []);
    const where = { states: ["ready"], where: { batch: "chosen" } };
    const cleared = await server.ask("/v1/tubes/chosen-rows/clear", { json: where });
    assert.equal(cleared.json.affected, 1);
    assert.deepEqual(await idsAt("/v1/jobs?batch=chosen"), [elsewhere]);
  });

  it("are refused with what is wrong", async () => {
    const codeOf = ({ status, json }: HttpAnswer): unknown[] => [status, json.code];
    assert.deepEqual(codeOf(await server.ask("/v1/batches/unknown")), [404, "batch-not-found"]);
    for (const what of ["commit", "cancel"])
      assert.deepEqual(codeOf(await post(`unknown/${what}`)), [404, "batch-not-found"]);
    for (const option of ["batch", "after", "afterAny"])
      assert.deepEqual(codeOf(await put("t", { body: "x", [option]: "unknown" })), [404, "batch-not-found"]);
    await open({ name: "once" });
    assert.deepEqual(codeOf(await open({ name: "once" })), [409, "batch-state"]);
    await post("once/commit");
    assert.deepEqual(codeOf(await put("t", { body: "x", batch: "once" })), [409, "batch-state"]);
    assert.deepEqual(codeOf(await post("once/cancel")), [409, "batch-state"]);
    for (const wrong of [{ name: "a b" }, { name: "a\r\nstats" }, { name: "" }, { name: "x", keep: -1 }, {}])
      assert.equal((await open(wrong)).status, 400, JSON.stringify(wrong));
    const both = await put("t", { body: "x", after: "once", afterAny: "once" });
    assert.match(both.json.detail, /"\/after" or "\/afterAny"/);
    assert.equal((await put("t", { body: "x", batch: "a b" })).status, 400);
  });
});
