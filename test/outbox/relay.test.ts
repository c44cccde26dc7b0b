// Tests of `runnerbean outbox` on Debian's PostgreSQL: what becomes of rows, of refusals, and of
// connections that come and go.

import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { after, before, describe, it, type TestContext } from "node:test";
import { isTableName, statementsFor, TABLE_DEFAULT } from "../../src/outbox/table.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/machine/free-port.ts";
import { missing } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { NEEDS_POSTGRES, Postgres } from "../support/server/postgres.ts";
import { relay as tcpRelay } from "../support/server/relay.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { RelayProcess } from "./relay-process.ts";

describe("outbox", { skip: missing(NEEDS_POSTGRES) ?? false }, () => {
  const folder = temporaryFolder({ after }, "outbox");
  let postgres: Postgres;
  let tables = 0;
  before(async () => {
    postgres = await Postgres.start(folder);
  });
  after(() => postgres.stop());

  /** Each test has a table and a server of its own. */
  interface Bench {
    readonly table: string;
    server: ServerProcess;
    insert(...rows: readonly Record<string, unknown>[]): Promise<void>;
    rows(): Promise<Record<string, unknown>[]>;
    isEmpty(): Promise<boolean>;
    tool(...args: readonly string[]): ReturnType<typeof runTool>;
    relay(...args: readonly string[]): RelayProcess;
    /** A relay that reaches the database at another address. */
    relayTo(databaseUrl: string, ...args: readonly string[]): RelayProcess;
    /** Bodies of the ready jobs, in the order in which workers get them. */
    bodies(tube: string): Promise<string[]>;
  }

  async function benchFor(t: TestContext, flags: readonly string[] = []): Promise<Bench> {
    const table = `outbox_${++tables}`;
    await postgres.query(statementsFor(table).create);
    const server = await startServer({ kind: "ours", flags });
    const bench: Bench = {
      table,
      server,
      async insert(...rows) {
        for (const row of rows) {
          const names = Object.keys(row);
          const values = names.map((_, index) => `$${index + 1}`);
          await postgres.query(
            `INSERT INTO ${table} (${names.join(", ")}) VALUES (${values.join(", ")})`,
            Object.values(row),
          );
        }
      },
      rows: () => postgres.query(`SELECT * FROM ${table} ORDER BY id`),
      isEmpty: async () => (await bench.rows()).length === 0,
      tool: (word, ...args) => runTool(["outbox", word!, postgres.url, "--table", table, ...args]),
      relay: (...args) => bench.relayTo(postgres.url, ...args),
      relayTo(databaseUrl, ...args) {
        const url = `beanstalk://127.0.0.1:${bench.server.port}`;
        const all = [databaseUrl, "--table", table, "--url", url, "--poll", "0.2", ...args];
        const relay = new RelayProcess(all);
        t.after(() => relay.kill());
        return relay;
      },
      async bodies(tube) {
        const client = await WireClient.connect(bench.server.address);
        await client.ask(`watch ${tube}`);
        const bodies: string[] = [];
        for (;;) {
          const { line, body } = await client.ask("reserve-with-timeout 0");
          if (line === "TIMED_OUT") break;
          bodies.push(`${body}`);
        }
        client.socket.destroy();
        return bodies;
      },
    };
    t.after(() => bench.server.kill());
    return bench;
  }

  const ask = async ({ server }: Bench, ...lines: readonly string[]): Promise<string[]> => {
    const client = await WireClient.connect(server.address);
    const replies: string[] = [];
    for (const line of lines) {
      const reply = await client.ask(line);
      replies.push(`${reply.line}${reply.body === undefined ? "" : `\n${reply.body}`}`);
    }
    client.socket.destroy();
    return replies;
  };

  it("reads the rows of a round by their ids, also of a large backlog that was analyzed", async () => {
    const table = `outbox_${++tables}`;
    const { create, take } = statementsFor(table);
    await postgres.query(`${create}
INSERT INTO ${table} (tube, body) SELECT 'load-' || i % 10, i FROM generate_series(1, 100000) AS i`);
    await postgres.query(`ANALYZE ${table}`);
    const tubes = Array.from({ length: 10 }, (_, tube) => `load-${tube}`);
    const values = [tubes, tubes.map(() => 400), 4 << 20];
    const plan = (await postgres.query(`EXPLAIN ${take}`, values)).map((row) => row["QUERY PLAN"]).join("\n");
    // Without the condition, it would walk the whole index.
    assert.match(plan, /Index Scan using outbox_\d+_pkey.*\n *Index Cond: \(id = counted\.id\)/, plan);
    assert.doesNotMatch(plan, /Seq Scan/);
  });

  it("reads a row as an UPDATE left it that ends while the relay looks", async (t) => {
    const table = `outbox_${++tables}`;
    // A look at the view waits for a lock when it comes to a row.
    await postgres.query(`${statementsFor(table).create}
INSERT INTO ${table} (tube, body) VALUES ('a', 'old');
CREATE FUNCTION ${table}_waits() RETURNS boolean LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN true; END $$;
CREATE VIEW ${table}_view AS SELECT * FROM ${table} WHERE ${table}_waits()`);
    const [relay, other] = [await postgres.connect(), await postgres.connect()];
    t.after(() => Promise.all([relay.end(), other.end()]));
    await other.query("SELECT pg_advisory_lock(1)");
    const taken = relay.query(statementsFor(`${table}_view`).take, [["a"], [10], 1000]);
    await eventually("it waits", async () => {
      const waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
      return (await other.query(waiting)).rowCount === 1;
    });
    await other.query(`UPDATE ${table} SET body = 'new', pri = 7`);
    await other.query("SELECT pg_advisory_unlock(1)");
    const [{ body, pri, bytes }] = (await taken).rows as [Record<string, unknown>];
    assert.deepEqual([body, pri, bytes], ["new", "7", 3]);
  });

  it("puts rows with all that they say, and deletes them", async (t) => {
    const bench = await benchFor(t);
    bench.relay();
    await bench.insert({
      tube: "mail",
      pri: 7,
      delay: 3600.5,
      ttr: 90,
      body: "größe",
      options: { group: "acme", meta: { trace: "7" }, ttl: 7200 },
    });
    await bench.insert({ tube: "mail", body_bytes: Buffer.from([0, 255, 13, 10]) });
    await eventually("both are put", () => bench.isEmpty());
    const [, inspected = "", raw = ""] = await ask(bench, "use mail", "inspect-job 1", "peek-ready");
    for (const line of ['group: "acme"', 'meta: ["trace:7"]', "expires-in: 7", 'unique: "'])
      assert.ok(inspected.includes(line), inspected);
    const [stats = "", peeked = ""] = await ask(bench, "stats-job 1", "peek 1");
    for (const line of ["pri: 7", "delay: 3600", "ttr: 90", "state: delayed"])
      assert.ok(stats.includes(`\n${line}\n`), stats);
    assert.equal(peeked.slice(peeked.indexOf("\n") + 1), "größe");
    assert.match(raw, /^FOUND 2 4\n/);
  });

  it("puts no row of a transaction that is rolled back, and none before its commit", async (t) => {
    const bench = await benchFor(t);
    bench.relay();
    const client = await postgres.connect();
    t.after(() => client.end());
    await client.query("BEGIN");
    await client.query(`INSERT INTO ${bench.table} (tube, body) VALUES ('a', 'one')`);
    await bench.insert({ tube: "a", body: "two" });
    await eventually("the committed row is put", () => bench.isEmpty());
    assert.deepEqual(await bench.bodies("a"), ["two"]);
    await client.query("ROLLBACK");
    await bench.insert({ tube: "a", body: "three" });
    await eventually("the next one is put", () => bench.isEmpty());
    assert.deepEqual(await bench.bodies("a"), ["two", "three"]);
  });

  it("sets bad rows aside with the reason, and goes on with the others", async (t) => {
    const bench = await benchFor(t);
    await bench.insert(
      { tube: "a", body: "x", options: { colour: "red" } },
      { tube: "b".repeat(201), body: "x" },
      { tube: "a", body: "x".repeat(70_000) },
      { tube: "a", body: "x", options: JSON.stringify([1]) },
      { tube: "a" },
      { tube: "a", body: "x", body_bytes: Buffer.from("x") },
      { tube: "a", body: "x", pri: -1 },
      { tube: "a", body: "x", delay: "NaN" },
      { tube: "a", body: "x", ttr: "9000000000" },
      { tube: "a", body: "x", options: { meta: { "bad name": "x" } } },
      { tube: "a", body: "x", options: { ttl: "soon" } },
      { tube: "a", body: "x", options: { batch: "missing" } },
      { tube: "a", body: "x", options: { group: "g".repeat(2000) } },
      { tube: "a\r\nquit", body: "x" },
      { tube: "a", body: "x", options: { pri: 1 } },
      { tube: "a", body: "x", options: { delay: 1 } },
      { tube: "a", body: "x", options: { ttl: { length: 2 ** 53 } } },
      { tube: "a", body: "x", options: { meta: null } },
      { tube: "a", body: "x", options: { meta: ["x"] } },
      { tube: "a", body: "x", options: '{"__proto__": {"ttl": 1}}' },
      { tube: "a", body: "x", options: { "ttl=1\r\nquit": 1 } },
      { tube: "a", body: "good" },
    );
    const relay = bench.relay();
    const rows = await eventually("only bad rows are left", async () => {
      const left = await bench.rows();
      return left.length === 21 && left.every(({ error }) => error !== null) ? left : undefined;
    });
    assert.deepEqual(await bench.bodies("a"), ["good"]);
    const reasons = [
      /UNKNOWN_OPTION colour/,
      /is not a valid tube name/,
      /JOB_TOO_BIG/,
      /options must be a JSON object/,
      /both or none/,
      /both or none/,
      /pri is -1/,
      /delay is NaN/,
      /ttr is 9000000000/,
      /bad name/,
      /BAD_FORMAT/,
      /BATCH_NOT_FOUND/,
      /group must have/,
      /is not a valid tube name/,
      /pri is a column/,
      /delay is a column/,
      /ttl must have/,
      /meta must be/,
      /meta must be/,
      /"__proto__" is not/,
      /ttl=1.* is not a known option/,
    ];
    for (const [index, reason] of reasons.entries()) assert.match(`${rows[index]!["error"]}`, reason);
    assert.match(relay.stderr, /set aside row 1 of tube a \(and \d+ more\): .*UNKNOWN_OPTION colour/);
    const status = await bench.tool("status");
    assert.match(status.stdout, /^waiting\t0\nrefused\t21\n/m);
    assert.match(status.stdout, /^1\ta\t[^\t]*\tUNKNOWN_OPTION colour$/m);
    const { waiting, refused, rows: shown } = JSON.parse((await bench.tool("status", "--json")).stdout);
    assert.deepEqual([waiting, refused, shown.length, shown[0].id], [0, 21, 20, 1]);
  });

  it("puts rows again on demand", async (t) => {
    const bench = await benchFor(t);
    await bench.insert(
      { tube: "a", body: "one", options: { batch: "later" } },
      { tube: "b", body: "two", options: { batch: "later" } },
      { tube: "b", body: "three", options: { batch: "later" } },
    );
    bench.relay();
    const refusedRows = async (): Promise<number> =>
      (await bench.rows()).filter(({ error }) => error !== null).length;
    await eventually("all are set aside", async () => (await refusedRows()) === 3);
    await ask(bench, "open-batch later");
    assert.equal((await bench.tool("retry", "--tube", "a")).stdout, "retried 1\n");
    await eventually("it is put", async () => (await bench.rows()).length === 2);
    assert.equal((await bench.tool("retry", "3", "99")).stdout, "retried 1\n");
    await eventually("it is put", async () => (await bench.rows()).length === 1);
    assert.equal((await bench.tool("retry", "--json")).stdout, '{"retried":1}\n');
    await eventually("all are put", () => bench.isEmpty());
    assert.equal((await bench.tool("retry")).code, 1);
    assert.deepEqual([await bench.bodies("a"), await bench.bodies("b")], [["one"], ["three", "two"]]);
  });

  it("waits for a full tube without stopping the others, and keeps its order", async (t) => {
    const bench = await benchFor(t);
    await ask(bench, "set-tube full max-jobs=2");
    const numbers = Array.from({ length: 50 }, (_, index) => `${index}`);
    await bench.insert(...numbers.map((body) => ({ tube: "full", body })), { tube: "free", body: "x" });
    const relay = bench.relay();
    await eventually("the free tube goes on", async () => (await bench.bodies("free")).length === 1);
    await eventually("the log says it", () => relay.stderr.includes("tube full waits: "));
    assert.match(relay.stderr, /TUBE_FULL/);
    const client = await WireClient.connect(bench.server.address);
    await client.ask("watch full");
    const got: string[] = [];
    while (got.length < numbers.length) {
      const { line, body } = await client.ask("reserve-with-timeout 30");
      got.push(`${body}`);
      // Delete nothing before the relay has seen that the tube is full.
      await client.ask(`delete ${line.split(" ")[1]}`);
    }
    assert.deepEqual(got, numbers);
    await eventually("the log says it", () => relay.stderr.includes("no tube waits any more"));
    client.socket.destroy();
  });

  it("waits while the server drains, and goes on with the next one", async (t) => {
    const bench = await benchFor(t);
    const relay = bench.relay();
    await eventually("it is connected", () => relay.stderr.includes("connected to the server"));
    bench.server.signal("SIGUSR1");
    await eventually("it drains", async () => /draining: true/.test((await ask(bench, "stats")).join()));
    await bench.insert({ tube: "a", body: "x" });
    await eventually("the relay says it", () => relay.stderr.includes("DRAINING"));
    const [row] = await bench.rows();
    assert.equal(row!["error"], null);
  });

  it("starts before both sides, and says once what is missing", async (t) => {
    const port = await freePort();
    const table = `outbox_${++tables}`;
    const path = join(temporaryFolder(t, "outbox-socket"), "socket");
    const relay = new RelayProcess([postgres.url, "--table", table, "--url", `unix:${path}`]);
    t.after(() => relay.kill());
    await eventually("it misses the table", () => relay.stderr.includes("outbox init --apply"));
    const none = new RelayProcess([`postgres://queue@127.0.0.1:${port}/x`, "--url", `unix:${path}`]);
    t.after(() => none.kill());
    await eventually("it misses PostgreSQL", () => none.stderr.includes("ECONNREFUSED"));
    const init = await runTool(["outbox", "init", postgres.url, "--table", table, "--apply"]);
    assert.equal(init.stdout, `the table ${table} is there\n`);
    await eventually("it misses the server", () => relay.stderr.includes("no server listens there"));
    await postgres.query(`INSERT INTO ${table} (tube, body) VALUES ('a', 'x')`);
    const server = await startServer({ kind: "ours", unixPath: path });
    t.after(() => server.kill());
    await eventually("the row is put", async () => {
      const rows = await postgres.query(`SELECT id FROM ${table}`);
      return rows.length === 0;
    });
    assert.equal(relay.stderr.split("no server listens there").length, 2, relay.stderr);
    assert.equal(await relay.kill("SIGTERM"), 0);
  });

  for (const side of ["the server", "PostgreSQL"])
    for (const isIdle of [true, false])
      it(`ends at SIGTERM though ${side} hangs ${isIdle ? "meanwhile" : "in a round"}`, async (t) => {
        const bench = await benchFor(t);
        const relay = bench.relay("--timeout", "3600", "--poll", isIdle ? "3600" : "0.01");
        await eventually("it is idle", () => relay.stderr.includes("connected to the server"));
        const [row] = await eventually("PostgreSQL knows it", async () => {
          const found = await postgres.query(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'runnerbean outbox' AND query LIKE $1",
            [`%FROM ${bench.table} WHERE%`],
          );
          return found.length > 0 && found;
        });
        const pid = side === "PostgreSQL" ? Number(row!["pid"]) : bench.server.pid;
        process.kill(pid, "SIGSTOP");
        try {
          if (!isIdle) await bench.insert({ tube: "a", body: "x" });
          if (!isIdle && side === "the server") await eventually("it has put", () => isBusy(bench));
          assert.equal(await relay.kill("SIGTERM"), 0, relay.stderr);
        } finally {
          process.kill(pid, "SIGCONT");
        }
        assert.equal((await bench.rows()).length, isIdle ? 0 : 1);
      });

  /** Whether a relay has rows of the table locked. */
  const isBusy = async ({ table }: Bench): Promise<boolean> => {
    const [row] = await postgres.query(
      "SELECT count(*) AS held FROM pg_locks WHERE relation = $1::regclass AND mode = 'RowShareLock'",
      [table],
    );
    return row!["held"] !== "0";
  };

  it("waits longer after each failure, however many notifications come", async (t) => {
    const bench = await benchFor(t);
    const attemptsAtMs: number[] = [];
    const closing = createServer((socket) => {
      attemptsAtMs.push(performance.now());
      socket.destroy();
    }).listen(0, "127.0.0.1");
    t.after(() => closing.close());
    await once(closing, "listening");
    bench.relay("--url", `beanstalk://127.0.0.1:${(closing.address() as AddressInfo).port}`);
    const producer = await postgres.connect();
    t.after(() => producer.end());
    await eventually("it has tried six times", async () => {
      for (let count = 0; count < 20; count++) await producer.query(`NOTIFY ${bench.table}`);
      return attemptsAtMs.length >= 6;
    });
    // At least half of 50, 100, 200, 400 and 800 ms.
    const tookMs = attemptsAtMs[5]! - attemptsAtMs[0]!;
    assert.ok(tookMs >= 700, `${tookMs} ms for five waits`);
  });

  it("rests while another relay has the tube that it waits for", async (t) => {
    const bench = await benchFor(t);
    await ask(bench, "set-tube full max-jobs=1");
    await bench.insert({ tube: "full", body: "one" }, { tube: "full", body: "two" });
    let sent = 0;
    const port = await tcpRelay(
      t,
      () => Number(new URL(postgres.url).port),
      undefined,
      () => sent++,
    );
    const pollMs = 500;
    const url = new URL(postgres.url);
    url.port = `${port}`;
    const relay = bench.relayTo(`${url}`, "--poll", `${pollMs / 1000}`);
    await eventually("the tube waits", () => relay.stderr.includes("tube full waits: "));
    // As another relay would, but for longer.
    const other = await postgres.connect();
    t.after(() => other.end());
    await other.query("SELECT pg_advisory_lock(hashtextextended('full', $1::regclass::oid::bigint))", [
      bench.table,
    ]);
    const [before, beganAtMs] = [sent, performance.now()];
    await eventually("some polls", () => performance.now() - beganAtMs > 10 * pollMs, 60_000);
    const polls = (performance.now() - beganAtMs) / pollMs;
    // A look, and a round of three statements; the tube's first delays may end between two polls.
    assert.ok(sent - before < 8 * (polls + 10), `${sent - before} messages in ${polls} polls`);
  });

  it("works with a token, and sets aside what the token may not put", async (t) => {
    const where = temporaryFolder(t, "outbox-token");
    const token = newToken("relay", "producer");
    const guarded = await GuardedServer.start(
      where,
      `${token.line.trimEnd()} tubes=mail\n`,
      1,
      ([port]) => `[[listener]]\naddress = "127.0.0.1:${port}"\nauth = "token"\n`,
    );
    t.after(() => guarded.server.stop());
    const bench = await benchFor(t);
    const secret = join(where, "secret");
    writeFileSync(secret, token.secret);
    const url = `beanstalk://127.0.0.1:${guarded.ports[0]}`;
    bench.relay("--url", url, "--token", `@${secret}`);
    await bench.insert({ tube: "other", body: "x" }, { tube: "mail", body: "x" });
    const [row] = await eventually("one is set aside", async () => {
      const rows = await bench.rows();
      return rows.length === 1 && rows[0]!["error"] !== null && rows;
    });
    assert.match(`${row!["error"]}`, /UNAUTHORIZED/);
  });

  it("serves metrics", async (t) => {
    const bench = await benchFor(t);
    await bench.insert({ tube: "a", body: "x" }, { tube: "a", body: "x", options: { colour: 1 } });
    const relay = bench.relay("--metrics", "127.0.0.1:0");
    const url = await eventually("it listens", () => /metrics on (\S+)/.exec(relay.stderr)?.[1]);
    await eventually("both are done", async () => (await bench.rows()).every(({ error }) => error !== null));
    const text = await eventually("it has counted", async () => {
      const said = await (await fetch(url)).text();
      return said.includes("outbox_put_total 1\n") && said;
    });
    for (const line of [
      'connected{side="server"} 1',
      'connected{side="database"} 1',
      "refused_total 1",
      "duplicates_total 0",
      "deferred_total 0",
      "tubes_held 0",
      'reconnects_total{side="server"} 0',
    ])
      assert.ok(text.includes(`runnerbean_outbox_${line}\n`), `${line} in ${text}`);
    for (const name of ["rows_waiting", "rows_refused", "lag_seconds"])
      assert.match(text, new RegExp(`^runnerbean_outbox_${name} [0-9.]+$`, "m"));
    assert.equal((await fetch(new URL("/", url))).status, 404);
  });

  it("lets a row's own key decide", async (t) => {
    const bench = await benchFor(t);
    const row = { tube: "a", body: "x", options: { unique: "welcome:17" } };
    await bench.insert(row, row, { tube: "a", body: "y" });
    bench.relay();
    await eventually("all are done", () => bench.isEmpty());
    assert.deepEqual(await bench.bodies("a"), ["x", "y"]);
  });

  it("keeps its own key for a row that only says how long a key lasts", async (t) => {
    const bench = await benchFor(t);
    const options = { uniqueFor: 1, uniqueUntil: "reserve", onDuplicate: "debounce", debounceMax: 9 };
    const key = "6f0c6b1e-8f0a-4f36-9c3e-0d9f8f0f7b12";
    await bench.insert({ tube: "a", body: "x", key, options });
    bench.relay();
    await eventually("it is put", () => bench.isEmpty());
    const other = "put-in-tube b 0 0 60 1 unique=other unique-for=1\r\nx";
    await ask(bench, "delete 1", other, "delete 2");
    await eventually("a key of one second is forgotten", async () =>
      /^INSERTED /.test((await ask(bench, other)).join()),
    );
    const again = await ask(bench, `put-in-tube a 0 0 60 1 unique=${key}\r\nx`);
    assert.deepEqual(again, ["DUPLICATE 1"]);
  });

  it("doesn't put a row again that the server has, when its key comes back", async (t) => {
    const bench = await benchFor(t);
    const key = "6f0c6b1e-8f0a-4f36-9c3e-0d9f8f0f7b11";
    const relay = bench.relay();
    await bench.insert({ tube: "a", body: "x", key });
    await eventually("it is put", () => bench.isEmpty());
    assert.deepEqual(await ask(bench, "delete 1"), ["DELETED"]);
    // As from a backup.
    await relay.kill();
    bench.relay();
    await bench.insert({ tube: "a", body: "x", key });
    await eventually("it is done", () => bench.isEmpty());
    assert.deepEqual(await bench.bodies("a"), []);
  });

  it("puts large bodies a few at a time, in order", async (t) => {
    const bench = await benchFor(t, ["-z", "2000000"]);
    const bodies = Array.from({ length: 12 }, (_, index) => `${index}`.padEnd(700_000, "x"));
    await bench.insert(...bodies.map((body) => ({ tube: "a", body })));
    bench.relay();
    await eventually("all are put", () => bench.isEmpty());
    assert.deepEqual(await bench.bodies("a"), bodies);
  });

  /** The id of the only job of the tube `late`. */
  const lateId = async (bench: Bench): Promise<number> => {
    const [, found = ""] = await ask(bench, "use late", "peek-ready");
    return Number(/^FOUND (\d+) /.exec(found)?.[1]);
  };

  it("lets a new tube take its turn before the end of another one's backlog", async (t) => {
    const bench = await benchFor(t, ["--shards", "1"]);
    const { table } = bench;
    const rows = 20_000;
    // The first row of the new tube is committed with the first round.
    await postgres.query(`INSERT INTO ${table} (tube, body) SELECT 'a', 'x' FROM generate_series(1, ${rows});
CREATE TABLE ${table}_seen (it int);
CREATE FUNCTION ${table}_late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NOT EXISTS (SELECT FROM ${table}_seen) THEN
    INSERT INTO ${table}_seen VALUES (1);
    INSERT INTO ${table} (tube, body) VALUES ('late', 'x');
  END IF;
  RETURN NULL;
END $$`);
    await postgres.query(
      `CREATE TRIGGER late AFTER DELETE ON ${table} FOR EACH STATEMENT EXECUTE FUNCTION ${table}_late()`,
    );
    bench.relay();
    await eventually("all rows are put", () => bench.isEmpty());
    const id = await lateId(bench);
    assert.ok(id <= rows / 2, `job ${id} of ${rows + 1}`);
  });

  it("lets all tubes take their turns when one has large bodies", async (t) => {
    const bench = await benchFor(t, ["--shards", "1", "-z", "2000000"]);
    const rows = 40;
    await postgres.query(`INSERT INTO ${bench.table} (tube, body)
SELECT 'a', repeat('x', 1000000) FROM generate_series(1, ${rows}) UNION ALL SELECT 'late', 'x'`);
    bench.relay();
    await eventually("all rows are put", () => bench.isEmpty());
    const id = await lateId(bench);
    assert.ok(id <= rows / 2, `job ${id} of ${rows + 1}`);
  });

  it("prints the SQL, for a table of any schema, and refuses other names", async () => {
    const { stdout } = await runTool(["outbox", "init", postgres.url, "--table", "shop.events"]);
    await postgres.query(`CREATE SCHEMA shop; ${stdout}`);
    await postgres.query(stdout);
    await postgres.query("INSERT INTO shop.events (tube, body) VALUES ('a', 'x')");
    const bad = await runTool(["outbox", "status", postgres.url, "--table", 'x"; DROP TABLE y'], {});
    assert.equal(bad.code, 5);
    const foreign = await runTool(["outbox", "status", "mysql://root:secret@localhost/x"]);
    assert.equal(foreign.code, 5);
    assert.match(foreign.stderr, /is not the URL of a database/);
    assert.doesNotMatch(foreign.stderr, /secret/);
    const wrong = [
      ...["mysql://root:pq:cret@localhost/x", "mysql://root:pq@cret@localhost/x", "root:cret@localhost/x"],
      ...["host=localhost password=cret", "postgres://root:cret@localhost:99999/x"],
      ...["mysql://localhost/x?password=cret", "mysql://root:pq/cret@localhost/x"],
    ];
    for (const url of wrong) {
      const relay = new RelayProcess([url]);
      assert.equal(await relay.exited, 5, url);
      assert.match(relay.stderr, /^runnerbean: .* is not the URL of a database: [^\n]*\n$/);
      assert.doesNotMatch(relay.stderr, /root|pq|cret/);
    }
    assert.deepEqual(["a", "a.b", "A", "a.b.c", "a b", ""].filter(isTableName), ["a", "a.b"]);
    assert.equal(isTableName(TABLE_DEFAULT), true);
  });
});
