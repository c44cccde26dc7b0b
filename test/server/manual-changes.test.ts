// Tests of the audit of commands: each change by hand over the protocol is recorded, with its
// author, values and count; the work of workers is not, and a flood is counted.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ByHand, COMMANDS, CommandPermission, commandName } from "../../src/protocol/commands.ts";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { WireClient } from "../support/server/wire-client.ts";

/** Lines of each change by hand, what they are answered, and what is recorded. */
const CHANGES: readonly (readonly [
  line: string,
  reply: RegExp,
  affected: number | null,
  what: object,
  before?: object,
])[] = [
  ["kick-job 5", /^KICKED$/, null, { id: "5" }],
  ["kick 5", /^KICKED 0$/, 0, { tube: "t", bound: "5" }],
  ["pause-tube t 3", /^PAUSED$/, null, { tube: "t", delay: "3" }],
  ["update-job 1 pri=7", /^UPDATED$/, null, { id: "1", pri: "7" }],
  ["set-tube t max-attempts=4 ttl=60", /^SET$/, null, { pattern: "t", "max-attempts": "4", ttl: "60" }, {}],
  // Of what it had before: what is replaced or removed, and not what stays.
  [
    "set-tube t max-attempts= backoff=1",
    /^SET$/,
    null,
    { pattern: "t", "max-attempts": "", backoff: "1" },
    { "max-attempts": "4" },
  ],
  ["set-tube t* max-attempts=4", /^SET$/, null, { pattern: "t*", "max-attempts": "4" }, {}],
  [
    "set-tube t* max-attempts=5 rate=7/1",
    /^SET$/,
    null,
    { pattern: "t*", "max-attempts": "5", rate: "7/1" },
    { "max-attempts": "4" },
  ],
  ["delete 1", /^DELETED$/, null, { id: "1" }],
  ["delete-batch 2 99", /^DELETED_BATCH 1 1/, 1, { ids: "2,99" }],
  ["cancel-job 5 reason=late", /^CANCELLED$/, null, { id: "5", reason: "late" }],
  ["move-jobs t u limit=1", /^MOVED 1$/, 1, { tube: "t", to: "u", limit: "1" }],
  ["clear-tube t", /^CLEARED 1$/, 1, { tube: "t" }],
  [
    "set-schedule s t 0 0 60 1 every=60000\r\nx",
    /^SET$/,
    null,
    { schedule: "s", tube: "t", pri: "0", delay: "0", ttr: "60", bytes: "1", every: "60000" },
  ],
  ["pause-schedule s", /^PAUSED$/, null, { schedule: "s" }],
  ["resume-schedule s", /^RESUMED$/, null, { schedule: "s" }],
  ["run-schedule s", /^INSERTED/, null, { schedule: "s" }],
  ["delete-schedule s", /^DELETED$/, null, { schedule: "s" }],
  ["open-batch b", /^OPENED$/, null, { batch: "b" }],
  ["commit-batch b", /^COMMITTED$/, null, { batch: "b" }],
  ["open-batch c", /^OPENED$/, null, { batch: "c" }],
  ["cancel-batch c", /^CANCELLED$/, null, { batch: "c" }],
];

it("the table says of each command that needs the permission to manage that it is a change by hand", () => {
  for (const command of COMMANDS)
    if ((command.permission & CommandPermission.Manage) !== 0)
      assert.equal(command.byHand, ByHand.Always, command.word);
});

