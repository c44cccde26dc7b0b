// Tests of HTTP authentication: with tokens, no request passes without one, and none exceeds its
// permissions.

import assert from "node:assert/strict";
import { scryptSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { get } from "node:http";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { drawSecret } from "../../src/access/secrets.ts";
import { parseTokenFile, tokenLine } from "../../src/access/token-file.ts";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { launch, startServer } from "../support/server/server-process.ts";
import { untilItSays } from "../support/server/until-it-says.ts";

const tokens = {
  monitor: newToken("prometheus", "monitor"),
  producer: newToken("shop", "producer"),
  worker: newToken("mailer", "worker"),
  viewer: newToken("eyes", "viewer"),
  operator: newToken("person", "operator"),
  limited: newToken("limited", "operator tubes=mail-*"),
  short: newToken("short", "operator tubes=?"),
  gone: newToken("gone", "viewer"),
  leaving: newToken("leaving", "worker"),
  root: newToken("root", "admin"),
};
const LINES = Object.values(tokens).map(({ line }) => line);

describe("http auth", () => {
  const folder = temporaryFolder({ after }, "http-auth");
  let guarded: GuardedServer;
  let base: string;

  before(async () => {
    guarded = await GuardedServer.start(folder, LINES.join(""), 0, () => "", ["--http", "127.0.0.1:0"]);
    base = /http:\/\/127\.0\.0\.1:\d+/.exec(guarded.server.stderr)![0];
  });
  after(() => guarded.server.stop());

  const ask = (path: string, headers: Record<string, string> = {}, method = "GET", body?: unknown) =>
    fetch(base + path, {
      method,
      headers: { ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const bearer = (secret: string): Record<string, string> => ({ authorization: `Bearer ${secret}` });
  const basic = (name: string, secret: string): Record<string, string> => ({
    authorization: `Basic ${Buffer.from(`${name}:${secret}`).toString("base64")}`,
  });
  const statusOf = async (...args: Parameters<typeof ask>): Promise<number> => (await ask(...args)).status;

  it("leaves only health open", async () => {
    for (const path of ["/livez", "/readyz", "/healthz"]) assert.equal(await statusOf(path), 200, path);
    for (const path of ["/v1/stats", "/v1/tubes", "/metrics", "/v1/server", "/v1/session"])
      assert.equal(await statusOf(path), 401, path);
    assert.equal(await statusOf("/v1/tubes/a/jobs", {}, "POST", { body: "x" }), 401);
    const refused = await ask("/v1/stats");
    assert.equal(((await refused.json()) as { code: string }).code, "unauthenticated");
    // `fetch` is a script; curl, or a page that is opened by hand, is asked for a name, too.
    const challenge = await new Promise((resolve) =>
      get(`${base}/v1/stats`, ({ headers }) => resolve(headers["www-authenticate"])),
    );
    assert.match(`${challenge}`, /Bearer.*Basic/);
    const script = await ask("/v1/stats", { "sec-fetch-mode": "cors" });
    assert.doesNotMatch(script.headers.get("www-authenticate") ?? "", /Basic/);
  });

  it("checks the token first on every route", async () => {
    const document = (await (await ask("/v1/openapi.json")).json()) as { paths: Record<string, object> };
    const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    assert.ok(routes.length > 50, `${routes.length}`);
    const statuses = async (headers: Record<string, string>): Promise<Map<string, number>> => {
      const found = new Map<string, number>();
      for (const route of routes) {
        const [method = "", path = ""] = route.split(" ");
        found.set(route, await statusOf(path.replace(/\{\w+\}/g, "1"), headers, method));
      }
      return found;
    };
    const which = (found: Map<string, number>, refusal: number): string[] =>
      [...found].flatMap(([route, status]) => (status === refusal ? [] : [route])).sort();
    const open = ["GET /healthz", "GET /livez", "GET /readyz", "GET /v1/openapi.json"];
    // Requests that start or end a session authenticate themselves.
    const session = ["DELETE /v1/session", "GET /v1/session", "POST /v1/session"];
    assert.deepEqual(
      which(await statuses({}), 401),
      [...open, "DELETE /v1/session", "POST /v1/session"].sort(),
    );
    assert.deepEqual(
      which(await statuses(bearer(tokens.producer.secret)), 403),
      [
        ...open,
        ...session,
        "GET /v1/batches",
        "GET /v1/batches/{batch}",
        "POST /v1/batches",
        "POST /v1/batches/{batch}/commit",
        "POST /v1/tubes/{tube}/jobs",
      ].sort(),
    );
    const changes = which(await statuses(bearer(tokens.viewer.secret)), 403).filter(
      (route) => !route.startsWith("GET "),
    );
    assert.deepEqual(changes, ["DELETE /v1/session", "POST /v1/session"]);
  });

  it("accepts Bearer and Basic, and enforces each role", async () => {
    const put = (secret: string): Promise<number> =>
      statusOf("/v1/tubes/mail-1/jobs", bearer(secret), "POST", { body: "x" });
    assert.equal(await statusOf("/metrics", basic("prometheus", tokens.monitor.secret)), 200);
    assert.equal(await statusOf("/metrics", basic("eyes", tokens.monitor.secret)), 401);
    const counted = await ask("/metrics", basic("prometheus", tokens.monitor.secret));
    assert.match(await counted.text(), /^runnerbean_auth_failures_total\{protocol="http"\} 1$/m);
    assert.equal(await put(tokens.producer.secret), 201);
    assert.equal(await put(tokens.viewer.secret), 403);
    assert.equal(await statusOf("/v1/stats", bearer(tokens.producer.secret)), 403);
    assert.equal(await statusOf("/v1/stats", bearer(tokens.viewer.secret)), 200);
    const forbidden = await ask("/v1/tubes/mail-1/kick", bearer(tokens.worker.secret), "POST", {});
    assert.equal(forbidden.status, 403);
    assert.match(((await forbidden.json()) as { detail: string }).detail, /permission "manage"/);
    const reserved = await ask("/v1/reserve", bearer(tokens.worker.secret), "POST", {
      tubes: ["mail-1"],
      wait: 0,
    });
    assert.equal(reserved.status, 200);
    const { jobs } = (await reserved.json()) as { jobs: { lease: string }[] };
    // A lease belongs to its owner.
    const path = `/v1/leases/${jobs[0]!.lease}/delete`;
    assert.notEqual(await statusOf(path, bearer(tokens.operator.secret), "POST", {}), 200);
    assert.equal(await statusOf(path, bearer(tokens.worker.secret), "POST", {}), 200);
  });

  it("keeps a token with tubes within its tubes", async () => {
    const limited = bearer(tokens.limited.secret);
    assert.equal(await statusOf("/v1/tubes/mail-2/jobs", limited, "POST", { body: "x" }), 201);
    assert.equal(await statusOf("/v1/tubes/mail-2", limited), 200);
    for (const [path, method, body] of [
      ["/v1/tubes/secret/jobs", "POST", { body: "x" }],
      ["/v1/tubes/secret", "GET", undefined],
      ["/v1/tubes/-?tube=secret", "GET", undefined],
      ["/v1/tubes/mail-2/move", "POST", { states: ["ready"], to: "secret" }],
      // Jobs by their ids may be of any tube: one is not had by moving it here.
      ["/v1/jobs/1/move", "POST", { to: "mail-2" }],
      ["/v1/jobs/1/update", "POST", { tube: "mail-2" }],
      ["/v1/reserve", "POST", { tubes: ["mail-2", "secret"], wait: 0 }],
      ["/v1/reserve", "POST", { wait: 0 }],
      ["/v1/tubes", "GET", undefined],
      ["/v1/jobs", "GET", undefined],
      ["/v1/jobs/1", "GET", undefined],
      ["/v1/stats", "GET", undefined],
      ["/metrics", "GET", undefined],
    ] as const) {
      const status = await statusOf(path, limited, method, body);
      assert.ok(status === 403 || (status === 400 && path === "/v1/reserve"), `${method} ${path}: ${status}`);
    }
  });

  it("lets dead jobs go to any tube only for a token of all tubes", async () => {
    for (const [{ secret }, tube, status] of [
      [tokens.limited, "mail-2", 403],
      [tokens.short, "x", 403],
      [tokens.operator, "x", 200],
    ] as const) {
      assert.equal(await statusOf(`/v1/tubes/${tube}/jobs`, bearer(secret), "POST", { body: "x" }), 201);
      const redrive = await statusOf(`/v1/tubes/${tube}/redrive`, bearer(secret), "POST", {});
      assert.equal(redrive, status, tube);
    }
  });

  it("doesn't take a body that names tubes for what a request works on", async () => {
    const root = bearer(tokens.root.secret);
    const put = await ask("/v1/tubes/secret-4/jobs", root, "POST", { body: "x", delay: 1000 });
    const { id } = (await put.json()) as { id: number };
    assert.equal(await statusOf("/v1/batches", root, "POST", { name: "secret-4" }), 201);
    const body = { tubes: ["mail-4"] };
    for (const [method, path] of [
      ["POST", `/v1/jobs/${id}/kick`],
      ["POST", `/v1/jobs/${id}/reserve`],
      ["DELETE", `/v1/jobs/${id}`],
      ["DELETE", "/v1/settings/secret-4"],
      ["POST", "/v1/batches/secret-4/cancel"],
      ["POST", "/v1/batches/secret-4/commit"],
      ["POST", "/v1/schedules/secret-4/run"],
    ] as const) {
      const status = await statusOf(path, bearer(tokens.limited.secret), method, body);
      assert.ok(status === 400 || status === 403, `${method} ${path}: ${status}`);
    }
    const job = (await (await ask(`/v1/jobs/${id}`, root)).json()) as { state: string };
    assert.equal(job.state, "delayed");
    const batch = (await (await ask("/v1/batches/secret-4", root)).json()) as { state: string };
    assert.equal(batch.state, "open");
  });

  it("shows a token with tubes only their leases", async () => {
    for (const tube of ["mail-3", "secret-3"]) {
      const path = `/v1/tubes/${tube}/jobs`;
      assert.equal(await statusOf(path, bearer(tokens.worker.secret), "POST", { body: "x" }), 201);
      const body = { tubes: [tube], wait: 0 };
      assert.equal(await statusOf("/v1/reserve", bearer(tokens.worker.secret), "POST", body), 200);
    }
    const tubesOf = async (secret: string): Promise<string[]> => {
      const answer = await ask("/v1/leases", bearer(secret));
      const { items, total } = (await answer.json()) as { items: { tube: string }[]; total: number };
      assert.equal(items.length, total);
      return items.map(({ tube }) => tube).sort();
    };
    assert.deepEqual(await tubesOf(tokens.limited.secret), ["mail-3"]);
    assert.deepEqual(await tubesOf(tokens.viewer.secret), ["mail-3", "secret-3"]);
  });

  it("refuses large requests without a token", async () => {
    const { hostname, port } = new URL(base);
    const socket = connect(Number(port), hostname);
    socket.on("error", () => {});
    const head = ["POST /v1/session HTTP/1.1", "Host: localhost", "Content-Type: application/json"];
    socket.write([...head, "Content-Length: 8000000", "", ""].join("\r\n"));
    const answer = await new Promise((resolve) => socket.once("data", resolve));
    socket.destroy();
    assert.match(`${answer}`, /^HTTP\/1\.1 413 /);
    const long = { token: "x".repeat(20_000) };
    assert.equal(await statusOf("/v1/session", {}, "POST", long), 413);
  });

  it("starts and ends a session for a token", async () => {
    const begun = await ask("/v1/session", {}, "POST", { token: tokens.viewer.secret });
    assert.equal(begun.status, 204);
    const cookie = begun.headers.get("set-cookie") ?? "";
    assert.match(cookie, /^runnerbean_session=[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/);
    const session = { cookie: `other=1; ${cookie.split(";")[0]}` };
    assert.equal(await statusOf("/v1/stats", session), 200);
    const who = (await (await ask("/v1/session", session)).json()) as Record<string, unknown>;
    assert.deepEqual(who, {
      name: "eyes",
      roles: ["viewer"],
      permissions: ["metrics", "view", "bodies"],
      tubes: null,
    });
    // A page of another site may neither begin nor use one.
    const foreign = { ...session, "sec-fetch-site": "cross-site" };
    assert.equal(await statusOf("/v1/session", foreign, "DELETE"), 403);
    assert.equal(await statusOf("/v1/session", session, "DELETE"), 204);
    assert.equal(await statusOf("/v1/stats", session), 401);
    assert.equal(await statusOf("/v1/session", {}, "POST", { token: "wrong" }), 401);
  });

  it("forgets a removed token and its sessions at SIGHUP", async () => {
    const begun = await ask("/v1/session", {}, "POST", { token: tokens.gone.secret });
    const session = { cookie: begun.headers.get("set-cookie")!.split(";")[0]! };
    assert.equal(await statusOf("/v1/stats", session), 200);
    const worker = bearer(tokens.worker.secret);
    const waiting = statusOf("/v1/reserve", bearer(tokens.leaving.secret), "POST", {
      tubes: ["waited-for"],
      wait: 200,
    });
    const tube = async (): Promise<{ waiters: number; jobs: { ready: number } }> =>
      (await (await ask("/v1/tubes/waited-for?missing=zero", bearer(tokens.root.secret))).json()) as never;
    await eventually("it waits", async () => (await tube()).waiters === 1);
    const stay = LINES.filter((line) => line !== tokens.gone.line && line !== tokens.leaving.line);
    writeFileSync(guarded.tokenFile, stay.join(""));
    guarded.server.signal("SIGHUP");
    await untilItSays(guarded.server, /configuration read again/);
    assert.equal(await waiting, 401, "its wait ends at once");
    assert.equal(await statusOf("/v1/tubes/waited-for/jobs", worker, "POST", { body: "x" }), 201);
    assert.equal((await tube()).jobs.ready, 1, "and it gets no job");
    for (let attempt = 0; (await statusOf("/v1/stats", session)) !== 401; attempt++)
      assert.ok(attempt < 1000, "it is let in again and again");
    assert.equal(await statusOf("/v1/stats", bearer(tokens.gone.secret)), 401);
    assert.equal(await statusOf("/v1/stats", bearer(tokens.viewer.secret)), 200);
  });

  it("reports in metrics whether the last reload succeeded", async () => {
    const series = /^runnerbean_config_last_reload_(?:successful|success_timestamp_seconds) (\S+)$/gm;
    const reloads = async (): Promise<number[]> => {
      const text = await (await ask("/metrics", bearer(tokens.monitor.secret))).text();
      return [...text.matchAll(series)].map(([, value]) => Number(value));
    };
    const [isTaken, takenAt] = await reloads();
    assert.equal(isTaken, 1);
    writeFileSync(guarded.config, "port = true\n");
    guarded.server.signal("SIGHUP");
    await eventually("it was not taken", async () => (await reloads())[0] === 0);
    assert.equal((await reloads())[1], takenAt);
    writeFileSync(guarded.config, "# nothing\n");
    guarded.server.signal("SIGHUP");
    await eventually("it is taken", async () => (await reloads())[0] === 1);
    assert.ok((await reloads())[1]! > takenAt!);
  });

  it("reloads the configuration for an admin, and names every mistake", async () => {
    const reload = (secret: string): Promise<Response> => ask("/v1/server/reload", bearer(secret), "POST");
    assert.equal((await reload(tokens.operator.secret)).status, 403);
    writeFileSync(guarded.config, 'max-job-size = "2K"\nlog-level = "nonsense"\nport = true\n');
    const refused = await reload(tokens.root.secret);
    assert.equal(refused.status, 422);
    assert.match(
      ((await refused.json()) as { detail: string }).detail,
      /runnerbean\.toml:2: .*runnerbean\.toml:3: /s,
    );
    writeFileSync(guarded.config, 'max-job-size = "2K"\nlog-level = "debug"\n');
    const taken = await Promise.all([reload(tokens.root.secret), reload(tokens.root.secret)]);
    assert.deepEqual(await Promise.all(taken.map((each) => each.json())), [
      { changed: ["log-level"], needsRestart: ["max-job-size"] },
      { changed: [], needsRestart: ["max-job-size"] },
    ]);
    writeFileSync(guarded.config, "# nothing\n");
    assert.equal((await reload(tokens.root.secret)).status, 200);
  });

  it("answers repeated guesses with 429, and logs no secret", async () => {
    let answered = 0;
    while ((await statusOf("/v1/stats", bearer(drawSecret()))) === 401)
      assert.ok(++answered <= 10, "it goes on answering");
    assert.equal(await statusOf("/livez"), 200);
    // Another client at this address has a valid token.
    assert.equal(await statusOf("/v1/stats", bearer(tokens.root.secret)), 200);
    for (const { secret } of Object.values(tokens)) assert.ok(!guarded.server.stderr.includes(secret));
  });
});

describe("http auth with passwords", () => {
  it("checks ten concurrent guesses of an address", async (t) => {
    const password = "correct-horse-battery";
    const [person] = parseTokenFile(`person viewer certificate`).tokens;
    const cost = { N: 2 ** 14, r: 8, p: 1 };
    const hash = scryptSync(password, "salt", 32, cost).toString("base64url");
    const line = tokenLine({ ...person!, proof: { kind: "scrypt", cost, salt: "salt", hash } });
    const flags = ["--http", "127.0.0.1:0"];
    const folder = temporaryFolder(t, "http-guesses");
    const { server } = await GuardedServer.start(folder, `${line}\n`, 0, () => "", flags);
    t.after(() => server.stop());
    const base = /http:\/\/127\.0\.0\.1:\d+/.exec(server.stderr)![0];
    const statusOf = async (guess: string): Promise<number> => {
      const authorization = `Basic ${Buffer.from(`person:${guess}`).toString("base64")}`;
      return (await fetch(`${base}/v1/stats`, { headers: { authorization } })).status;
    };
    // Any number of right ones: many clients behind one address aren't locked out.
    const right = await Promise.all(Array.from({ length: 12 }, () => statusOf(password)));
    assert.deepEqual(new Set(right), new Set([200]));
    const guesses = Array.from({ length: 30 }, (_, index) => (index === 25 ? password : `wrong-${index}`));
    const statuses = await Promise.all(guesses.map(statusOf));
    // The right one may be among the first ten to arrive: their order isn't guaranteed.
    assert.equal(statuses.filter((status) => status === 401).length, 10);
    assert.ok(statuses.filter((status) => status === 429).length >= 19, `${statuses}`);
  });
});

describe("http without tokens", () => {
  it("stays on the machine; with a token file other machines may reach it", async (t) => {
    const refused = await launch({ kind: "ours", flags: ["--http", "0.0.0.0:0"] });
    assert.equal((await refused.refused()).code, 5);
    assert.match(refused.stderr, /--token-file/);
    const tokenFile = `${temporaryFolder(t, "http-open")}/tokens`;
    writeFileSync(tokenFile, tokens.viewer.line, { mode: 0o600 });
    const flags = ["--http", "0.0.0.0:0", "--token-file", tokenFile];
    const server = await startServer({ kind: "ours", flags });
    assert.equal((await server.stop()).code, 0);
  });
});
