// Tests of a group after losses, damage and manual changes, with a single log server, which
// suffices here.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { inspectText } from "../../src/binlog/tools/inspect-log.ts";
import { dump, inspect } from "../../src/binlog/tools/tools.ts";
import { listensOn } from "../../src/replica/standby-node.ts";
import { freePort } from "../support/machine/free-port.ts";
import { smallDisk } from "../support/machine/small-disk.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { missingNats, NatsCluster } from "../support/server/nats-cluster.ts";
import { GroupServer, ServerGroup, until } from "../support/server/server-group.ts";
import { ourMain, startServer, TEST_ENV } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

function replica(...args: string[]): { status: number | null; out: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [ourMain(TEST_ENV), "replica", ...args], {
    encoding: "utf8",
    env: TEST_ENV,
    timeout: 120_000,
  });
  return { status, out: stdout + stderr };
}

async function put(client: WireClient, body: string): Promise<number> {
  const { line } = await client.put(body);
  const id = Number(/^INSERTED (\d+)$/.exec(line)?.[1]);
  assert.ok(id > 0, line);
  return id;
}

async function bodyOf(client: WireClient, id: number): Promise<string | undefined> {
  return (await client.ask(`peek ${id}`)).body?.toString();
}

const other = (group: ServerGroup, server: GroupServer): GroupServer =>
  group.servers.find((each) => each !== server)!;

/** The jobs of a directory as lines, for comparison. */
async function dumped(path: string): Promise<string[]> {
  const lines: string[] = [];
  await dump({ path }, { write: (line: string) => lines.push(line) > 0 } as never);
  return lines.slice(1, -1).sort();
}

/** A directory with so many jobs that no group has seen. */
async function directoryWithJobs(t: TestContext, jobs: number): Promise<string> {
  const directory = temporaryFolder(t, "jobs");
  const server = await startServer({ kind: "ours", flags: ["-b", directory] });
  t.after(() => server.kill());
  const client = await WireClient.connect(server.address);
  for (let n = 1; n <= jobs; n++) await put(client, `before ${n}`);
  await client.ask("delete 2");
  await server.stop();
  return directory;
}

