// Tests of the ends of jobs over HTTP: the list of a tube, and a job that is gone.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";

describe("finished jobs over HTTP", () => {
  let server: HttpServer;
  let client: WireClient;
  before(async () => {
    server = await startHttpServer("--shards", "3", "--acceptors", "1");
    client = await WireClient.connect(server.process.address);
  });
  after(async () => {
    client.close();
    await server.process.stop();
  });

  const put = async (tube: string, json: object = {}): Promise<number> =>
    (await server.ask(`/v1/tubes/${tube}/jobs`, { json: { body: "x", ...json } })).json.id;

  it("answers for a job that is gone, and lists it a page at a time", async () => {
    const set = await server.ask("/v1/settings/mail*", { method: "PATCH", json: { keepFinished: 3 } });
    assert.equal(set.status, 200);
    const began = Date.now();
    const id = await put("mails", { unique: "é", group: "g" });
    const { jobs } = (await server.ask("/v1/reserve", { json: { tubes: ["mails"], wait: 0 } })).json;
    await server.ask(`/v1/leases/${jobs[0].lease}/touch`, { json: { note: "☃" } });
    await server.ask(`/v1/leases/${jobs[0].lease}/delete`, { method: "POST" });
    const { status, json } = await server.ask(`/v1/jobs/${id}`);
    assert.equal(status, 200);
    const { put: putAt, start, end, worker, ...others } = json;
    assert.deepEqual(others, {
      ...{ id, tube: "mails", state: "deleted", attempts: 1, unique: "é", group: "g", note: "☃" },
      reason: null,
    });
    assert.notEqual(worker, null);
    const times = [putAt, start, end].map((at) => new Date(at).getTime());
    assert.deepEqual(
      times,
      times.toSorted((a, b) => a - b),
    );
    assert.ok(times[0]! >= began - 1000 && times[2]! <= Date.now() + 1000, `${times} after ${began}`);

    const other = await put("mails");
    await server.ask(`/v1/jobs/${other}/cancel`, { json: { reason: "not needed" } });
    const page = (await server.ask("/v1/tubes/mails/finished?limit=1")).json;
    assert.deepEqual(
      page.items.map((each: { id: number; state: string; reason: string; start: null }) => [
        ...[each.id, each.state, each.reason, each.start],
      ]),
      [[other, "cancelled", "not needed", null]],
    );
    const rest = (await server.ask(`/v1/tubes/mails/finished?cursor=${page.cursor}`)).json;
    assert.deepEqual([rest.items.length, rest.items[0].id, rest.cursor], [1, id, null]);
    await eventually("the metric counts them", async () =>
      /^runnerbean_finished_jobs 2$/m.test((await server.ask("/metrics")).text),
    );
  });

  it("answers 404 without the setting, and for what is no cursor", async () => {
    const id = await put("other");
    await server.ask(`/v1/jobs/${id}`, { method: "DELETE" });
    assert.equal((await server.ask(`/v1/jobs/${id}`)).status, 404);
    assert.deepEqual((await server.ask("/v1/tubes/other/finished")).json, { items: [], cursor: null });
    const { status, json } = await server.ask("/v1/tubes/other/finished?cursor=x");
    assert.deepEqual([status, json.code], [400, "bad-cursor"]);
    assert.equal(
      (await server.ask("/v1/settings/a", { method: "PUT", json: { keepFinished: 10_001 } })).status,
      400,
    );
  });
});
