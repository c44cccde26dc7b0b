// Tests that every route with an effect is guarded against other sites, obeys an Idempotency-Key
// and, if it is a change by hand, is in the audit log. The routes come from the OpenAPI document.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";

interface Operation {
  readonly method: string;
  readonly path: string;
}

/** A request that each change takes; null for one without a body. */
const BODIES: Readonly<Record<string, object | null>> = {
  "POST /v1/tubes/{tube}/jobs": { body: "x" },
  "POST /v1/reserve": { tubes: ["t"], wait: 0 },
  "POST /v1/jobs/{id}/reserve": null,
  "POST /v1/leases/{lease}/delete": null,
  "POST /v1/leases/{lease}/release": null,
  "POST /v1/leases/{lease}/bury": null,
  "POST /v1/leases/{lease}/touch": null,
  "POST /v1/leases": { delete: [] },
  "DELETE /v1/jobs/{id}": null,
  "POST /v1/jobs/{id}/cancel": null,
  "POST /v1/jobs/{id}/kick": null,
  "POST /v1/jobs/{id}/release": null,
  "POST /v1/jobs/{id}/move": { to: "u" },
  "POST /v1/jobs/{id}/update": { pri: 1 },
  "PUT /v1/tubes/{tube}/pause": { seconds: 1 },
  "DELETE /v1/tubes/{tube}/pause": null,
  "POST /v1/tubes/{tube}/kick": null,
  "POST /v1/tubes/{tube}/clear": { states: ["ready"] },
  "POST /v1/tubes/{tube}/move": { states: ["ready"], to: "u" },
  "POST /v1/tubes/{tube}/redrive": null,
  "POST /v1/tubes/{tube}/update": { states: ["ready"], set: { pri: 1 } },
  "DELETE /v1/tubes/{tube}": null,
  "PUT /v1/settings/{pattern}": { maxAttempts: 3 },
  "PATCH /v1/settings/{pattern}": { maxAttempts: 3 },
  "DELETE /v1/settings/{pattern}": null,
  "PUT /v1/schedules/{name}": { tube: "t", every: 3600, body: "x" },
  "DELETE /v1/schedules/{name}": null,
  "POST /v1/schedules/{name}/pause": null,
  "POST /v1/schedules/{name}/resume": null,
  "POST /v1/schedules/{name}/run": null,
  "POST /v1/batches": { name: "b2" },
  "POST /v1/batches/{batch}/commit": null,
  "POST /v1/batches/{batch}/cancel": null,
  "DELETE /v1/tasks/{id}": null,
  "POST /v1/server/reload": null,
  "POST /v1/binlog/scrub": null,
  "DELETE /v1/binlog/scrub": null,
  "PUT /v1/server/drain": null,
  "DELETE /v1/server/drain": null,
  "DELETE /v1/connections/{id}": null,
};
/** They begin and end sessions, which belong to nobody before. */
const SESSIONS = ["POST /v1/session", "DELETE /v1/session"];
const READS_WITH_EFFECT = ["GET /v1/backup"];

const nameOf = ({ method, path }: Operation): string => `${method} ${path}`;

describe("routes with an effect", () => {
  const folder = temporaryFolder({ after }, "effects");
  let server: HttpServer;
  let operations: Operation[];

  before(async () => {
    server = await startHttpServer("-b", folder, "--shards", "2");
    const { paths } = (await server.ask("/v1/openapi.json")).json as { paths: Record<string, object> };
    operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path })),
    );
  });
  after(() => server.process.stop());

  const ask = (operation: Operation, headers: Record<string, string>, job = 1) => {
    const json = BODIES[nameOf(operation)] ?? undefined;
    const path = operation.path
      .replace("{tube}", "t")
      .replace("{id}", operation.path.includes("connections") ? "0.1.1" : `${job}`)
      .replace("{lease}", "x")
      .replace("{pattern}", "t")
      .replace("{name}", "s")
      .replace("{batch}", "b");
    const { method } = operation;
    return server.ask(path, json === undefined ? { method, headers } : { method, headers, json });
  };

  it("are all refused to pages of other sites", async () => {
    const refused: string[] = [];
    for (const operation of operations) {
      if (operation.path === "/v1/events") continue;
      for (const headers of [
        { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" },
        { referer: "https://evil.example/" },
      ] as Record<string, string>[]) {
        const { status, text } = await ask(operation, headers);
        if (status === 403 && text.includes("cross-site")) refused.push(nameOf(operation));
      }
    }
    const changes = operations.filter(({ method }) => method !== "GET" && method !== "HEAD").map(nameOf);
    assert.deepEqual([...new Set(refused)].sort(), [...changes, ...READS_WITH_EFFECT].sort());
    assert.equal(refused.length, 2 * new Set(refused).size, "by each header");
    assert.equal((await server.ask("/v1/audit")).json.items.length, 0);
    // The page itself, curl and a typed address may.
    for (const headers of [{}, { "sec-fetch-site": "same-origin" }, { "sec-fetch-site": "none" }])
      assert.equal(
        (await ask({ method: "GET", path: "/v1/backup" }, headers as Record<string, string>)).status,
        200,
      );
  });

  it("all obey an Idempotency-Key, before they do anything", async () => {
    await server.ask("/v1/tubes/t/jobs", { json: { body: "x" } });
    const changes = operations.filter(({ method }) => method !== "GET" && method !== "HEAD");
    const known = [...Object.keys(BODIES), ...SESSIONS].sort();
    assert.deepEqual(changes.map(nameOf).sort(), known, "each change has a request here");
    for (const operation of changes) {
      if (SESSIONS.includes(nameOf(operation))) continue;
      const { status, text } = await ask(operation, { "idempotency-key": "two words" });
      assert.equal(status, 400, nameOf(operation));
      assert.match(text, /An Idempotency-Key must have/, nameOf(operation));
    }
  });

  it("repeat their answer for the same key, and are audited once", async () => {
    await server.ask("/v1/schedules/s", { method: "PUT", json: { tube: "t", every: 3600, body: "x" } });
    const { id } = (await server.ask("/v1/tubes/t/jobs", { json: { body: "x" } })).json;
    const audited = async (): Promise<number> => (await server.ask("/v1/audit")).json.items.length;
    for (const name of [
      "POST /v1/schedules/{name}/run",
      "POST /v1/reserve",
      "POST /v1/batches",
      "POST /v1/jobs/{id}/move",
      "DELETE /v1/schedules/{name}",
      "DELETE /v1/tubes/{tube}",
    ]) {
      const [method = "", path = ""] = name.split(" ");
      const key = { "idempotency-key": name.replace(" ", ":") };
      if (name === "POST /v1/jobs/{id}/move") await server.ask("/v1/tubes/t/jobs", { json: { body: "y" } });
      const job = (await server.ask("/v1/jobs?state=ready")).json.items[0]?.id ?? id;
      const first = await ask({ method, path }, key, job);
      assert.ok(first.status < 300, `${name}: ${first.text}`);
      await server.ask("/v1/tubes/t/jobs", { json: { body: "later" } });
      const before = await audited();
      const again = await ask({ method, path }, key, job);
      assert.deepEqual([again.status, again.text], [first.status, first.text], name);
      assert.equal(again.headers["location"], first.headers["location"], name);
      assert.equal(await audited(), before, name);
    }
  });
});
