// Tests of the shadow: clients of a real beanstalkd notice nothing of it, whatever happens to the
// new server, and a planted difference is found.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { connect } from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/machine/free-port.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import {
  ourMain,
  type ServerOptions,
  type ServerProcess,
  startServer,
  TEST_ENV,
} from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

interface Line {
  readonly event: string;
  readonly what?: string;
  readonly why?: string;
  readonly sure?: boolean;
  readonly command?: string;
  readonly same?: number;
  readonly skipped?: number;
  readonly different?: number;
  readonly dropped?: number;
}

class Shadow {
  readonly child: ChildProcess;
  readonly port: number;
  #stdout = "";
  stderr = "";
  readonly exited: Promise<number | null>;

  constructor(port: number, old: ServerProcess, fresh: string) {
    const args = ["shadow", "--old", `beanstalk://127.0.0.1:${old.port}`];
    args.push("--new", fresh, "--listen", `127.0.0.1:${port}`, "--every", "1");
    this.port = port;
    this.child = spawn(process.execPath, [ourMain(TEST_ENV), ...args], { env: TEST_ENV });
    this.child.stdout!.on("data", (text) => {
      this.#stdout += text;
    });
    this.child.stderr!.on("data", (text) => {
      this.stderr += text;
    });
    this.exited = new Promise((resolve) => this.child.once("close", resolve));
  }

  get lines(): Line[] {
    return this.#stdout
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line));
  }

  of(event: string): Line[] {
    return this.lines.filter((line) => line.event === event);
  }

  client(): Promise<WireClient> {
    return WireClient.connect({ host: "127.0.0.1", port: this.port });
  }

  async stop(): Promise<Line> {
    this.child.kill("SIGTERM");
    await this.exited;
    return this.of("summary").at(-1)!;
  }
}

async function shadowed(t: TestContext, ...flags: string[]) {
  return besideBeanstalkd(t, { kind: "ours", flags });
}

async function besideBeanstalkd(t: TestContext, options: ServerOptions) {
  const old = await startServer({ kind: "beanstalkd-1.12" });
  t.after(() => old.kill());
  // Its ids differ.
  const fresh = await startServer(options);
  t.after(() => fresh.kill());
  const first = await WireClient.connect(fresh.address);
  for (let i = 0; i < 5; i++) await first.put("earlier");
  await first.ask("reserve");
  first.socket.destroy();
  return { old, fresh, shadow: await startShadow(t, old, urlOf(fresh)) };
}

const urlOf = ({ address }: ServerProcess): string =>
  "path" in address ? `unix:${address.path}` : `beanstalk://127.0.0.1:${address.port}`;

async function startShadow(t: TestContext, old: ServerProcess, fresh: string): Promise<Shadow> {
  const shadow = new Shadow(await freePort(), old, fresh);
  t.after(() => shadow.child.kill("SIGKILL"));
  await eventually(
    () => `it listens: ${shadow.stderr}`,
    () => shadow.stderr.includes("listens on"),
  );
  return shadow;
}

/** A life of jobs with every common command; asserts each reply. */
async function work(client: WireClient, tube: string, rounds: number): Promise<void> {
  const says = async (line: string, wanted: RegExp): Promise<string> => {
    const reply = await client.ask(line);
    assert.match(reply.line, wanted, line);
    return reply.line;
  };
  await says(`use ${tube}`, /^USING/);
  await says(`watch ${tube}`, /^WATCHING 2/);
  await says("ignore default", /^WATCHING 1/);
  for (let round = 0; round < rounds; round++) {
    assert.match((await client.put(`${tube} ${round}`, { pri: round % 7, ttr: 60 })).line, /^INSERTED/);
    const id = /^RESERVED (\d+)/.exec(await says("reserve", /^RESERVED/))![1];
    if (round % 3 === 0) {
      await says(`release ${id} 5 0`, /^RELEASED/);
      await says(`peek ${id}`, /^FOUND/);
      await says("reserve-with-timeout 1", /^RESERVED/);
    } else if (round % 3 === 1) {
      await says(`bury ${id} 3`, /^BURIED/);
      await says(`stats-job ${id}`, /^OK/);
      await says("peek-buried", /^FOUND/);
      await says("kick 10", /^KICKED 1/);
      await says("reserve", /^RESERVED/);
    }
    await says(`touch ${id}`, /^TOUCHED/);
    await says(`delete ${id}`, /^DELETED/);
    await says(`delete ${id}`, /^NOT_FOUND/);
    await says("reserve-with-timeout 0", /^TIMED_OUT/);
    await says("nonsense", /^UNKNOWN_COMMAND/);
  }
  await says("stats", /^OK/);
  await says(`stats-tube ${tube}`, /^OK/);
  await says("list-tubes-watched", /^OK/);
}

