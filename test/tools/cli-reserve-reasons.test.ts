// Tests of the reasons that `runnerbean reserve -- CMD` gives: the status or signal of a command
// that failed, and the last line of its stderr.

import assert from "node:assert/strict";
import { hostname } from "node:os";
import { after, before, describe, it } from "node:test";
import { connect, type Queue } from "../../src/client/client.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { runTool, type ToolResult } from "../support/server/tool.ts";

describe("cli: reserve with a command that fails", () => {
  let server: ServerProcess;
  let queue: Queue<Uint8Array, Uint8Array | string>;
  before(async () => {
    server = await startServer({ kind: "ours" });
    queue = await connect(`127.0.0.1:${server.port}`);
  });
  after(async () => {
    await queue.close();
    await server.stop();
  });

  /** Has a script do a job. */
  async function reserve(tube: string, script: string): Promise<ToolResult & { id: number }> {
    const { id } = await queue.put(tube, "x");
    const args = ["reserve", tube, "--wait", "0", "--", "sh", "-c", script];
    const done = await runTool(args, { env: { RUNNERBEAN_URL: `beanstalk://127.0.0.1:${server.port}` } });
    return { ...done, id };
  }

  async function failureOf(id: number): Promise<{ cause: string; reason: string; worker: string }> {
    const failure = await queue.job(id).lastError();
    assert.ok(failure !== undefined);
    return failure;
  }

  it("buries the job with the status and the last line, and shows stderr as it comes", async () => {
    const script = String.raw`printf 'one\n\033[31mSMTP 550: 100%% \303\274ber\033[0m\r\n\n' >&2; exit 3`;
    const { id, code, stderr } = await reserve("status", script);
    assert.equal(code, 1);
    assert.match(stderr, /^one\n.*SMTP 550: 100% /);
    const { cause, reason, worker } = await failureOf(id);
    assert.deepEqual([cause, reason], ["buried", "exit status 3: SMTP 550: 100% über"]);
    assert.ok(worker.startsWith(`${hostname().slice(0, 20)}`), worker);
  });

  it("releases the job with the reason after status 75", async () => {
    const { id } = await reserve("temporary", "echo 'try again' >&2; exit 75");
    const { cause, reason } = await failureOf(id);
    assert.deepEqual([cause, reason], ["released", "exit status 75: try again"]);
  });

  it("names the signal, and says nothing more if stderr is empty", async () => {
    const { id } = await reserve("signal", "kill -9 $$");
    assert.equal((await failureOf(id)).reason, "killed by SIGKILL");
  });

  it("keeps the first KiB of a line, however much the command writes", async () => {
    const { id, stderr } = await reserve(
      "long",
      "head -c 3000000 /dev/zero | tr '\\0' y >&2; echo >&2; exit 1",
    );
    assert.ok(stderr.length > 3_000_000);
    const { reason } = await failureOf(id);
    assert.equal(reason, `exit status 1: ${"y".repeat(1024)}`.slice(0, 1024));
    const { id: last } = await reserve("long", "printf 'a\\nthe last' >&2; exit 1");
    assert.equal((await failureOf(last)).reason, "exit status 1: the last");
  });

  it("doesn't wait for a process that the command leaves behind with stderr open", async () => {
    const { id, code } = await reserve("behind", "sleep 86400 >/dev/null & echo $! left >&2; exit 1");
    assert.equal(code, 1);
    const { reason } = await failureOf(id);
    const [, pid] = /^exit status 1: (\d+) left$/.exec(reason) ?? assert.fail(reason);
    process.kill(Number(pid));
  });
});
