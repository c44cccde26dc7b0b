// Tests of backups of a running server: what was acknowledged is in it, and neither a slow client
// nor a full disk nor a kill leaves anything behind.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { get, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { BackupReader } from "../../src/base/backup-archive.ts";
import { eventually } from "../support/eventually.ts";
import { smallDisk } from "../support/machine/small-disk.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { KillLedger } from "../support/server/kill-ledger.ts";
import { startServer } from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { atNight, inWhole } from "../support/whole.ts";

const CLIENTS = 3;
/** Backups one after the other: a later one does not differ from the first. */
const ROUNDS = atNight(2, 1);

function temporary(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-backup-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function started(t: TestContext, folder: string, ...flags: string[]): Promise<HttpServer> {
  const server = await startHttpServer("--shards", "2", "-b", folder, "-s", "1048576", ...flags);
  t.after(() => server.process.kill());
  return server;
}

/** Begins a backup and reads nothing of it. */
function unread(
  t: TestContext,
  { port }: Pick<HttpServer, "port">,
  rate = 1,
  headers: Record<string, string> = {},
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asked = get({ host: "127.0.0.1", port, path: `/v1/backup?rate=${rate}`, headers }, (answer) => {
      answer.on("error", () => {});
      t.after(() => answer.destroy());
      resolve(answer);
    });
    asked.on("error", reject);
  });
}

const logOf = async (server: HttpServer) => (await server.ask("/v1/binlog")).json;

/** Puts jobs of 60 kB that stay. */
async function fill(server: HttpServer, jobs: number): Promise<void> {
  const client = await WireClient.connect(server.process.address);
  for (let i = 0; i < jobs; i++) assert.match((await client.put("x".repeat(60_000))).line, /^INSERTED/);
  client.socket.destroy();
}

/** Puts jobs and deletes them until the log has left this many segments. */
async function churn(server: HttpServer, segments: number): Promise<void> {
  const client = await WireClient.connect(server.process.address);
  const { currentFile } = await logOf(server);
  const body = "x".repeat(50_000);
  while ((await logOf(server)).currentFile < currentFile + segments) {
    for (let i = 0; i < 20; i++) {
      const { line } = await client.put(body);
      const id = /^INSERTED (\d+)$/.exec(line)?.[1] ?? assert.fail(line);
      assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
    }
  }
  client.socket.destroy();
}

/** The entries that no change since then has touched. */
function settledOf(before: KillLedger, now: KillLedger): KillLedger {
  const settled = new KillLedger();
  for (const [id, entry] of before.jobs) {
    const later = now.jobs.get(id);
    if (!entry.unsure && later?.changes === entry.changes && !later.unsure)
      settled.jobs.set(id, { ...entry });
  }
  return settled;
}

function copyOf(ledger: KillLedger): KillLedger {
  const copy = new KillLedger();
  for (const [id, entry] of ledger.jobs) copy.jobs.set(id, { ...entry });
  return copy;
}

