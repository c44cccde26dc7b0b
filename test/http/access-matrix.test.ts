// Tests who may do what: every operation of the OpenAPI document, by itself and in a stream, and
// every command, for each role, with and without `tubes`, in an allowed and in a forbidden tube.
//
// Every text that a client can write has a marker, so that no answer shows one to a role that may
// not read it. An operation or command that access-table.ts lacks fails the test.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { commandName, COMMANDS as KNOWN_COMMANDS } from "../../src/protocol/commands.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { type HttpAnswer, HttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { SKIP_UNTIL_NIGHT } from "../support/whole.ts";
import {
  accessMarkdown,
  COMMANDS,
  type Entry,
  LIVE,
  mayDo,
  OPERATIONS,
  type Operation,
  ROLES,
  type Wire,
} from "./access-table.ts";

const PAGE = new URL("../../docs/security.md", import.meta.url);
const TABLES = /(<!-- access: begin -->\n\n)([\s\S]*?)(\n\n<!-- access: end -->)/;

const OURS = "mail-in";
const OTHERS = "secret-out";
const TEXTS = ["body", "meta", "unique", "group", "reason"];
const NAMES = ["worker", "schedule", "batch", "tube"];

/** A token: its role, and whether it is limited to `mail-*`. Without a role, there is no token. */
interface Client {
  readonly name: string;
  readonly role: string | undefined;
  readonly isLimited: boolean;
  readonly secret: string;
}

/** What a request is about, made anew for each change. */
interface Place {
  readonly tube: string;
  readonly ready: number;
  readonly buried: number;
  readonly reserved: number;
  readonly lease: string;
  readonly batch: string;
  readonly schedule: string;
  readonly task: string;
}

const markOf = (tube: string, what: string): string => `${tube === OURS ? "IN" : "OUT"}${what}MARK`;

