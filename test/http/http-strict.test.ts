// Tests of what requests say beyond what a route knows, and of numbers at the edge: nothing is
// ignored in a request that changes something, and a dry run counts what would be changed.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type HttpAnswer, type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { ManageRequests } from "./manage-requests.ts";

/** The byte string "a" in MessagePack. */
const MSGPACK_BYTES = Uint8Array.of(0xc4, 1, 0x61);

describe("strict requests over HTTP", () => {
  let server: HttpServer;
  before(async () => {
    server = await startHttpServer("--shards", "3", "--acceptors", "1");
  });
  after(() => server.process.stop());
  const { get, putTo } = new ManageRequests(() => server);

  const refused = ({ status, json }: HttpAnswer, names: RegExp): void => {
    assert.deepEqual([status, json.code], [400, "bad-request"]);
    assert.match(json.detail, names);
  };

  it("name a parameter of the query that no route knows", async () => {
    const [id] = await putTo("kept", 1, { delay: 1000 });
    for (const [method, path, json] of [
      ["POST", "/v1/tubes/kept/clear?dryRun=true", { states: ["delayed"] }],
      ["POST", "/v1/tubes/kept/kick?dryRun=true", undefined],
      ["DELETE", "/v1/tubes/kept?dryRun=true", undefined],
      ["DELETE", `/v1/jobs/${id}?dryRun=1`, undefined],
      ["POST", `/v1/jobs/${id}/kick?dryRun=1`, undefined],
      ["PUT", "/v1/server/drain?dryRun=1", undefined],
      ["GET", `/v1/jobs/${id}?dryRun=1`, undefined],
      ["GET", "/v1/stats?dryRun=1", undefined],
    ] as const)
      refused(await server.ask(path, { method, ...(json && { json }) }), /"\/dryRun" is not known here/);
    assert.equal((await get("/v1/tubes/kept")).jobs.delayed, 1);
    assert.equal((await get("/v1/server")).draining, false);
    refused(await server.ask("/v1/jobs/1?bodymax=5"), /known are bodyMax/);
    const { paths } = await get("/v1/openapi.json");
    for (const [path, methods] of Object.entries<Record<string, { responses: object }>>(paths))
      if (path.startsWith("/v1/"))
        for (const [method, { responses }] of Object.entries(methods))
          assert.ok("400" in responses, `${method} ${path}`);
    assert.equal((await server.ask("/metrics?tubes=none&any=1")).status, 200);
    assert.equal((await server.ask("/livez?any=1")).status, 200);
  });

  it("have no body where none is taken", async () => {
    const [id] = await putTo("whole", 1, { delay: 1000 });
    await server.ask("/v1/batches", { json: { name: "whole" } });
    const schedule = { tube: "whole", every: 3600, body: "x" };
    await server.ask("/v1/schedules/whole", { method: "PUT", json: schedule });
    for (const [method, path] of [
      ["DELETE", "/v1/tubes/whole"],
      ["DELETE", `/v1/jobs/${id}`],
      ["POST", `/v1/jobs/${id}/kick`],
      ["POST", "/v1/batches/whole/cancel"],
      ["POST", "/v1/schedules/whole/run"],
      ["DELETE", "/v1/schedules/whole"],
      ["DELETE", "/v1/settings/whole"],
      ["PUT", "/v1/server/drain"],
    ] as const) {
      const changesBefore = (await get("/v1/audit")).items.length;
      refused(await server.ask(path, { method, json: { dryRun: true } }), /"\/dryRun" .* takes no body/);
      for (const json of ["x", 0, ["x"]])
        refused(await server.ask(path, { method, json }), /^This request takes no body/);
      const headers = { "content-type": "application/msgpack", "content-length": `${MSGPACK_BYTES.length}` };
      refused(
        await server.ask(path, { method, headers, body: MSGPACK_BYTES }),
        /^Bytes can only be the body of a job/,
      );
      assert.equal((await get("/v1/audit")).items.length, changesBefore);
    }
    assert.deepEqual((await get("/v1/tubes/whole")).jobs.delayed, 1);
    assert.equal((await get("/v1/batches/whole")).state, "open");
    assert.equal((await get("/v1/schedules/whole")).runs, 0);
    // Clients name a type, and some send what means nothing.
    const headers = { "content-type": "application/json" };
    for (const body of [undefined, "", "{}", "null"]) {
      const options = { method: "POST", headers, ...(body === undefined ? {} : { body }) };
      assert.equal((await server.ask("/v1/schedules/whole/pause", options)).status, 200, `${body}`);
    }
    assert.equal((await server.ask("/v1/batches/whole/cancel", { method: "POST" })).status, 200);
  });

  it("may begin at the id 0, which no job has", async () => {
    await putTo("from-0", 3, { delay: 1000 });
    const states = ["delayed"];
    const ask = async (route: string, more: object) => {
      const json = { states, where: { idFrom: 0 }, ...more };
      const { status, json: answer } = await server.ask(`/v1/tubes/from-0/${route}`, { json });
      return [status, answer.affected];
    };
    assert.deepEqual(await ask("clear", { dryRun: true }), [200, 3]);
    assert.deepEqual(await ask("update", { set: { pri: 1 } }), [200, 3]);
    assert.deepEqual(await ask("move", { to: "from-0-copies", copy: true }), [200, 3]);
    assert.deepEqual(await ask("move", { to: "from-0-moved", max: 1 }), [200, 1]);
    assert.deepEqual(await ask("kick", {}), [200, 2]);
    assert.deepEqual(await ask("redrive", { states: ["ready"] }), [200, 0]);
    assert.equal((await get("/v1/tubes/from-0/jobs?idFrom=0")).items.length, 2);
    assert.deepEqual(await ask("clear", { states: ["ready"], where: { idFrom: 0, idTo: 0 } }), [200, 0]);
    const far = { states: ["ready"], where: { idFrom: Number.MAX_SAFE_INTEGER } };
    assert.deepEqual(await ask("clear", far), [200, 0]);
  });

  it("count before a kick what it makes ready: not the jobs that wait for a batch", async () => {
    await server.ask("/v1/batches", { json: { name: "awaited" } });
    await putTo("callbacks", 2, { after: "awaited" });
    await putTo("callbacks", 3, { delay: 1000 });
    const kick = async (json: object) => (await server.ask("/v1/tubes/callbacks/kick", { json })).json;
    assert.deepEqual(await kick({ dryRun: true }), { affected: 3 });
    assert.deepEqual(await kick({}), { affected: 3 });
    assert.deepEqual(await kick({ dryRun: true }), { affected: 0 });
  });

  it("redrive no jobs but dead ones", async () => {
    await putTo("alive", 1);
    const json = { where: { dead: false } };
    refused(await server.ask("/v1/tubes/alive/redrive", { json }), /"\/where\/dead" must be true/);
  });
});
