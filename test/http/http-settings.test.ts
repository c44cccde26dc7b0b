// Tests of settings of tubes, details of a tube, and redrive over HTTP.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { drawSecret, hashOf } from "../../src/access/secrets.ts";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer } from "../support/server/guarded-server.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";

describe("settings over HTTP", () => {
  const directory = mkdtempSync(join(tmpdir(), "runnerbean-settings-"));
  const flags = ["--shards", "3", "--acceptors", "1", "-b", directory, "-f", "0"];
  let server: HttpServer;
  let client: WireClient;
  before(async () => {
    server = await startHttpServer(...flags);
    client = await WireClient.connect(server.process.address);
  });
  after(async () => {
    client.socket.destroy();
    await server.process.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  const ask = (path: string, options: object = {}) => server.ask(path, options);
  const put = (pattern: string, json: object) =>
    ask(`/v1/settings/${encodeURIComponent(pattern)}`, { method: "PUT", json });
  /** All settings, page by page. */
  const all = async (limit: number): Promise<{ pattern: string; settings: object }[]> => {
    const items = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const { json } = await ask(`/v1/settings?limit=${limit}${cursor === "" ? "" : `&cursor=${cursor}`}`);
      items.push(...json.items);
      cursor = json.cursor;
    }
    return items;
  };

  it("that pause tubes show as a pause without end, also where a pattern sets them", async () => {
    for (const [tube, pattern] of [
      ["halted", "halted"],
      ["halted-by-pattern", "halted-by-*"],
    ] as const) {
      await client.ask(`put-in-tube ${tube} 0 0 60 1\r\nx`);
      await put(pattern, { paused: "yes" });
      // A pause with an end doesn't shorten it.
      await client.ask(`pause-tube ${tube} 1000`);
      const pauseless = { seconds: null, timeLeft: null };
      assert.deepEqual((await ask(`/v1/tubes/${tube}`)).json.pause, pauseless);
      // Even a fresh list may be some milliseconds old.
      await eventually("the list begins with the tube", async () => {
        const [first] = (await ask("/v1/tubes?sort=pause&fresh=true&limit=1")).json.items;
        return first?.name === tube && isDeepStrictEqual(first.pause, pauseless);
      });
      await eventually("the pause is measured", async () => {
        const { text } = await ask("/metrics");
        return (
          text.includes(`runnerbean_tube_pause_seconds{tube="${tube}"} +Inf`) &&
          /^runnerbean_tubes_paused 1$/m.test(text) &&
          /^runnerbean_tubes_unwatched 0$/m.test(text)
        );
      });
      await put(pattern, {});
      assert.equal((await ask(`/v1/tubes/${tube}`)).json.pause.seconds, 1000);
      assert.equal((await client.ask(`clear-tube ${tube}`)).line, "CLEARED 1");
    }
  });

  it("are replaced, shown, in effect with their origin, and removed", async () => {
    await client.ask("use mails-de");
    await client.ask("watch mails-en");
    const mails = { maxAttempts: 5, backoff: 1.5, deadLetter: "dead", expire: "bury", rate: "100/60" };
    const { status, json } = await put("mails-*", mails);
    assert.equal(status, 200);
    assert.deepEqual(json, { pattern: "mails-*", settings: mails, tubes: json.tubes });
    await eventually("both tubes are counted", async () => {
      return (await ask("/v1/settings/mails-*")).json.tubes === 2;
    });
    await put("mails-de", { maxAttempts: 7 });
    const { settings, details } = (await ask("/v1/tubes/mails-de")).json;
    assert.deepEqual(settings.maxAttempts, { value: 7, from: "mails-de" });
    assert.deepEqual(settings.backoff, { value: 1.5, from: "mails-*" });
    assert.equal(details.tokens, 1);
    assert.equal(details.dead, 0);
    // A replacement removes what it does not name.
    assert.deepEqual((await put("mails-*", { ttl: 60 })).json.settings, { ttl: 60 });
    assert.deepEqual((await ask("/v1/tubes/mails-de")).json.settings, {
      maxAttempts: { value: 7, from: "mails-de" },
      ttl: { value: 60, from: "mails-*" },
    });
    // A tube that does not exist has settings, too.
    const unknown = (await ask("/v1/tubes/mails-fr?missing=zero")).json;
    assert.deepEqual(unknown.settings, { ttl: { value: 60, from: "mails-*" } });
    assert.equal(unknown.details, null);
    for (const pattern of ["mails-*", "mails-de"]) {
      const removed = await ask(`/v1/settings/${encodeURIComponent(pattern)}`, { method: "DELETE" });
      assert.deepEqual(removed.json.settings, {});
    }
    assert.deepEqual((await ask("/v1/tubes/mails-de")).json.settings, {});
    assert.deepEqual(await all(10), []);
    const [change] = (await ask("/v1/audit")).json.items;
    assert.equal(change.route, "/v1/settings/:pattern");
    assert.equal(change.method, "DELETE");
  });

  it("are listed in order over all shards and pages, and survive a restart", async () => {
    const patterns = Array.from({ length: 45 }, (_, n) => (n % 5 === 0 ? `p${n}-*` : `p${n}`));
    for (const [n, pattern] of patterns.entries()) await put(pattern, { maxJobs: n });
    await put("*", { maxGroups: 10 });
    const expected = [...patterns, "*"].toSorted((a, b) => (a < b ? -1 : 1));
    for (const limit of [1, 7, 46, 1000])
      assert.deepEqual(
        (await all(limit)).map(({ pattern }) => pattern),
        expected,
      );
    client.socket.destroy();
    await server.process.stop();
    server = await startHttpServer(...flags);
    client = await WireClient.connect(server.process.address);
    const found = new Map((await all(20)).map(({ pattern, settings }) => [pattern, settings]));
    assert.deepEqual(found.get("p44"), { maxJobs: 44 });
    assert.deepEqual(found.get("*"), { maxGroups: 10 });
    for (const pattern of expected)
      await ask(`/v1/settings/${encodeURIComponent(pattern)}`, { method: "DELETE" });
    assert.deepEqual(await all(20), []);
  });

  it("are changed one by one, and null removes one", async () => {
    const patch = (json: object) => ask("/v1/settings/few-*", { method: "PATCH", json });
    await put("few-*", { maxAttempts: 5, ttl: 60, deadLetter: "dead" });
    const { status, json } = await patch({ ttl: null, maxJobs: 7, backoff: null });
    assert.equal(status, 200);
    assert.deepEqual(json, {
      pattern: "few-*",
      settings: { maxAttempts: 5, deadLetter: "dead", maxJobs: 7 },
      tubes: 0,
    });
    for (const [changes, said] of [
      [{}, /Give at least one of maxAttempts, /],
      [{ maxAttempts: 0 }, /"\/maxAttempts" must be at least 1, not 0/],
      [{ ttl: "10" }, /"\/ttl" must be a number/],
      [{ expire: "keep" }, /"\/expire" must be delete or bury/],
      [{ deadLetter: "a b" }, /"\/deadLetter" must be the name of a tube/],
      [{ ttk: 1 }, /"\/ttk" is unknown; allowed: maxAttempts/],
    ] as const) {
      const refused = await patch(changes);
      assert.equal(refused.status, 400);
      assert.match(refused.json.detail, said);
    }
    await ask("/v1/settings/few-*", { method: "DELETE" });
  });

  it("refuse what set-tube refuses, and say which field", async () => {
    const refused: [pattern: string, json: object, said: RegExp][] = [
      ["a", { maxAttempts: 0 }, /"\/maxAttempts" must be at least 1, not 0/],
      ["a", { maxAttempts: 1.5 }, /"\/maxAttempts" must be a whole number/],
      ["a", { ttl: -1 }, /"\/ttl" must be at least 0/],
      ["a", { ttl: 0.0004 }, /"\/ttl" must be 0 or at least 0.001, not 0.0004/],
      ["a", { backoff: 0.0009 }, /"\/backoff" must be 0 or at least 0.001/],
      ["a", { ttl: "10" }, /"\/ttl" must be a number/],
      ["a", { expire: "keep" }, /"\/expire" must be delete or bury/],
      ["a", { rate: "100 per minute" }, /"\/rate"/],
      [
        "a",
        { rate: "1/9999999999" },
        /"\/rate" must be two numbers from 1 to 4294967295 with a slash between, not "1\/9999999999"/,
      ],
      ["a", { deadLetter: "a b" }, /"\/deadLetter" must be the name of a tube, not "a b"/],
      ["a", { deadLetter: "x\r\ndelete 1" }, /"\/deadLetter"/],
      ["a", { "max-attempts": 5 }, /allowed: maxAttempts/],
      ["a", { __proto__: undefined, constructor: 1 }, /is unknown/],
      ["a b", {}, /"a b" is neither/],
      ["a*b", {}, /"a\*b" is neither/],
      ["**", {}, /"\*\*" is neither/],
      ["-x", {}, /"-x" is neither/],
      ["x\r\nstats", {}, /is neither/],
    ];
    for (const [pattern, json, said] of refused) {
      const { status, json: problem } = await put(pattern, json);
      assert.equal(status, 400, `${pattern} ${JSON.stringify(json)}`);
      assert.match(problem.detail, said);
    }
    assert.deepEqual(await all(20), []);
    const dots = await ask(`/v1/settings/-?pattern=${encodeURIComponent("..")}`, {
      method: "PUT",
      json: { maxJobs: 3 },
    });
    assert.deepEqual(dots.json, { pattern: "..", settings: { maxJobs: 3 }, tubes: 0 });
    await ask("/v1/settings/-?pattern=..", { method: "DELETE" });
  });

  it("let dead jobs return to where they died, over shards, by a filter first", async () => {
    const tubes = ["orders-a", "orders-b", "orders-c", "orders-d"];
    await put("orders-*", { maxAttempts: 1, deadLetter: "orders-dead", ttl: 0 });
    await client.ask("ignore default");
    for (const tube of tubes) {
      await client.ask(`watch ${tube}`);
      for (const customer of ["acme", "globex"]) {
        const body = `${customer} ${tube}`;
        assert.match(
          (await client.ask(`put-in-tube ${tube} 0 0 60 ${body.length}\r\n${body}`)).line,
          /^INSERTED/,
        );
        const { line } = await client.ask("reserve-with-timeout 10");
        const [, id] = /^RESERVED (\d+)/.exec(line)!;
        assert.equal((await client.ask(`release ${id} 0 0`)).line, "RELEASED");
      }
    }
    // One that was put there by hand is not dead.
    await ask("/v1/tubes/orders-dead/jobs", { json: { body: "acme by hand" } });
    const redrive = async (json: object) => (await ask("/v1/tubes/orders-dead/redrive", { json })).json;
    assert.deepEqual(await redrive({ dryRun: true }), { affected: 8 });
    assert.deepEqual(await redrive({ where: { text: "acme" } }), { affected: 4 });
    const left = (await ask("/v1/tubes/orders-dead/jobs?dead=true")).json.items;
    assert.deepEqual(
      left.map(({ body }: { body: string }) => body).toSorted(),
      tubes.map((tube) => `globex ${tube}`),
    );
    for (const tube of tubes) {
      const { items } = (await ask(`/v1/tubes/${tube}/jobs`)).json;
      assert.deepEqual(
        items.map(({ body, state }: { body: string; state: string }) => [body, state]),
        [[`acme ${tube}`, "ready"]],
      );
      assert.equal((await ask(`/v1/tubes/${tube}`)).json.details.dead, 2);
    }
    assert.deepEqual((await ask("/v1/tubes/orders-dead/redrive", { method: "POST" })).json, { affected: 4 });
    assert.deepEqual(await redrive({}), { affected: 0 });
    const [last] = (await ask("/v1/tubes/orders-dead/jobs")).json.items;
    assert.equal(last.body, "acme by hand");
    await ask("/v1/settings/orders-*", { method: "DELETE" });
  });

  it("make a dead job that is buried where it died ready", async () => {
    await put("faxes", { maxAttempts: 1 });
    await client.ask("watch faxes");
    for (const tube of ["a", "b", "c", "d"]) await client.ask(`ignore orders-${tube}`);
    await ask("/v1/tubes/faxes/jobs", { json: { body: "x" } });
    const [, id] = /^RESERVED (\d+)/.exec((await client.ask("reserve-with-timeout 10")).line)!;
    await client.ask(`release ${id} 0 0`);
    assert.equal((await ask("/v1/tubes/faxes")).json.jobs.buried, 1);
    assert.deepEqual((await ask("/v1/tubes/faxes/redrive", { json: {} })).json, { affected: 1 });
    assert.equal((await ask("/v1/tubes/faxes")).json.jobs.ready, 1);
    await ask("/v1/settings/faxes", { method: "DELETE" });
  });

  it("revive jobs of a tube that is its own dead-letter tube", async () => {
    await put("loops", { maxAttempts: 1, deadLetter: "loops" });
    for (const body of ["a", "b"]) {
      const { id } = (await ask("/v1/tubes/loops/jobs", { json: { body } })).json;
      await client.ask(`reserve-job ${id}`);
      await client.ask(`release ${id} 0 0`);
    }
    const { jobs, holdsDead } = (await ask("/v1/tubes/loops")).json;
    assert.deepEqual([jobs.ready, holdsDead], [2, true]);
    for (const json of [{ dryRun: true }, {}])
      assert.deepEqual((await ask("/v1/tubes/loops/redrive", { json })).json, { affected: 2 });
    assert.equal((await ask("/v1/tubes/loops")).json.holdsDead, false);
    assert.deepEqual((await ask("/v1/tubes/loops/redrive", { json: {} })).json, { affected: 0 });
    await ask("/v1/settings/loops", { method: "DELETE" });
  });
});

describe("settings over HTTP for tokens", () => {
  it("need the permission to manage, and no limit to some tubes", async (t) => {
    const [worker, limited, operator] = [drawSecret(), drawSecret(), drawSecret()];
    const lines = [
      `worker worker sha256:${hashOf(worker)}\n`,
      `limited operator sha256:${hashOf(limited)} tubes=mail*\n`,
      `operator operator sha256:${hashOf(operator)}\n`,
    ];
    const guarded = await GuardedServer.start(temporaryFolder(t, "settings"), lines.join(""), 0, () => "", [
      "--http",
      "127.0.0.1:0",
    ]);
    const [base] = /http:\/\/127\.0\.0\.1:\d+/.exec(guarded.server.stderr)!;
    try {
      const statusOf = async (secret: string, method: string, path: string, json?: object) => {
        const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json" };
        return (await fetch(base + path, { method, headers, ...(json && { body: JSON.stringify(json) }) }))
          .status;
      };
      assert.equal(await statusOf(worker, "PUT", "/v1/settings/mail", { maxJobs: 1 }), 403);
      assert.equal(await statusOf(limited, "PUT", "/v1/settings/mail", { maxJobs: 1 }), 403);
      assert.equal(await statusOf(limited, "GET", "/v1/settings"), 403);
      assert.equal(await statusOf(limited, "POST", "/v1/tubes/mail/redrive", {}), 403);
      assert.equal(await statusOf(operator, "PUT", "/v1/settings/mail", { maxJobs: 1 }), 200);
      assert.equal(await statusOf(operator, "POST", "/v1/tubes/mail/redrive", {}), 404);
    } finally {
      await guarded.server.stop();
    }
  });
});
