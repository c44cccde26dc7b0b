// Tests of batches and schedules in a group: servers with different numbers of shards take over
// from each other, again and again, while members of batches end and while ticks are due.
//
// FAILOVERS=50 PARTITIONS=20 node --test test/replica/flows.test.ts for long runs.

import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { WallClock } from "../soak/wall-clock.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/machine/free-port.ts";
import "../support/machine/own-network.ts";
import { Namespaces, noNamespaces } from "../support/machine/namespaces.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { printSeed, seed } from "../support/seeded-property.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { BatchLedger, LARGE_TUBES, SMALL_TUBES, untilKilled } from "../support/server/batch-ledger.ts";
import { missingNats } from "../support/server/nats-cluster.ts";
import { HERE, ServerGroup, until } from "../support/server/server-group.ts";
import { startServer } from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { SKIP_IF_FAST } from "../support/whole.ts";

const FAILOVERS = Number(process.env["FAILOVERS"] ?? 1);
const PARTITIONS = Number(process.env["PARTITIONS"] ?? 1);
/** A reply that a standby has waits for the log, too. */
const WAIT = process.env["REPLICATE_WAIT"] ?? "standby";
const WORKERS = 3;
const ANSWERS_MAX = 80;
const LARGE_MEMBERS = 200;

/** With different shards, each change of the lead moves batches, jobs and schedules. */
const startGroup = (t: TestContext): Promise<ServerGroup> =>
  ServerGroup.start(t, ["-f", "50", "-s", "2000000"], 1, undefined, [
    { ...HERE, flags: ["--shards", "4"] },
    { ...HERE, flags: ["--shards", "3"] },
  ]);

/**
 * Lets clients fill the group and work until it is time for a fault, around the ends of batches.
 * Returns what waits until the fault has ended their connections.
 */
async function loadUntilLate(
  group: ServerGroup,
  ledger: BatchLedger,
  random: SeededRandom,
): Promise<() => Promise<void>> {
  (await group.serving()).socket.destroy();
  const idle = await Promise.all(Array.from({ length: WORKERS + 2 }, () => group.connect()));
  const clients = [...idle];
  const { promise: isTime, resolve: end } = Promise.withResolvers<void>();
  const endsAtLast = random.chance(0.5);
  let left = random.between(1, ANSWERS_MAX);
  ledger.onProgress = (isLast) => {
    if (--left <= 0 || (isLast && endsAtLast)) end();
  };
  const lives: Promise<void>[] = [];
  const live = (work: (client: WireClient) => Promise<void>): Promise<void> => {
    const promise = untilKilled(work, idle.pop()!);
    promise.catch(end);
    lives.push(promise);
    return promise;
  };
  const filled = live((client) => ledger.fill(client, LARGE_MEMBERS, LARGE_MEMBERS / 10));
  if (random.chance(0.7)) await Promise.race([filled, isTime]);
  if (random.chance(0.5)) void live((client) => ledger.moveOn(client));
  for (let worker = 0; worker < WORKERS; worker++)
    void live((client) => ledger.work(client, worker === 0 ? LARGE_TUBES : SMALL_TUBES, () => false));
  await isTime;
  return async () => {
    await Promise.all(lives);
    for (const client of clients) client.close();
  };
}

/** Works until each callback has come that is due, and checks that nothing is left. */
async function finish(group: ServerGroup, ledger: BatchLedger): Promise<void> {
  (await group.serving()).socket.destroy();
  await ledger.finish(() => group.connect());
  const odd = group.servers
    .flatMap(({ exits }) => exits)
    .filter((exit) => ![0, 75, "SIGKILL"].includes(exit));
  assert.deepEqual(odd, [], group.servers.map(({ output }) => output.slice(-3000)).join("\n---\n"));
}