describe("the audit of commands", () => {
  const operator = newToken("person", "operator");
  const boss = newToken("boss", "admin");
  let guarded: GuardedServer;
  let base: string;
  let client: WireClient;

  before(async () => {
    const folder = temporaryFolder({ after }, "audit-commands");
    guarded = await GuardedServer.start(
      folder,
      operator.line + boss.line,
      1,
      ([port]) => `[[listener]]\naddress = "127.0.0.1:${port}"\nauth = "token"\n`,
      ["--http", "127.0.0.1:0", "--shards", "2"],
    );
    base = /http:\/\/127\.0\.0\.1:\d+/.exec(guarded.server.stderr)![0];
    client = await connect();
  });
  after(async () => {
    client.close();
    await guarded.server.stop();
  });

  const connect = async (): Promise<WireClient> => {
    const opened = await WireClient.connect({ host: "127.0.0.1", port: guarded.ports[0]! });
    assert.equal((await opened.ask(`auth ${operator.secret}`)).line, "AUTHENTICATED");
    return opened;
  };
  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects of it
  const items = async (): Promise<any[]> => {
    const headers = { authorization: `Bearer ${boss.secret}` };
    return ((await (await fetch(`${base}/v1/audit`, { headers })).json()) as { items: [] }).items;
  };

  it("has each of them at once, with author, values and count", async () => {
    await client.ask("use t");
    for (let job = 0; job < 4; job++) await client.ask("put 0 0 60 1\r\nx");
    await client.ask("put 0 900 60 1\r\nx");
    assert.deepEqual(await items(), [], "puts are no changes by hand");
    for (const [line, reply, affected, what, before = null] of CHANGES) {
      assert.match((await client.ask(line)).line, reply, line);
      const [{ at: _, ...last }] = await items();
      const method = line.split(" ")[0];
      assert.deepEqual(last, {
        ...{ who: "person", address: "127.0.0.1", way: "protocol" },
        ...{ method, route: "", what, before, affected, status: 200 },
      });
    }
    const tried = new Set(CHANGES.map(([line]) => line.split(" ")[0]));
    const listed = COMMANDS.filter(({ byHand = 0 }) => byHand !== ByHand.Never).map(commandName);
    assert.deepEqual([...tried].sort(), listed.sort(), "each command that the table names is tried");
    assert.match(
      guarded.server.stderr,
      /audit: person \(127\.0\.0\.1\) move-jobs tube=t to=u limit=1 affected=1: 200/,
    );
  });

  it("has the cancellation of a job that a worker holds", async () => {
    const worker = await connect();
    const { line } = await worker.ask("put-in-tube held 0 0 60 1\r\nx");
    const id = line.split(" ")[1];
    await worker.ask(`reserve-job ${id}`);
    assert.equal((await client.ask(`cancel-job ${id} reason=late`)).line, "CANCELLING");
    const [{ method, what, status }] = await items();
    assert.deepEqual([method, what, status], ["cancel-job", { id, reason: "late" }, 200]);
    await worker.ask(`delete ${id}`);
    worker.close();
  });

  it("has neither refused changes nor the work of workers", async () => {
    const before = (await items()).length;
    await client.ask("use work");
    for (const line of ["put 0 0 60 1\r\nx", "put 0 0 60 1\r\nx"]) await client.ask(line);
    await client.ask("watch work");
    const first = (await client.ask("reserve")).line.split(" ")[1];
    const second = (await client.ask("reserve")).line.split(" ")[1];
    for (const line of [`release ${first} 0 0`, `delete ${second}`, "delete 99999", "pause-tube nosuch 1"])
      await client.ask(line);
    const third = (await client.ask("reserve-with-timeout 0")).line.split(" ")[1];
    assert.equal((await client.ask(`delete-batch ${third}`)).line, "DELETED_BATCH 1 0");
    assert.equal((await items()).length, before);
  });

  it("has each command of a pipeline, and one whose client leaves at once", async () => {
    const before = (await items()).length;
    const lines = Array.from({ length: 20 }, (_, at) => `pause-tube t ${at}\r\nuse t\r\n`);
    client.send(lines.join(""));
    for (let at = 0; at < 20; at++) {
      assert.equal((await client.readReply()).line, "PAUSED");
      assert.equal((await client.readReply()).line, "USING t");
    }
    // The acceptor passes them on in a few messages, each when the last one has been taken.
    await eventually("all are recorded", async () => (await items()).length >= before + 20);
    const found = (await items()).slice(0, -before || undefined);
    assert.deepEqual(
      found.map(({ what }) => what.delay),
      Array.from({ length: 20 }, (_, at) => `${19 - at}`),
    );
    const leaving = await connect();
    leaving.send("clear-tube gone\r\n");
    leaving.close();
    await eventually("it is recorded", async () => (await items())[0].what.tube === "gone");
  });

  it("counts what a flood has beyond its rate, and slows no client", async () => {
    client.send("pause-tube t 0\r\n".repeat(5000));
    for (let at = 0; at < 5000; at++) assert.equal((await client.readReply()).line, "PAUSED");
    await eventually("the rate is there again", async () => {
      await client.ask("pause-tube t 0");
      return /audit: \d+ further changes in the meantime were not recorded/.test(guarded.server.stderr);
    });
    assert.ok((await items()).length <= 500);
    const told = [...guarded.server.stderr.matchAll(/audit: (\d+) further changes/g)];
    const headers = { authorization: `Bearer ${boss.secret}` };
    const metrics = await (await fetch(`${base}/metrics`, { headers })).text();
    const [, counted] = /^runnerbean_audit_dropped_total\{protocol="beanstalk"\} (\d+)$/m.exec(metrics)!;
    assert.ok(Number(counted) >= told.reduce((sum, [, count]) => sum + Number(count), 0));
    assert.ok(Number(counted) > 0);
  });
});