describe("a shadow", () => {
  it("finds no difference in what our own client asks of each server", async (t) => {
    if (!canRun(t, NEEDS.beanstalkd)) return;
    const { shadow } = await shadowed(t);
    const queue = await connect(`127.0.0.1:${shadow.port}`);
    for (let n = 0; n < 20; n++) {
      await queue.put("own", `${n}`);
      queue.watch("own");
      const job = await queue.reserve();
      await job.delete();
    }
    await eventually("all is compared", () => (shadow.of("summary").at(-1)?.same ?? 0) > 60);
    await queue.close();
    const summary = await shadow.stop();
    assert.deepEqual(shadow.of("difference"), []);
    assert.equal(summary.different, 0);
    assert.equal(await shadow.exited, 0);
  });

  it("finds no difference between beanstalkd and runnerbean, with several clients", async (t) => {
    if (!canRun(t, NEEDS.beanstalkd)) return;
    const { shadow } = await shadowed(t);
    const clients = await Promise.all(Array.from({ length: 3 }, () => shadow.client()));
    await Promise.all(clients.map((client, n) => work(client, `t${n}`, 30)));
    await eventually("all is compared", () => (shadow.of("summary").at(-1)?.same ?? 0) > 700);
    for (const client of clients) client.socket.destroy();
    const summary = await shadow.stop();
    assert.deepEqual(shadow.of("difference"), []);
    assert.deepEqual(shadow.of("dropped"), []);
    assert.ok(summary.skipped! >= 90, "waits without a job are not repeated");
    assert.equal(shadow.child.exitCode, 0);
  });

  it("follows jobs that one client puts and another does", async (t) => {
    if (!canRun(t, NEEDS.beanstalkd)) return;
    const { shadow } = await shadowed(t);
    const [producer, worker] = [await shadow.client(), await shadow.client()];
    const puts = (async () => {
      for (let i = 0; i < 200; i++) assert.match((await producer.put(`${i}`, { ttr: 60 })).line, /^INSERTED/);
    })();
    for (let i = 0; i < 200; i++) {
      const { line } = await worker.ask("reserve");
      const id = /^RESERVED (\d+)/.exec(line)?.[1] ?? assert.fail(line);
      assert.equal((await worker.ask(`delete ${id}`)).line, "DELETED");
    }
    await puts;
    await eventually("all is compared", () => (shadow.of("summary").at(-1)?.same ?? 0) === 600);
    const { different, dropped } = await shadow.stop();
    assert.deepEqual({ different, dropped }, { different: 0, dropped: 0 });
  });

  it("reports a planted difference", async (t) => {
    if (!canRun(t, NEEDS.beanstalkd)) return;
    const { shadow } = await shadowed(t, "-z", "100");
    const client = await shadow.client();
    assert.match((await client.put("x".repeat(200))).line, /^INSERTED/);
    const [found] = await eventually("it is reported", () => {
      const found = shadow.of("difference");
      return found.length > 0 && found;
    });
    assert.equal(found!.what, "different reply");
    assert.equal(found!.sure, true);
    assert.match(found!.command!, /^put 0 0 \d+ 200/);
    await shadow.stop();
    assert.equal(shadow.child.exitCode, 1);
  });

  it("keeps all trouble of the new server away from clients", async (t) => {
    if (!canRun(t, NEEDS.beanstalkd)) return;
    const { old, fresh, shadow } = await shadowed(t);
    const [idle, busy] = [await shadow.client(), await shadow.client()];
    await work(idle, "idle", 2);
    fresh.child.kill("SIGSTOP");
    // Far more than the queue has room for, answered as beanstalkd answers.
    for (let i = 0; i < 60; i++) {
      busy.send(`put 0 0 60 40000\r\n${"x".repeat(40_000)}\r\n`.repeat(10));
      for (let n = 0; n < 10; n++) assert.match((await busy.readReply()).line, /^INSERTED/);
    }
    const [dropped] = await eventually("it gives up on that connection", () => {
      const found = shadow.of("dropped");
      return found.length > 0 && found;
    });
    assert.match(dropped!.why!, /too slow: \d+ commands wait/);
    fresh.child.kill("SIGCONT");
    await work(idle, "idle2", 1).catch(() => {});
    await fresh.kill();
    const late = await shadow.client();
    await work(late, "late", 5);
    await eventually("the rest is given up, too", () => shadow.of("dropped").length >= 2);
    late.socket.destroy();
    // Even one that was never there.
    const alone = await startShadow(t, old, `beanstalk://127.0.0.1:${await freePort()}`);
    const client = await alone.client();
    await work(client, "alone", 5);
    await eventually("it says so", () => alone.of("dropped").some(({ why }) => /ECONNREFUSED/.test(why!)));
  });

  for (const [name, hasLog] of [
    ["without its log", false],
    ["with its log", true],
  ] as const)
    it(`addresses no other job on a new server that was restarted ${name}`, async (t) => {
      if (!canRun(t, NEEDS.beanstalkd)) return;
      const unixPath = join(temporaryFolder(t), "socket");
      const options = { kind: "ours", unixPath, flags: hasLog ? ["-b", temporaryFolder(t)] : [] } as const;
      const { fresh, shadow } = await besideBeanstalkd(t, options);
      const before = await shadow.client();
      assert.equal((await before.put("old job")).line, "INSERTED 1");
      await eventually("it is repeated", () => shadow.of("summary").at(-1)?.same === 1);
      await fresh.kill();
      const next = await startServer(options);
      t.after(() => next.kill());
      const direct = await WireClient.connect(next.address);
      // Without the log, these have the ids of the earlier jobs.
      for (let i = 0; i < 6; i++) await direct.put(`later ${i}`);
      const client = await shadow.client();
      assert.match((await client.ask("reserve")).line, /^RESERVED 1 /);
      assert.equal((await client.ask("delete 1")).line, "DELETED");
      assert.equal((await client.put("next")).line, "INSERTED 2");
      assert.equal((await client.ask("delete 2")).line, "DELETED");
      const { skipped, different } = await eventually("all is compared", () => {
        const summary = shadow.of("summary").at(-1);
        return (summary?.same ?? 0) + (summary?.skipped ?? 0) >= 5 && summary!;
      });
      assert.deepEqual({ skipped, different }, { skipped: hasLog ? 0 : 2, different: 0 });
      const { line } = await direct.ask("peek 6");
      assert.equal(line, hasLog ? "NOT_FOUND" : "FOUND 6 7");
    });

  it("goes on where nobody reads its report", async (t) => {
    if (!canRun(t, NEEDS.beanstalkd)) return;
    const { shadow } = await shadowed(t, "-z", "10");
    shadow.child.stdout!.pause();
    const client = await shadow.client();
    for (let i = 0; i < 3000; i++) assert.match((await client.put("x".repeat(150))).line, /^INSERTED/);
    shadow.child.stdout!.resume();
    await eventually("there are reports", () => shadow.of("difference").length > 100);
  });
});