describe("who may do what", () => {
  const folder = temporaryFolder({ after }, "access-matrix");
  const logFolder = temporaryFolder({ after }, "access-matrix-log");
  const secrets = new Map<string, { secret: string; line: string }>();
  const clients: Client[] = [{ name: "nobody", role: undefined, isLimited: false, secret: "" }];
  for (const role of Object.keys(ROLES))
    for (const isLimited of role === "admin" ? [false] : [false, true]) {
      const name = isLimited ? `limited-${role}` : role;
      const token = newToken(name, isLimited ? `${role} tubes=mail-*` : role);
      secrets.set(name, token);
      clients.push({ name, role, isLimited, secret: token.secret });
    }
  const boss = newToken("boss", "admin");
  /** What each client has seen of the markers. */
  const seen = new Map<string, Set<string>>();
  let guarded: GuardedServer;
  let http: HttpServer;
  let operations: string[];
  let count = 0;
  const places = new Map<string, Place>();

  before(async () => {
    guarded = await GuardedServer.start(
      folder,
      [...secrets.values(), boss].map(({ line }) => line).join(""),
      1,
      ([port]) => `[[listener]]\naddress = "127.0.0.1:${port}"\nauth = "token"\n`,
      ["--http", "127.0.0.1:0", "--shards", "2", "-b", logFolder],
    );
    const port = Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(guarded.server.stderr)![1]);
    http = new HttpServer(guarded.server, port);
    const { paths } = (await http.ask("/v1/openapi.json")).json as { paths: Record<string, object> };
    operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    for (const tube of [OURS, OTHERS]) await named(tube);
  });
  after(() => guarded.server.stop());

  const signIn = async (secret: string): Promise<WireClient> => {
    const client = await WireClient.connect({ host: "127.0.0.1", port: guarded.ports[0]! });
    assert.equal((await client.ask(`auth ${secret}`)).line, "AUTHENTICATED");
    return client;
  };
  /** Leaves a named worker that waits at the tube. */
  const named = async (tube: string): Promise<void> => {
    const worker = await signIn(boss.secret);
    await worker.ask(`name ${markOf(tube, "worker")}`);
    await worker.ask(`use ${tube}`);
  };

  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects of it
  const order = async (method: string, path: string, json?: unknown, headers = {}): Promise<any> => {
    const answer = await http.ask(path, {
      ...{ method, headers: { authorization: `Bearer ${boss.secret}`, ...headers } },
      ...(json === undefined ? {} : { json }),
    });
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.json;
  };

  /** Makes everything about a tube anew: a ready, a buried and a reserved job, and so on. */
  const freshen = async (tube: string): Promise<Place> => {
    count++;
    await order("DELETE", `/v1/tubes/${tube}?force=true`);
    const mark = (what: string): string => markOf(tube, what);
    const put = async (): Promise<number> =>
      (
        await order("POST", `/v1/tubes/${tube}/jobs`, {
          ...{ body: mark("body"), meta: { of: mark("meta") }, ttr: 600 },
          ...{ unique: `${mark("unique")}${++count}`, group: mark("group") },
        })
      ).id;
    const [buried, reserved, ready] = [await put(), await put(), await put()];
    const leaseOf = async (id: number): Promise<string> =>
      (await order("POST", `/v1/jobs/${id}/reserve`)).lease;
    await order("POST", `/v1/leases/${await leaseOf(buried)}/bury`, { reason: mark("reason") });
    const schedule = mark("schedule");
    const { body, meta, group } = { body: mark("body"), meta: { of: mark("meta") }, group: mark("group") };
    await order("PUT", `/v1/schedules/${schedule}`, { tube, every: 3600, body, meta, group });
    const batch = `${mark("batch")}-${count}`;
    await order("POST", "/v1/batches", { name: batch, keep: 60 });
    const task = (
      await order("POST", `/v1/tubes/${tube}/kick`, { states: ["delayed"] }, { prefer: "respond-async" })
    ).id;
    const place = { tube, ready, buried, reserved, lease: await leaseOf(reserved), batch, schedule, task };
    places.set(tube, place);
    return place;
  };

  /** Whether the entry's answer to the client is a success, a refusal, or that of a stranger. */
  const verdictOf = (
    entry: Entry,
    { role, isLimited }: Client,
    isOurs: boolean,
  ): "yes" | "no" | "strange" => {
    if (!mayDo(role, entry)) return "no";
    if (!isLimited || entry.may === null || entry.limited === "yes") return "yes";
    if (entry.limited === "no") return "no";
    if (isOurs) return "yes";
    return entry.strange === undefined ? "no" : "strange";
  };

  const statusOf = (operation: Operation, client: Client, isOurs: boolean): number => {
    const verdict = verdictOf(operation, client, isOurs);
    if (verdict === "yes") return operation.status;
    if (verdict === "strange") return operation.strange!;
    return client.role === undefined ? 401 : 403;
  };

  /** Notes the markers in an answer; fails if the client may not see one that it didn't name. */
  const look = (text: string, { name, role, isLimited }: Client, asked: string, visible: string[]): void => {
    const its = seen.get(name) ?? new Set();
    seen.set(name, its);
    for (const tube of [OURS, OTHERS])
      for (const what of [...TEXTS, ...NAMES]) {
        const mark = what === "tube" ? tube : markOf(tube, what);
        if (!text.includes(mark) || asked.includes(mark)) continue;
        its.add(what);
        const where = `${name} sees ${mark} after ${asked.slice(0, 200)}: ${text.slice(0, 400)}`;
        assert.ok(role !== undefined, where);
        assert.ok(!isLimited || tube === OURS, where);
        if (TEXTS.includes(what)) assert.ok(visible.includes(what), where);
      }
  };
  /** Over HTTP, workers get bodies and metadata of jobs that they reserve, and no other text. */
  const visibleOverHttp = ({ role = "" }: Client): string[] => {
    if (ROLES[role]?.includes("bodies") === true) return TEXTS;
    return role === "worker" ? ["body", "meta"] : [];
  };

  const ask = async (
    name: string,
    operation: Operation,
    client: Client,
    place: Place,
    more: { other?: string; headers?: Readonly<Record<string, string>>; method?: string } = {},
  ): Promise<HttpAnswer> => {
    const [method = "", template = ""] = name.split(" ");
    let { lease } = place;
    // A worker's own lease, unless it may not reserve from the tube.
    const mayHold = client.role !== undefined && ROLES[client.role]!.includes("work");
    if (name.includes("lease") && mayHold && (!client.isLimited || place.tube === OURS)) {
      const taken = await http.ask("/v1/reserve", {
        headers: { authorization: `Bearer ${client.secret}` },
        json: { tubes: [place.tube], wait: 0 },
      });
      lease = taken.json.jobs[0]?.lease ?? lease;
    }
    const path = template
      .replace("{tube}", place.tube)
      .replace("/jobs/{id}", `/jobs/${place[operation.job ?? "ready"]}`)
      .replace("/tasks/{id}", `/tasks/${place.task}`)
      .replace("/connections/{id}", "/connections/{connection}")
      .replace("{lease}", lease)
      .replace("{pattern}", place.tube)
      .replace("{name}", place.schedule)
      .replace("{batch}", place.batch);
    const isConnection = path.includes("{connection}");
    const spare = isConnection ? await signIn(boss.secret) : undefined;
    await spare?.ask("name spare");
    const id = isConnection
      ? (await order("GET", "/v1/connections?name=spare&sort=age")).items.at(-1).id
      : "";
    const query = operation.query === undefined ? "" : `?${operation.query}`;
    const isLogin = name === "POST /v1/session";
    const names = { tube: place.tube, other: more.other ?? "mail-other", lease, batch: place.batch };
    const json = isLogin ? { token: client.secret || boss.secret } : operation.json?.(names);
    const full = path.replace("{connection}", id) + query;
    const answer = await http.ask(full, {
      method: more.method ?? method,
      headers: {
        ...(client.role === undefined ? {} : { authorization: `Bearer ${client.secret}` }),
        ...operation.headers,
        ...more.headers,
      },
      ...(json === undefined ? {} : { json }),
    });
    spare?.close();
    const asked = `${method} ${full} ${JSON.stringify(json)}`;
    // A backup holds everything, for admins.
    if (name !== "GET /v1/backup") look(answer.text, client, asked, visibleOverHttp(client));
    return answer;
  };

  /** Undoes what would stop the following requests. */
  const goOn = async (name: string): Promise<void> => {
    if (name === "PUT /v1/server/drain") await order("DELETE", "/v1/server/drain");
    if (name === "PUT /v1/tubes/{tube}/pause") await order("DELETE", `/v1/tubes/${OURS}/pause`);
    if (name === "PUT /v1/tubes/{tube}/pause") await order("DELETE", `/v1/tubes/${OTHERS}/pause`);
  };
  const isRead = (name: string): boolean => name.startsWith("GET ") && name !== "GET /v1/backup";
  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects of it
  const audited = async (): Promise<any[]> => (await order("GET", "/v1/audit")).items;
  /** The last change, without the count that it gets when its task ends. */
  const lastChange = async (): Promise<unknown> => ({ ...(await audited())[0], affected: "later" });
  const forOurs = ({ isLimited }: Client): string[] => (isLimited ? [OURS, OTHERS] : [OURS]);

  it("has an answer for each operation and command", async () => {
    assert.deepEqual(Object.keys(OPERATIONS).sort(), operations.sort());
    const headers = { authorization: `Bearer ${boss.secret}` };
    const { json } = await http.ask("/v1/events?get=/v1/none", { headers });
    const live: string[] = json.detail.match(/(?<= )\/v1\/[^,\s]*[^,.\s]/g);
    assert.deepEqual(live.map((path) => path.replace(/:(\w+)/g, "{$1}")).sort(), LIVE.toSorted());
    assert.deepEqual(Object.keys(COMMANDS).sort(), KNOWN_COMMANDS.map(commandName).sort());
  });

  interface Case {
    readonly client: Client;
    readonly tube: string;
    readonly verdict: "yes" | "no" | "strange";
    readonly status: number;
  }
  /**
   * Runs of all files play changes that are allowed, each of which needs its place made anew, with
   * the weakest role that may, limited and not.
   */
  const played = <T extends Omit<Case, "status">>(allowed: readonly T[]): readonly T[] => {
    if (SKIP_UNTIL_NIGHT === false) return allowed;
    const byKind = Map.groupBy(allowed, (each) => `${each.client.isLimited} ${each.tube} ${each.verdict}`);
    return [...byKind.values()].map(([first]) => first!);
  };
  const casesOf = (operation: Operation): Case[] =>
    (operation.isLimitedByRate === true ? clients.slice(0, 1) : clients).flatMap((client) =>
      forOurs(client).map((tube) => ({
        ...{ client, tube },
        verdict: verdictOf(operation, client, tube === OURS),
        status: statusOf(operation, client, tube === OURS),
      })),
    );

  it("answers each operation as the table says, and records each change", async () => {
    for (const tube of [OURS, OTHERS]) await freshen(tube);
    for (const [name, operation] of Object.entries(OPERATIONS)) {
      const cases = casesOf(operation);
      await readOrRefused(
        name,
        operation,
        cases.filter(({ verdict }) => isRead(name) || verdict === "no"),
      );
      const allowed = cases.filter(({ verdict }) => !isRead(name) && verdict !== "no");
      for (const each of played(allowed)) await change(name, operation, each);
    }
  });
  const readOrRefused = async (name: string, operation: Operation, cases: readonly Case[]): Promise<void> => {
    const before = await lastChange();
    for (const { client, tube, status } of cases)
      for (const method of isRead(name) ? ["GET", "HEAD"] : [undefined]) {
        const more = method === undefined ? {} : { method };
        const answer = await ask(name, operation, client, places.get(tube)!, more);
        assert.equal(answer.status, status, `${client.name}, ${tube}: ${method} ${name}: ${answer.text}`);
      }
    assert.deepEqual(await lastChange(), before, `${name}: neither reads nor refusals are recorded`);
  };
  const change = async (name: string, operation: Operation, given: Case): Promise<void> => {
    const { client, tube, verdict, status } = given;
    const place = await freshen(tube);
    const isRecorded = verdict === "yes" && operation.audited !== undefined;
    const before = isRecorded ? undefined : await lastChange();
    const answer = await ask(name, operation, client, place);
    const what = `${client.name}, ${tube}: ${name}: ${answer.text.slice(0, 300)}`;
    assert.equal(answer.status, status, what);
    if (isRecorded) {
      const [last] = await audited();
      const [method, template = ""] = name.split(" ");
      const { at: _, what: values, before: _old, ...rest } = last;
      const route = template.replaceAll(/\{(\w+)\}/g, ":$1");
      const { affected = null } = operation.audited;
      const who = client.name;
      const facts = { who, address: "127.0.0.1", way: "http", method, route, affected, status };
      assert.deepEqual(rest, facts, what);
      for (const [key, value] of Object.entries(operation.audited.what ?? {}))
        assert.equal(values[key], value, what);
      for (const [, parameter] of template.matchAll(/\{(\w+)\}/g)) assert.ok(values[parameter!], what);
    } else assert.deepEqual(await lastChange(), before, what);
    await goOn(name);
  };

  it("moves no job out of a token's tubes", async () => {
    const client = clients.find((each) => each.name === "limited-operator")!;
    const name = "POST /v1/tubes/{tube}/move";
    const answer = await ask(name, OPERATIONS[name]!, client, await freshen(OURS), { other: OTHERS });
    assert.equal(answer.status, 403);
  });

  const streamed = async (template: string, client: Client, tube: string): Promise<void> => {
    const { task, ready } = places.get(tube)!;
    const id = template.includes("tasks") ? task : `${ready}`;
    const path = `/v1/events?get=${template.replace("{tube}", tube).replace("{id}", id)}`;
    const answer = await http.ask(path, {
      headers: client.role === undefined ? {} : { authorization: `Bearer ${client.secret}` },
    });
    const its = statusOf(OPERATIONS[`GET ${template}`]!, client, tube === OURS);
    const status = [401, 403].includes(its) ? its : 200;
    assert.equal(answer.status, status, `${client.name}: ${path}: ${answer.text.slice(0, 300)}`);
    if (status === 200) assert.equal(answer.json.answers[0].status, its, path);
    look(answer.text, client, path, visibleOverHttp(client));
  };
  it("streams what each operation answers to those whom it answers", async () => {
    for (const tube of [OURS, OTHERS]) await freshen(tube);
    for (const template of LIVE)
      for (const client of clients)
        for (const tube of forOurs(client)) await streamed(template, client, tube);
  });

  it("refuses each operation with an effect to pages of other sites, whatever their token", async () => {
    const client = clients.find(({ role }) => role === "admin")!;
    const place = await freshen(OURS);
    for (const [name, operation] of Object.entries(OPERATIONS)) {
      if (operation.isLimitedByRate === true) continue;
      for (const headers of [{ "sec-fetch-site": "cross-site" }, { origin: "https://evil.example" }]) {
        const before = await lastChange();
        const answer = await ask(name, operation, client, place, { headers: headers as never });
        if (isRead(name)) assert.equal(answer.status, operation.status, name);
        else assert.deepEqual([answer.status, answer.json.code], [403, "cross-site"], name);
        assert.deepEqual(await lastChange(), before, name);
      }
    }
  });

  it("does each change once for a key, answers twice alike, and records it once", async () => {
    const client = clients.find(({ role }) => role === "admin")!;
    for (const [name, operation] of Object.entries(OPERATIONS)) {
      // A session has no owner yet, and a backup is not an answer that could be kept.
      if (name.startsWith("GET ") || name.includes("/session")) continue;
      const place = await freshen(OURS);
      // A second request would take another lease or connection, and be another request.
      if (name.includes("/connections/") || name.includes("lease")) continue;
      const headers = { "idempotency-key": `${name.replace(" ", ":")}` };
      const first = await ask(name, operation, client, place, { headers });
      assert.equal(first.status, operation.status, `${name}: ${first.text}`);
      const before = await lastChange();
      const again = await ask(name, operation, client, place, { headers });
      assert.deepEqual([again.status, again.text], [first.status, first.text], name);
      assert.deepEqual(await lastChange(), before, name);
      await goOn(name);
    }
  });

  it("keeps the keys of two identities apart", async () => {
    const headers = { "idempotency-key": "shared" };
    const name = "POST /v1/tubes/{tube}/jobs";
    const ids = new Set<number>();
    for (const role of ["producer", "limited-producer", "worker", "admin"])
      for (let time = 0; time < 2; time++) {
        const client = clients.find((each) => each.name === role)!;
        const answer = await ask(name, OPERATIONS[name]!, client, places.get(OURS)!, { headers });
        assert.equal(answer.status, 201);
        ids.add(answer.json.id);
      }
    assert.equal(ids.size, 4);
  });

  /** Prepares a connection as a command needs it, and returns the job that its line names. */
  const prepare = async (wire: WireClient, command: Wire, client: Client, place: Place): Promise<number> => {
    if (command.first === "uses") await wire.ask(`use ${place.tube}`);
    if (command.first !== "watches" && command.first !== "holds") return place.ready;
    await wire.ask(`watch ${place.tube}`);
    await wire.ask("ignore default");
    const mayHold = ROLES[client.role!]!.includes("work") && (!client.isLimited || place.tube === OURS);
    if (command.first === "watches" || !mayHold) return place.ready;
    return Number((await wire.ask("reserve-with-timeout 0")).line.split(" ")[1]);
  };

  /** Sends the command, and returns the first line of its reply and everything that it shows. */
  const tryCommand = async (
    name: string,
    client: Client,
    place: Place,
  ): Promise<[string, string, string]> => {
    const command = COMMANDS[name]!;
    const wire = await signIn(client.secret);
    const job = await prepare(wire, command, client, place);
    const line = command.line
      .replace("{tube}", place.tube)
      .replace("{other}", place.tube === OURS ? "mail-other" : OTHERS)
      .replace("{job}", `${job}`)
      .replace("{schedule}", place.schedule)
      .replace("{batch}", place.batch);
    if (name === "quit") {
      wire.send("quit\r\n");
      await wire.expectEnd();
      return ["none:", "", line];
    }
    const reply = await wire.ask(line);
    const shown = [reply];
    if (reply.line.startsWith("RESERVED_BATCH"))
      for (let left = Number(reply.line.split(" ")[1]); left > 0; left--) shown.push(await wire.readReply());
    wire.close();
    const texts = shown.map((each) => `${each.line} ${each.body?.toString("latin1") ?? ""}`);
    return [reply.line, texts.join("\n"), line];
  };

  /** By id, a limited token may act only on jobs that it holds. */
  const verdictOnWire = (command: Wire, client: Client, tube: string): "yes" | "no" | "strange" => {
    const mayHold = ROLES[client.role!]!.includes("work");
    if (client.isLimited && command.limited === "its own" && !mayHold) return "no";
    return verdictOf(command, client, tube === OURS);
  };

  it("answers each command as the table says", async () => {
    const withToken = clients.filter(({ role }) => role !== undefined);
    for (const known of KNOWN_COMMANDS) {
      const name = commandName(known);
      const command = COMMANDS[name]!;
      const usual = command.reply ?? known.replies[0]!.split(" ")[0];
      const cases = withToken.flatMap((client) =>
        forOurs(client).map((tube) => ({ client, tube, verdict: verdictOnWire(command, client, tube) })),
      );
      const refused = cases.filter(({ verdict }) => verdict === "no");
      const allowed = played(cases.filter(({ verdict }) => verdict !== "no"));
      for (const { client, tube, verdict } of [...refused, ...allowed]) {
        const place = verdict === "no" ? places.get(tube)! : await freshen(tube);
        const [reply, shown, line] = await tryCommand(name, client, place);
        const what = `${client.name}: ${line}: ${reply}`;
        assert.equal(reply.split(" ")[0], verdict === "yes" ? usual : "UNAUTHORIZED", what);
        const seesTexts = ROLES[client.role!]!.some((each) => each === "bodies" || each === "work");
        const asked = `${command.line} ${tube} ${place.schedule} ${place.batch}`;
        look(shown, client, asked, seesTexts ? TEXTS : []);
      }
    }
  });

  it("lets those see texts and names who may", () => {
    const all = [...TEXTS, ...NAMES].sort();
    for (const role of ["viewer", "operator", "admin"])
      assert.deepEqual([...seen.get(role)!].sort(), all, role);
    assert.deepEqual([...seen.get("monitor")!].sort(), [...NAMES].sort());
    assert.deepEqual([...(seen.get("nobody") ?? [])], []);
  });

  it("is in docs/security.md (UPDATE=1 npm test -- access-matrix writes it)", () => {
    const page = readFileSync(PAGE, "utf8");
    if (process.env["UPDATE"] === "1")
      writeFileSync(
        PAGE,
        page.replace(TABLES, (_, begin, _old, end) => begin + accessMarkdown() + end),
      );
    else assert.equal(TABLES.exec(page)?.[2], accessMarkdown());
  });
});