describe("a backup of a running server", { concurrency: 2 }, () => {
  for (const flags of [["-f", "0"], ...inWhole([["-F"]], []), ...atNight([["-f", "50"]], [])]) {
    it(`with ${flags.join(" ")} has what was acknowledged before it began`, async (t) => {
      const folder = temporary(t);
      const server = await started(t, folder, ...flags);
      const ledger = new KillLedger();
      const clients = await Promise.all(
        Array.from({ length: CLIENTS }, () => WireClient.connect(server.process.address)),
      );
      const work = clients.map((client, seed) => ledger.work(client, seed));
      const copies = temporary(t);
      for (let round = 1; round <= ROUNDS; round++) {
        await eventually("jobs are put", () => ledger.acknowledgedPuts > 300 * round);
        const before = copyOf(ledger);
        const file = join(copies, `${round}.tar`);
        const made = await runTool(["backup", server.url, file, "--rate", "8"]);
        assert.equal(made.code, 0, made.stderr);
        const settled = settledOf(before, ledger);
        assert.ok(settled.jobs.size > 100, `${settled.jobs.size} jobs to compare`);
        const restored = await runTool(["restore", file, join(copies, `${round}`)]);
        assert.equal(restored.code, 0, restored.stderr);
        const flagsThere = ["-b", join(copies, `${round}`), "--shards", "3"];
        const there = await startServer({ kind: "ours", flags: flagsThere });
        t.after(() => there.kill());
        const client = await WireClient.connect(there.address);
        assert.deepEqual(await settled.check(client), []);
        // No id of the old server is given again.
        const { line } = await client.put("new");
        assert.ok(Number(line.split(" ")[1]) > Math.max(...before.jobs.keys()), line);
        client.socket.destroy();
        await there.stop();
      }
      await server.process.kill();
      await Promise.all(work);
    });
  }

  it("keeps what it reads while compaction goes on, and gives it back", async (t) => {
    const folder = temporary(t);
    const server = await started(t, folder);
    await fill(server, 140);
    const first = await unread(t, server);
    const { oldestFile } = await logOf(server);
    await churn(server, 16);
    await eventually("dropped segments are kept", async () => (await logOf(server)).backup.kept > 0);
    const second = await server.ask("/v1/backup");
    assert.equal(second.status, 409);
    assert.equal(second.json.code, "backup-under-way");
    first.destroy();
    await eventually("the segments are given back", async () => {
      const { backup } = await logOf(server);
      return !backup.underWay && backup.kept === 0;
    });
    const numbers = readdirSync(folder).map((name) =>
      Number(/runnerbean\.(\d+)/.exec(name)?.[1] ?? Infinity),
    );
    assert.ok(Math.min(...numbers) > oldestFile, "the files are gone");
    assert.equal((await server.ask("/v1/backup")).status, 200);
  });

  it("needs a log, and the permission of an administrator", async (t) => {
    const folder = temporary(t);
    const tokens = join(folder, "tokens");
    const secretOf = async (name: string, role: string): Promise<string> => {
      const made = await runTool(["token", "add", name, "--role", role, "--token-file", tokens]);
      return /rb1_\S+/.exec(made.stdout)?.[0] ?? assert.fail(made.stdout + made.stderr);
    };
    const [operator, admin] = [await secretOf("eve", "operator"), await secretOf("ann", "admin")];
    const bare = await startHttpServer("--token-file", tokens);
    t.after(() => bare.process.kill());
    const as = (secret: string) => ({ headers: { authorization: `Bearer ${secret}` } });
    assert.equal((await bare.ask("/v1/backup")).status, 401);
    assert.equal((await bare.ask("/v1/backup", as(operator))).status, 403);
    const answer = await bare.ask("/v1/backup", as(admin));
    assert.equal(answer.status, 404);
    assert.equal(answer.json.code, "no-binlog");
    assert.equal((await bare.ask("/v1/backup", { method: "HEAD", ...as(admin) })).status, 405);
    const tool = await runTool(["backup", bare.url, join(folder, "b.tar"), "--token", admin]);
    assert.equal(tool.code, 1);
    assert.match(tool.stderr, /started without -b/);
    assert.deepEqual(readdirSync(folder), ["tokens"]);
  });

  it("is recorded as a change is, also if its client takes only a part", async (t) => {
    const server = await started(t, temporary(t));
    await fill(server, 60);
    const recorded = async (): Promise<unknown[]> => {
      const { items } = (await server.ask("/v1/audit")).json;
      return items.map(({ method, route, status }: Record<string, unknown>) => [method, route, status]);
    };
    assert.equal((await server.ask("/v1/backup?rate=1000")).status, 200);
    const entry = ["GET", "/v1/backup", 200];
    assert.deepEqual(await recorded(), [entry]);
    const cut = await unread(t, server);
    assert.equal((await server.ask("/v1/backup")).status, 409);
    cut.destroy();
    await eventually("it has ended", async () => !(await logOf(server)).backup.underWay);
    assert.deepEqual(await recorded(), [entry, entry]);
    const lines = (): number =>
      server.process.stderr.match(/audit: .* GET \/v1\/backup.*: 200/g)?.length ?? 0;
    await eventually("the log has both", () => lines() === 2);
  });

  it("ends when its token is removed", async (t) => {
    const folder = temporary(t);
    const [stays, goes] = [newToken("stays", "admin"), newToken("goes", "admin")];
    const lines = [stays.line, goes.line].join("");
    const flags = ["--http", "127.0.0.1:0", "--shards", "2", "-b", join(folder, "log"), "-s", "1048576"];
    mkdirSync(join(folder, "log"));
    const guarded = await GuardedServer.start(folder, lines, 0, () => "", flags);
    t.after(() => guarded.server.kill());
    const port = Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(guarded.server.stderr)![1]);
    const server = new HttpServer(guarded.server, port);
    const as = ({ secret }: { secret: string }) => ({ authorization: `Bearer ${secret}` });
    await fill(server, 60);
    const answer = await unread(t, server, 1, as(goes));
    assert.equal(answer.statusCode, 200);
    const log = async () => (await server.ask("/v1/binlog", { headers: as(stays) })).json;
    assert.equal((await log()).backup.underWay, true);
    const closed = new Promise((resolve) => answer.once("close", resolve));
    answer.resume();
    writeFileSync(guarded.tokenFile, stays.line);
    guarded.server.signal("SIGHUP");
    await closed;
    assert.equal(answer.complete, false);
    assert.equal((await log()).backup.underWay, false);
  });

  it("that breaks off when the server is killed leaves no file, and no segment", async (t) => {
    const folder = temporary(t);
    const server = await started(t, folder);
    await fill(server, 200);
    const copies = temporary(t);
    const file = join(copies, "b.tar");
    writeFileSync(`${file}.part`, "");
    const exists = await runTool(["backup", server.url, file]);
    assert.match(exists.stderr, /b\.tar\.part exists/);
    rmSync(`${file}.part`);
    const copying = runTool(["backup", server.url, file, "--rate", "1"]);
    const written = () => statSync(`${file}.part`, { throwIfNoEntry: false })?.size ?? 0;
    await eventually("it is being written", () => written() > 0);
    await server.process.kill();
    const { code, stderr } = await copying;
    assert.equal(code, 3, stderr);
    assert.match(stderr, /no backup was made: it broke off after \d+ bytes/);
    assert.deepEqual(readdirSync(copies), []);
    const again = await started(t, folder);
    assert.equal((await runTool(["backup", again.url, file])).code, 0);
    // Half of it, as an interrupted copy leaves it.
    const whole = readFileSync(file);
    writeFileSync(`${file}.half`, whole.subarray(0, whole.length / 2));
    const half = await runTool(["restore", `${file}.half`, join(copies, "half")]);
    assert.equal(half.code, 2);
    assert.match(half.stderr, /it is truncated: it ends after \d+ bytes, for a log of \d+ bytes/);
    const full = await runTool(["restore", file, folder]);
    assert.equal(full.code, 10, "the server uses that directory");
    assert.equal((await runTool(["restore", "-", join(copies, "whole")], { input: whole })).code, 0);
    const twice = await runTool(["restore", file, join(copies, "whole")]);
    assert.match(twice.stderr, /already holds a log/);
  });

  it("gives way when the disk runs full", async (t) => {
    const folder = smallDisk(t, "20m");
    if (folder === undefined) return;
    const server = await started(t, folder);
    await fill(server, 140);
    const client = await WireClient.connect(server.process.address);
    const stalled = await unread(t, server);
    // Everything is rewritten, again and again, until the kept segments fill the disk.
    while ((await logOf(server)).backup.underWay) {
      const { line } = await client.put("x".repeat(60_000));
      const id = /^INSERTED (\d+)$/.exec(line)?.[1];
      if (id !== undefined) assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
    }
    stalled.destroy();
    await eventually("the space is free again", async () => (await logOf(server)).backup.kept === 0);
    await eventually("puts are taken", async () => /^INSERTED/.test((await client.put("x")).line));
    client.socket.destroy();
    // The disk can be unmounted then.
    await server.process.kill();
  });

  it("is right for a client that reads in fits and starts", async (t) => {
    const server = await started(t, temporary(t));
    await fill(server, 200);
    const answer = await unread(t, server, 1000);
    const reader = new BackupReader(crc32);
    let pauses = 0;
    for await (const piece of answer) {
      Array.from(reader.take(piece));
      // The kernel's buffers are full meanwhile, and the server waits.
      if (reader.taken > pauses * 1_000_000 && ++pauses > 0) await sleep(20);
    }
    reader.finish();
    assert.ok(pauses > 10, `${pauses} pauses`);
  });

  it("ends if its connection closes before its turn comes", async (t) => {
    const server = await started(t, temporary(t));
    await fill(server, 20);
    const socket = connect(server.port, "127.0.0.1");
    t.after(() => socket.destroy());
    const head = "HTTP/1.1\r\nHost: localhost\r\n";
    socket.write(`GET /v1/events?get=/v1/health ${head}Accept: text/event-stream\r\n\r\n`);
    socket.write(`GET /v1/backup?rate=1 ${head}\r\n`);
    await eventually("it is under way", async () => (await logOf(server)).backup.underWay);
    socket.destroy();
    await eventually("it has ended", async () => !(await logOf(server)).backup.underWay);
    const { backup } = await logOf(server);
    assert.equal(backup.kept, 0);
    await eventually("the server's log says why", () =>
      server.process.stderr.includes("a backup broke off: the client disconnected"),
    );
  });

  it("ends if its client takes nothing", async (t) => {
    const folder = temporary(t);
    const server = await started(t, folder);
    await fill(server, 400);
    const stalled = await unread(t, server, 1000);
    await eventually("the server has cut it off", async () => !(await logOf(server)).backup.underWay);
    stalled.destroy();
  });
});