describe("flows in a group", { skip: missingNats() ?? false }, () => {
  it(`callbacks come once over ${FAILOVERS} fail-overs around the ends of batches`, async (t) => {
    printSeed(t);
    const random = new SeededRandom(seed);
    const ledger = new BatchLedger(random);
    const group = await startGroup(t);
    for (let round = 0; round < FAILOVERS; round++) {
      await group.caughtUp();
      const primary = await group.primary();
      const over = await loadUntilLate(group, ledger, random);
      if (random.chance(0.5)) await sleep(random.below(4));
      primary.signal(random.chance(0.8) ? "SIGKILL" : "SIGTERM");
      await over();
    }
    await finish(group, ledger);
    t.diagnostic(JSON.stringify(ledger.counts));
  });

  it(`callbacks come once over ${PARTITIONS} partitions, when replies wait for the ${WAIT}`, {
    skip: noNamespaces() ?? SKIP_IF_FAST,
  }, async (t) => {
    printSeed(t);
    const random = new SeededRandom(seed);
    const ledger = new BatchLedger(random);
    const network = new Namespaces(t, 3);
    const places = [1, 2, 3].map((machine) => ({
      host: network.address(machine),
      wrapper: network.wrapper(machine),
      flags: ["--shards", `${1 + machine}`],
    }));
    const flags = ["-f", "50", "-s", "2000000", "--replicate-wait", WAIT];
    const group = await ServerGroup.start(t, flags, 3, undefined, places);
    await group.add(temporaryFolder(t, "third"), places[2]);
    for (let round = 0; round < PARTITIONS; round++) {
      await group.caughtUp();
      const machine = group.servers.indexOf(await group.primary()) + 1;
      const over = await loadUntilLate(group, ledger, random);
      // Its clients still reach it, or nobody does.
      if (random.chance(0.7)) network.isolate(machine);
      else network.cut(machine);
      await until("a server on the other side serves", async () => {
        const client = await group.serving();
        client.socket.destroy();
        return client.socket.remoteAddress === network.address(machine) ? undefined : true;
      });
      network.heal(machine);
      await over();
    }
    await finish(group, ledger);
    t.diagnostic(JSON.stringify(ledger.counts));
  });

  it(`each tick comes once over ${FAILOVERS} fail-overs at ticks, while schedules move`, async (t) => {
    printSeed(t);
    const random = new SeededRandom(seed);
    const group = await startGroup(t);
    /** Ticks whose delete was answered, and those whose delete was sent. */
    const done = new Set<string>();
    const sent = new Set<string>();
    let isOver = false;
    const work = async (client: WireClient): Promise<void> => {
      for (const tube of SMALL_TUBES) await client.ask(`watch ${tube}`);
      while (!isOver) {
        const { line } = await client.ask("reserve-batch 100 1 meta=yes");
        const ticks: [id: string, tick: string][] = [];
        for (let left = Number(/^RESERVED_BATCH (\d+)$/.exec(line)?.[1] ?? 0); left > 0; left--) {
          const job = (await client.readUntil("\r\n")).toString("latin1").trimEnd();
          const [, id, tick] = /^RESERVED (\d+) 4 meta=schedule:(\S+)$/.exec(job) ?? assert.fail(job);
          await client.readBytes("ping\r\n".length);
          ticks.push([id!, tick!]);
        }
        for (const [id, tick] of ticks) {
          assert.ok(!done.has(tick), `${tick} was deleted, and came again`);
          sent.add(tick);
          assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
          done.add(tick);
        }
      }
    };
    const working = (async () => {
      while (!isOver) {
        const client = await group.serving();
        await untilKilled(work, client);
        client.close();
      }
    })();
    const names = ["x", "y", "z"];
    for (let round = 0; round <= FAILOVERS; round++) {
      await group.caughtUp();
      const primary = await group.primary();
      const client = await group.serving();
      let nextMs = 0;
      for (const name of names) {
        const line = `set-schedule ${name} ${random.pick(SMALL_TUBES)} 0 0 60 4 every=1 missed=all\r\nping`;
        assert.equal((await client.ask(line)).line, "SET");
        const { body } = await client.ask(`inspect-schedule ${name}`);
        nextMs = Date.parse(/^next: (.*)$/m.exec(`${body}`)![1]!);
      }
      if (round === FAILOVERS) break;
      await sleep(Math.max(0, nextMs - Date.now() + random.between(0, 1) * 1000 + random.below(20) - 4));
      client.close();
      primary.signal(random.chance(0.8) ? "SIGKILL" : "SIGTERM");
    }
    await sleep(2500);
    isOver = true;
    await working;
    for (const name of names) {
      const times = [...sent]
        .filter((tick) => tick.startsWith(`${name}@`))
        .map((tick) => Date.parse(tick.slice(2)));
      times.sort((a, b) => a - b);
      for (const [at, time] of times.slice(1).entries())
        assert.equal(
          time - times[at]!,
          1000,
          `no tick of ${name} is lost: ${new Date(times[at]!).toISOString()}`,
        );
    }
    t.diagnostic(`${done.size} ticks, ${sent.size - done.size} of unknown end`);
  });

  it("a standby continues batches and schedules, and so does a backup of it", async (t) => {
    const clock = new WallClock();
    const wrapper = ["env", ...Object.entries(clock.env).map(([name, value]) => `${name}=${value}`)];
    const http = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`] as const;
    const place = { ...HERE, wrapper: [...wrapper, `NODE_OPTIONS=${clock.nodeOption}`] };
    const group = await ServerGroup.start(t, ["-f", "50"], 1, temporaryFolder(t, "first"), [
      { ...place, flags: ["--shards", "4", "--http", http[0]] },
      { ...place, flags: ["--shards", "3", "--http", http[1]] },
    ]);
    let client = await group.serving();
    const say = async (line: string): Promise<string> => {
      const { line: reply, body } = await client.ask(line);
      return body === undefined ? reply : `${body}`;
    };
    const put = async (tube: string, options: string): Promise<string> => {
      const reply = await say(`put-in-tube ${tube} 0 0 60 1 ${options}\r\nx`);
      return /^INSERTED (\d+)$/.exec(reply)?.[1] ?? assert.fail(`${options}: ${reply}`);
    };
    const failOver = async (meanwhile: () => void = () => {}): Promise<void> => {
      await group.caughtUp();
      client.close();
      const primary = await group.primary();
      await primary.end();
      meanwhile();
      client = await group.serving();
      primary.start();
    };
    const end = async (id: string): Promise<void> => {
      await say(`reserve-job ${id}`);
      assert.equal(await say(`delete ${id}`), "DELETED");
    };
    const batch = async (name: string): Promise<string> =>
      (await say(`inspect-batch ${name}`)).replace(/^(?:age|forgets-in): \d+\n/gm, "");
    const stateOf = async (id: string): Promise<string | undefined> =>
      /^state: (\w+)$/m.exec(await say(`stats-job ${id}`))?.[1];

    for (const name of ["import", "cancelled", "open"])
      assert.equal(await say(`open-batch ${name} keep=1000000`), "OPENED");
    assert.equal(await say("set-tube dying max-attempts=1"), "SET");
    const members: string[] = [];
    for (const tube of ["a", "b", "c", "d", "e", "f"])
      members.push(await put(tube, `batch=import meta=trace:${tube} group=g weight=3 cost=2`));
    const dead = await put("dying", "batch=import");
    const after = await put("calls", "after=import meta=why:after");
    const afterAny = await put("calls", "after-any=import meta=why:any weight=2");
    const nested = await put("calls", "batch=open after-any=import");
    const swept = [await put("a", "batch=cancelled"), await put("f", "batch=cancelled")];
    const overAny = await put("calls", "after-any=cancelled");
    const over = await put("calls", "after=cancelled");
    await end(members[0]!);
    await end(members[1]!);
    await say(`delete ${members[2]}`);
    await say(`reserve-job ${dead}`);
    await say(`release ${dead} 0 0`);
    await say(`reserve-job ${members[3]}`);
    await say(`bury ${members[3]} 0`);
    for (const missed of ["once", "all", "none"]) {
      const name = `${missed} ticks 0 0 60 4`;
      assert.equal(
        await say(`set-schedule ${name} every=3600 missed=${missed} meta=m:1 weight=4\r\nping`),
        "SET",
      );
    }
    assert.equal(await say("set-schedule rests ticks 0 0 60 4 every=3600 missed=all\r\nping"), "SET");
    // Half an hour away, so that five hours and two minutes have five of them at any time of day.
    const minute = new Date(Date.now() + 1_800_000).getUTCMinutes();
    assert.equal(await say("pause-schedule rests"), "PAUSED");
    assert.equal(
      await say(`set-schedule hourly hourly 0 0 60 4 cron=${minute}_*_*_*_* tz=Europe/Berlin\r\nping`),
      "SET",
    );
    assert.match(await say("run-schedule hourly"), /^INSERTED/);

    const reports = async (): Promise<string[]> => {
      const all: string[] = [];
      for (const name of ["import", "cancelled", "open"]) all.push(await batch(name));
      for (const name of ["once", "all", "none", "rests", "hourly"])
        all.push(await say(`inspect-schedule ${name}`));
      for (const id of [...members, dead, after, afterAny, nested])
        all.push(
          (await say(`inspect-job ${id}`)).replace(/^(?:age|time-left|file|reserves): .*\n|,"age":\d+/gm, ""),
        );
      return all;
    };
    const before = await reports();
    // A job that was cancelled while a worker held it ends with the reservation.
    const holder = await group.connect();
    assert.equal(await say("open-batch marked keep=1000000"), "OPENED");
    const marked = await put("d", "batch=marked unique=m unique-for=1000000");
    assert.match((await holder.ask(`reserve-job ${marked}`)).line, /^RESERVED/);
    assert.equal(await say(`cancel-job ${marked}`), "CANCELLING");
    assert.equal(await say("commit-batch marked"), "COMMITTED");
    await failOver();
    holder.close();
    assert.equal(await say(`peek ${marked}`), "NOT_FOUND");
    assert.match(await batch("marked"), /^outcome: failure\nmembers: 1\nopen: 0\ndone: 0\nfailed: 1$/m);
    assert.equal(await say("put-in-tube d 0 0 60 1 unique=m\r\nx"), `DUPLICATE ${marked}`);
    assert.deepEqual(await reports(), before);
    assert.equal(await say("commit-batch import"), "COMMITTED");
    assert.equal(await say("cancel-batch cancelled"), "CANCELLED");
    await failOver();
    assert.match(
      await batch("cancelled"),
      /^state: complete\noutcome: cancelled\nmembers: 2\nopen: 0\ndone: 0\nfailed: 2$/m,
    );
    await eventually(
      "its jobs are released and buried",
      async () => [await stateOf(overAny), await stateOf(over)].join() === "ready,buried",
    );
    for (const id of swept) assert.equal(await say(`peek ${id}`), "NOT_FOUND");

    // Two minutes late.
    await failOver(() => clock.step(5 * 3_600_000 + 120_000));
    const schedule = async (name: string): Promise<string[]> =>
      /^fired: (.*)\nruns: (.*)\nmissed-ticks: (.*)\nduplicates: 0\nrefusals: 0$/m
        .exec(await say(`inspect-schedule ${name}`))!
        .slice(1);
    const due = { once: "1,0,4", all: "5,0,0", none: "0,0,5", rests: "0,0,0", hourly: "1,1,4" };
    const schedules = async (): Promise<Record<string, string>> => {
      const counts: Record<string, string> = {};
      for (const name of Object.keys(due)) counts[name] = `${await schedule(name)}`;
      return counts;
    };
    await eventually("ticks that were missed are made up for", async () =>
      isDeepStrictEqual(await schedules(), due),
    );
    const ready = async (tube: string): Promise<string> =>
      /^current-jobs-ready: (\d+)$/m.exec(await say(`stats-tube ${tube}`))![1]!;
    assert.deepEqual([await ready("ticks"), await ready("hourly")], ["6", "2"]);

    // The last member that is open ends just before the server does.
    const last = await reports();
    const folder = temporaryFolder(t, "backup");
    const tar = join(folder, "jobs.tar");
    const leads = group.servers.indexOf(await group.primary());
    const backup = await runTool(["backup", `http://${http[leads]}`, tar]);
    assert.equal(backup.code, 0, backup.stderr);
    await say(`kick-job ${members[3]}`);
    for (const id of members.slice(3)) await end(id);
    await failOver();
    const ended = async (): Promise<string> =>
      [await stateOf(afterAny), await stateOf(after), await stateOf(nested)].join();
    await eventually("the callbacks come", async () => (await ended()) === "ready,buried,ready");
    assert.match(await batch("import"), /^outcome: failure\nmembers: 7\nopen: 0\ndone: 5\nfailed: 2$/m);
    assert.deepEqual(await schedules(), due);
    assert.deepEqual([await ready("ticks"), await ready("hourly")], ["6", "2"]);
    client.close();
    for (const server of group.servers) await server.end();

    const restored = await runTool(["restore", tar, join(folder, "log")]);
    assert.equal(restored.code, 0, restored.stderr);
    const alone = await startServer({
      kind: "ours",
      flags: ["-b", join(folder, "log"), "--shards", "2"],
      env: { ...clock.env, NODE_OPTIONS: clock.nodeOption },
    });
    t.after(() => alone.kill());
    client = await WireClient.connect(alone.address);
    assert.deepEqual(await reports(), last);
    await say(`kick-job ${members[3]}`);
    for (const id of members.slice(3)) await end(id);
    await eventually("the callbacks come once more", async () => (await ended()) === "ready,buried,ready");
    client.close();
  });
});