describe("a group", { skip: missingNats() ?? false }, () => {
  it("changes the lead in order: SIGTERM and yield lose nothing, ids continue, directories are equal at the end", async (t) => {
    const group = await ServerGroup.start(t, [], 1);
    const client = await group.serving();
    const first = await put(client, "one");
    const reason = "r".repeat(1024);
    for (const name of ["w1", "w2"]) {
      for (const line of [`name ${name}`, `reserve-job ${first}`, `bury ${first} 0 reason=${reason}`])
        assert.match((await client.ask(line)).line, /^(NAMED|RESERVED|BURIED)/);
    }
    const held = await put(client, "held");
    await client.ask(`reserve-job ${held}`);
    const a = await group.primary();
    await group.caughtUp();
    await a.end("SIGTERM");
    assert.deepEqual(a.exits.slice(-1), [0]);
    const second = await group.serving();
    assert.equal(await bodyOf(second, first), "one");
    const failures = (id: number): Promise<string[]> =>
      second
        .ask(`inspect-job ${id}`)
        .then(({ body }) => JSON.parse(/^failures: (.*)$/m.exec(body!.toString())![1]!))
        .then((all) => all.map((each: Record<string, string>) => `${each["worker"]} ${each["reason"]}`));
    assert.deepEqual(await failures(first), [`w2 ${reason}`, `w1 ${reason}`]);
    assert.deepEqual(await failures(held), [], "a server that stops is no failure of the jobs");
    const id = await put(second, "two");
    assert.ok(id > first && id < first + 20, `${id} follows ${first}: an orderly end leaves no gap`);
    a.start();
    await group.caughtUp();
    assert.match(replica("yield", group.url).out, /gives up the lead/);
    await until("the other one has the lead", async () => ((await group.primary()) === a ? true : undefined));
    const third = await group.serving();
    assert.equal(await bodyOf(third, id), "two");
    // Its lead is over before its process is.
    await until("it ends with 75, to be started again", async () =>
      other(group, a).exits.includes(75) ? true : undefined,
    );
    await group.caughtUp();
    for (const server of group.servers) await server.end("SIGTERM");
    const [ours, theirs] = await Promise.all(group.servers.map(({ directory }) => dumped(directory)));
    assert.deepEqual(ours, theirs);
    assert.ok(ours!.length >= 2);
  });

  it("may begin with a directory that has jobs; a standby gets all of them", async (t) => {
    const directory = await directoryWithJobs(t, 50);
    const group = await ServerGroup.start(t, [], 1, directory);
    await group.caughtUp();
    const a = await group.primary();
    assert.equal(a.directory, directory);
    await a.end();
    const client = await group.serving();
    assert.equal(await bodyOf(client, 50), "before 50");
    assert.equal(await bodyOf(client, 2), undefined);
    assert.ok((await put(client, "after")) > 50);
  });

  it("refuses an unknown directory with jobs, and leaves it unchanged", async (t) => {
    const directory = await directoryWithJobs(t, 3);
    const group = await ServerGroup.start(t, [], 1);
    const stranger = await group.add(directory);
    await until("it ends", async () => (stranger.exits.length > 0 ? true : undefined));
    await stranger.end();
    assert.equal(stranger.exits[0], 10);
    assert.match(
      stranger.output,
      /REPLICA_STRANGER: .*jobs that the group does not know.*only copy.*status.*reseed/,
    );
    assert.equal((await dumped(directory)).length, 2);
  });

  it("stops when its stream is gone, never recreates it by itself, and comes back by reseed", async (t) => {
    const group = await ServerGroup.start(t, [], 1);
    const client = await group.serving();
    const id = await put(client, "kept");
    await group.caughtUp();
    const a = await group.primary();
    await group.removeStream();
    await until("both end", async () =>
      group.servers.every(({ exits }) => exits.includes(76)) ? true : undefined,
    );
    for (const server of group.servers) await server.end();
    assert.match(a.output, /REPLICA_LOG_(MISSING|LOST): .*reseed/);
    for (const { directory } of group.servers) {
      const report = await inspect({ path: directory });
      assert.ok(report.group!.epoch === 1 && report.group!.n > 1);
      assert.match(inspectText(report), new RegExp(`of a group: epoch 1, batch ${report.group!.n}\n`));
    }
    assert.match(replica("status", group.url).out, /has no stream: .*replica init.*reseed/);
    assert.match(replica("reseed", group.url, "-b", a.directory, "--replicas", "1").out, /add --yes/);
    const small = ["--replicas", "1", "--max-bytes", "1G"];
    const { status, out } = replica("reseed", group.url, "-b", a.directory, ...small, "--yes");
    assert.equal(status, 0, out);
    const once = replica("init", group.url, ...small);
    assert.match(`${once.status} ${once.out}`, /^1 .*exists already/);
    assert.match(replica("init", group.url, "--max-bytes", "1M").out, /too small/);
    // An empty one is quicker, and may not begin the group: the one that has the jobs would be a
    // stranger.
    const empty = await group.add(temporaryFolder(t, "empty"));
    await until("it waits", async () => (/must start the group/.test(empty.output) ? true : undefined));
    await sleep(2000);
    assert.doesNotMatch(empty.output, /has the lead/);
    a.start();
    const again = await group.serving();
    assert.equal(await bodyOf(again, id), "kept");
    await empty.end();
    // The other one is of the group that was.
    const b = other(group, a);
    b.output = "";
    b.exits.length = 0;
    b.start();
    await until("it ends", async () => (b.exits.length > 0 ? true : undefined));
    await b.end();
    assert.match(b.output, /REPLICA_OTHER_GROUP/);
    assert.equal(b.exits[0], 76);
  });

  it("takes no lead after detach, and a detached directory serves alone", async (t) => {
    const group = await ServerGroup.start(t, [], 1);
    const client = await group.serving();
    const id = await put(client, "kept");
    await group.caughtUp();
    const a = await group.primary();
    const { status, out } = replica("detach", group.url);
    assert.equal(status, 0, out);
    await until("the lead is lost", async () => (a.exits.includes(75) ? true : undefined));
    for (const server of group.servers) await server.end();
    const server = await startServer({ kind: "ours", flags: ["-b", a.directory] });
    t.after(() => server.kill());
    const alone = await WireClient.connect(server.address);
    assert.equal(await bodyOf(alone, id), "kept");
    await put(alone, "outside of the group");
    await server.stop();
    a.output = "";
    a.exits.length = 0;
    a.start();
    await until("it ends", async () => (a.exits.length > 0 ? true : undefined));
    await a.end();
    assert.match(a.output, /REPLICA_(STRAYS|STRANGER): .*does not know.*reseed/);
  });

  it("with --replicate-wait standby answers only when a standby has the change on its disk", async (t) => {
    const group = await ServerGroup.start(t, ["--replicate-wait", "standby", "-f", "0"], 1);
    const client = await group.serving();
    await put(client, "both have it");
    const a = await group.primary();
    const standby = other(group, a);
    await standby.end();
    client.send("put 0 0 60 1\r\na\r\n");
    const early = await Promise.race([client.readReply(), sleep(1500, "nothing")]);
    assert.equal(early, "nothing", "no standby has it");
    standby.start();
    // Its reply is still unread: it comes to the pending read.
    await group.caughtUp();
    const again = await group.serving();
    await put(again, "both have it again");
  });

  it("closes its port while it is frozen, reports that in metrics, and reopens it; connections stay", async (t) => {
    const http = `127.0.0.1:${await freePort()}`;
    const cluster = await NatsCluster.start(t, 1);
    assert.equal(replica("init", cluster.url("test"), "--replicas", "1", "--max-bytes", "128M").status, 0);
    const flags = ["--replicate", cluster.url("test"), "--http", http];
    const server = new GroupServer(await freePort(), temporaryFolder(t, "frozen"), flags);
    t.after(() => server.end());
    server.start();
    await until("it serves", async () => ((await listensOn(server.address)) === "yes" ? true : undefined));
    const client = await WireClient.connect({ host: "127.0.0.1", port: server.port });
    const id = await put(client, "before");
    const metrics = async (): Promise<string> =>
      (await fetch(`http://${http}/metrics`, { signal: AbortSignal.timeout(10_000) })).text();
    await until("metrics are told", async () =>
      /^runnerbean_group_may_serve 1$/m.test(await metrics().catch(() => "")) ? true : undefined,
    );
    cluster.signal(0, "SIGSTOP");
    await until("the port is closed", async () =>
      (await listensOn(server.address)) === "refused" ? true : undefined,
    );
    assert.match(await metrics(), /^runnerbean_group_may_serve 0$/m);
    assert.match(await metrics(), /^runnerbean_puts_total 1$/m, "what was known is told");
    const shown = await fetch(`http://${http}/v1/server`, { signal: AbortSignal.timeout(10_000) });
    assert.equal(((await shown.json()) as { status: string }).status, "frozen");
    cluster.signal(0, "SIGCONT");
    await until("the port is open", async () =>
      (await listensOn(server.address)) === "yes" ? true : undefined,
    );
    assert.equal(await bodyOf(client, id), "before", "its connection stayed");
    const later = await WireClient.connect({ host: "127.0.0.1", port: server.port });
    await put(later, "after");
  });

  it("refuses puts when the shared log is nearly full, still deletes, and returns the freed space", async (t) => {
    const flags = ["-f", "50", "-s", "1048576"];
    const group = await ServerGroup.start(t, flags, 1, undefined, [], 16 * 2 ** 20);
    const client = await group.serving();
    const ids: number[] = [];
    for (let line = ""; line !== "OUT_OF_MEMORY"; ) {
      line = (await client.put("x".repeat(60_000))).line;
      if (line !== "OUT_OF_MEMORY") ids.push(Number(line.split(" ")[1]));
      assert.ok(ids.length < 280, "the log would be full by now");
    }
    for (const id of ids) assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
    await until("puts are taken again", async () => {
      const { line } = await client.put("y");
      return line.startsWith("INSERTED ") ? true : undefined;
    });
    await group.caughtUp();
  });

  it("goes on where a standby's disk is full: the standby ends with a message, and catches up later", async (t) => {
    const directory = smallDisk(t, "6m");
    if (directory === undefined) return;
    const group = await ServerGroup.start(t, ["-f", "50", "-s", "1048576"], 1);
    const third = await group.add(directory);
    await group.caughtUp();
    const client = await group.serving();
    try {
      for (let n = 0; n < 150; n++) await put(client, "x".repeat(60_000));
      await until("it ends", async () => (third.exits.length > 0 ? true : undefined));
      await third.end();
      assert.match(third.output, /BINLOG_NO_SPACE: .* ENOSPC.*Make room/);
      assert.equal(third.exits[0], 10, third.output.slice(-1000));
      await put(client, "the others go on");
      assert.equal(spawnSync("mount", ["-o", "remount,size=64m", directory]).status, 0);
      third.start();
      await group.caughtUp();
    } finally {
      // Before its disk goes.
      await third.end();
    }
  });

  it("refuses a damaged directory, and the other server serves", async (t) => {
    const group = await ServerGroup.start(t, ["-f", "0"], 1);
    const client = await group.serving();
    const id = await put(client, "x".repeat(3000));
    await put(client, "y".repeat(3000));
    await group.caughtUp();
    const a = await group.primary();
    await a.end();
    const after = await group.serving();
    assert.equal((await bodyOf(after, id))?.length, 3000);
    flipBit(a.directory, "xxxxxxxx");
    a.output = "";
    a.exits.length = 0;
    a.start();
    await until("it ends", async () => (a.exits.length > 0 ? true : undefined));
    await a.end();
    assert.equal(a.exits[0], 10, a.output);
    assert.match(a.output, /BINLOG_CORRUPT.*damaged at offset.*move .* away.*not use --salvage/);
  });
});

/** Flips a bit of the first place in a directory where this text stands. */
function flipBit(directory: string, text: string): void {
  for (const name of readdirSync(directory)) {
    if (!name.endsWith(".log")) continue;
    const path = join(directory, name);
    const bytes = readFileSync(path);
    const at = bytes.indexOf(text);
    if (at < 0) continue;
    bytes[at]! ^= 1;
    writeFileSync(path, bytes);
    return;
  }
  throw new Error(`no file of ${directory} holds it`);
}
