// Tests of `runnerbean failures`: why jobs have failed, by reason and by time.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { connect, type Queue } from "../../src/client/client.ts";
import { scriptedServer } from "../client/scripted-server.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { runTool, type ToolResult } from "../support/server/tool.ts";

const runOn = (server: ServerProcess, ...args: string[]): Promise<ToolResult> =>
  runTool(args, { env: { RUNNERBEAN_URL: `beanstalk://127.0.0.1:${server.port}` } });

describe("cli: failures", () => {
  let server: ServerProcess;
  let queue: Queue<Uint8Array, Uint8Array | string>;
  before(async () => {
    server = await startServer({ kind: "ours", flags: ["--shards", "3"] });
    queue = await connect(`127.0.0.1:${server.port}`, { name: "web-1" });
  });
  after(async () => {
    await queue.close();
    await server.stop();
  });

  const say = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await runOn(server, "failures", ...args);
    assert.equal(code, 0, stderr);
    return Buffer.from(stdout, "latin1").toString();
  };
  async function fail(tube: string, reason: string, how: "bury" | "release" = "bury"): Promise<number> {
    const { id } = await queue.put(tube, "x");
    await (await queue.reserveJob(id))[how]({ reason });
    return id;
  }
  /** The rows of a table, without their ages. */
  const cells = (text: string, age: number): string[] =>
    text
      .trimEnd()
      .split("\n")
      .map((line) => line.split("\t").toSpliced(age, 1).join("|"));

  it("says that there are none with its exit code", async () => {
    const { code, stdout } = await runOn(server, "failures");
    assert.deepEqual([code, stdout], [1, "jobs\ttube\tcause\treason\tage\tworker\tid\n"]);
  });

  it("counts the jobs of each reason, and lists those that failed last", async () => {
    await queue.put("mails", "never failed");
    const ids = [
      await fail("mails", "timeout after 10 ms"),
      await fail("mails", "timeout after 1234 ms"),
      await fail("mails", "no such user: j\u00f6rg\u001b[2J", "release"),
      await fail("other", "timeout after 10 ms"),
    ];
    const [mails, theirs] = [await say("mails"), await say()];
    const head = "jobs|tube|cause|reason|worker|id";
    const counted = [
      "2|mails|buried|timeout after 1234 ms|web-1",
      "1|mails|released|no such user: j\u00f6rg\\u001b[2J|web-1",
    ];
    // Of two that failed in the same second, either may be the latest.
    const shown = (text: string): string[] =>
      cells(text, 4).map((line) => line.replace(/after \d+/, "after 1234").replace(/\|\d+$/, ""));
    assert.deepEqual(shown(mails), [head, ...counted]);
    assert.deepEqual(
      shown(theirs).slice(1).sort(),
      [...counted, "1|other|buried|timeout after 1234 ms|web-1"].sort(),
    );
    assert.equal(cells(await say("mails", "--state", "buried"), 4).length, 2);
    assert.deepEqual(cells(await say("--top", "1"), 4).length, 2);

    const recent = cells(await say("mails", "--recent"), 3);
    assert.equal(recent[0], "id|tube|state|attempt|cause|reason|worker");
    assert.deepEqual(
      recent.slice(1).sort(),
      [
        `${ids[0]}|mails|buried|1|buried|timeout after 10 ms|web-1`,
        `${ids[1]}|mails|buried|1|buried|timeout after 1234 ms|web-1`,
        `${ids[2]}|mails|ready|1|released|no such user: j\u00f6rg\\u001b[2J|web-1`,
      ].sort(),
    );
    const [line = ""] = (await say("other", "--recent", "--json")).split("\n");
    const { age, ...job } = JSON.parse(line);
    assert.ok(age >= 0);
    assert.deepEqual(job, {
      ...{ id: ids[3], tube: "other", state: "buried", attempt: 1 },
      ...{ cause: "buried", reason: "timeout after 10 ms", worker: "web-1" },
    });
  });
});

it("cli: failures tells that beanstalkd has no reasons", async (t) => {
  if (!canRun(t, NEEDS.beanstalkd)) return;
  const server = await startServer({ kind: "beanstalkd-1.12" });
  t.after(() => server.stop());
  const { code, stderr } = await runOn(server, "failures");
  assert.equal(code, 1);
  assert.match(stderr, /the server has no failure reasons: this works with runnerbean only/);
});

it("cli: failures lists those that failed last, however many there are", async (t) => {
  const JOBS = 1500;
  const LATEST = 700;
  const failed = (id: number): object => ({
    ...{ id, tube: "t", state: "buried" },
    failure: { attempt: 1, cause: "buried", age: Math.abs(id - LATEST), worker: "w", reason: `${id}` },
  });
  const listOf = (line: string): string => {
    const after = Number(/ after=(\d+)/.exec(line)?.[1] ?? 0);
    const last = Math.min(JOBS, after + Number(/ limit=(\d+)/.exec(line)![1]));
    const ids = Array.from({ length: last - after }, (_, index) => after + 1 + index);
    const next = last < JOBS ? last : 0;
    return `---\nnext: ${next}\njobs:\n${ids.map((id) => `- ${JSON.stringify(failed(id))}\n`).join("")}`;
  };
  const server = await scriptedServer(t, (line) => {
    if (line === "quit") return undefined;
    const text = line === "extensions" ? "---\nname: 1\nlist-jobs: 1\n" : listOf(line);
    return `OK ${text.length}\r\n${text}\r\n`;
  });
  const args = ["failures", "t", "--recent", "--top", "3"];
  const { code, stdout, stderr } = await runTool(args, {
    env: { RUNNERBEAN_URL: `beanstalk://${server.address}` },
  });
  assert.equal(code, 0, stderr);
  const ids = stdout
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((line) => Number(line.split("\t")[0]));
  assert.deepEqual(ids, [LATEST, LATEST - 1, LATEST + 1]);
});
