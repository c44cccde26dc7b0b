// Tests of the audit log: manual changes are recorded in the log and shown over HTTP.

import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import type { ManualChange } from "../../src/message/manual-change.ts";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { untilItSays } from "../support/server/until-it-says.ts";

/** As it is told. */
type Item = Omit<ManualChange, "atMs"> & { readonly at: string };

describe("audit", () => {
  const person = newToken("person", "operator");
  const boss = newToken("boss", "admin");
  let guarded: GuardedServer;
  let base: string;

  before(async () => {
    const folder = temporaryFolder({ after }, "audit");
    const tokens = person.line + boss.line;
    guarded = await GuardedServer.start(folder, tokens, 0, () => "", ["--http", "127.0.0.1:0"]);
    base = /http:\/\/127\.0\.0\.1:\d+/.exec(guarded.server.stderr)![0];
  });
  after(() => guarded.server.stop());

  const ask = (secret: string, method: string, path: string, body?: unknown): Promise<Response> =>
    fetch(base + path, {
      method,
      headers: {
        authorization: `Bearer ${secret}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const items = async (): Promise<Item[]> =>
    ((await (await ask(boss.secret, "GET", "/v1/audit")).json()) as { items: Item[] }).items;

  it("lists name, origin, action and number of jobs, latest first", async () => {
    for (let job = 0; job < 3; job++)
      await ask(person.secret, "POST", "/v1/tubes/mail/jobs", { body: "secret body" });
    const clear = { states: ["ready"] };
    // Counted only, not permitted, not there, and read.
    assert.equal(
      (await ask(person.secret, "POST", "/v1/tubes/mail/clear", { ...clear, dryRun: true })).status,
      200,
    );
    assert.equal((await ask(person.secret, "PUT", "/v1/server/drain")).status, 403);
    assert.equal((await ask(person.secret, "DELETE", "/v1/jobs/99")).status, 404);
    assert.equal((await ask(person.secret, "GET", "/v1/tubes")).status, 200);
    assert.deepEqual(await items(), []);
    assert.equal((await ask(person.secret, "PUT", "/v1/tubes/mail/pause", { seconds: 60 })).status, 200);
    assert.equal((await ask(person.secret, "DELETE", "/v1/jobs/1")).status, 204);
    const move = { states: ["delayed"], to: "sms" };
    assert.equal((await ask(person.secret, "POST", "/v1/tubes/mail/move", move)).status, 200);
    const copied = await ask(person.secret, "POST", "/v1/tubes/mail/move", { ...move, copy: true });
    await eventually("it is copied", async () => (await items())[0]?.affected === 0);
    assert.equal((await ask(person.secret, "POST", "/v1/tubes/-/clear?tube=mail", clear)).status, 200);
    const schedule = { tube: "mail", every: 3600, body: "x" };
    assert.equal((await ask(person.secret, "PUT", "/v1/schedules/-?name=..", schedule)).status, 200);
    assert.equal((await ask(boss.secret, "PUT", "/v1/server/drain")).status, 200);
    const found = await items();
    assert.deepEqual(
      found.map(({ at, ...rest }) => rest),
      [
        ["boss", "PUT", "/v1/server/drain", {}, null, 200],
        ["person", "PUT", "/v1/schedules/:name", { name: "..", tube: "mail", every: "3600" }, null, 200],
        ["person", "POST", "/v1/tubes/:tube/clear", { tube: "mail", states: "ready" }, 2, 200],
        [
          "person",
          "POST",
          "/v1/tubes/:tube/move",
          { tube: "mail", states: "delayed", to: "sms", copy: "true" },
          0,
          copied.status,
        ],
        ["person", "POST", "/v1/tubes/:tube/move", { tube: "mail", states: "delayed", to: "sms" }, 0, 200],
        ["person", "DELETE", "/v1/jobs/:id", { id: "1" }, null, 204],
        ["person", "PUT", "/v1/tubes/:tube/pause", { tube: "mail", seconds: "60" }, null, 200],
      ].map(([who, method, route, what, affected, status]) => ({
        ...{ who, address: "127.0.0.1", way: "http", method, route, what, before: null, affected, status },
      })),
    );
    for (const { at } of found) assert.ok(Math.abs(Date.parse(at) - Date.now()) < 600_000, at);
    assert.equal((await ask(person.secret, "GET", "/v1/audit")).status, 403);
  });

  it("has the old values of changed settings", async () => {
    const set = (method: string, body?: object) => ask(person.secret, method, "/v1/settings/old-*", body);
    await set("PUT", { maxAttempts: 3, deadLetter: "dead" });
    await set("PATCH", { maxAttempts: 5, ttl: 60 });
    await set("PUT", { ttl: 60 });
    await set("DELETE");
    const [removed, replaced, changed, first] = (await items()) as unknown as readonly { before: unknown }[];
    assert.deepEqual(first!.before, {});
    assert.deepEqual(changed!.before, { maxAttempts: "3" });
    assert.deepEqual(replaced!.before, { maxAttempts: "5", deadLetter: "dead", ttl: "60" });
    assert.deepEqual(removed!.before, { ttl: "60" });
    const line =
      /PATCH \/v1\/settings\/:pattern pattern=old-\* maxAttempts=5 ttl=60 before\.maxAttempts=3: 200/;
    await untilItSays(guarded.server, line);
  });

  it("lists clients that leave before their answer", async () => {
    assert.equal((await ask(boss.secret, "DELETE", "/v1/server/drain")).status, 200);
    const post = (body: object) => ask(person.secret, "POST", "/v1/tubes/left/jobs", body);
    const jobs = Array.from({ length: 1000 }, () => ({ body: "x" }));
    for (let batch = 0; batch < 20; batch++) assert.equal((await post({ jobs })).status, 200);
    const { port } = new URL(base);
    const socket = connect(Number(port), "127.0.0.1");
    const head = [
      "DELETE /v1/tubes/left HTTP/1.1",
      "Host: localhost",
      `Authorization: Bearer ${person.secret}`,
    ];
    socket.write([...head, "", ""].join("\r\n"), () => socket.destroy());
    const cleared = { who: "person", method: "DELETE", route: "/v1/tubes/:tube", affected: 20_000 };
    await eventually("it is noted", async () => {
      const [{ who, method, route, affected }] = (await items()) as [Item];
      return isDeepStrictEqual({ who, method, route, affected }, cleared);
    });
  });

  it("is in the server's log, without secrets and bodies", async () => {
    await untilItSays(
      guarded.server,
      /audit: person \(127\.0\.0\.1\) POST \/v1\/tubes\/:tube\/clear tube=mail states=ready affected=2: 200/,
    );
    await untilItSays(guarded.server, /audit: boss \(127\.0\.0\.1\) PUT \/v1\/server\/drain: 200/);
    for (const text of [person.secret, boss.secret, "secret body"])
      assert.ok(!guarded.server.stderr.includes(text));
  });

  it("keeps the last 500 entries, and doesn't flood the log", async () => {
    const changes = Array.from({ length: 520 }, (_, change) => (change % 2 === 0 ? "DELETE" : "PUT"));
    await Promise.all(changes.map((method) => ask(boss.secret, method, "/v1/server/drain")));
    const found = await items();
    assert.equal(found.length, 500);
    assert.ok(found.every(({ route }) => route === "/v1/server/drain"));
  });
});
