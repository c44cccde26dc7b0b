// Tests of an operator's bulk move to a tube of another shard: its progress, and what ends it.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { shardOfTube } from "../../../../src/base/bytes.ts";
import { ControlClient } from "../../../../src/http/link/control-client.ts";
import { TaskRegistry } from "../../../../src/http/state/task-registry.ts";
import type { BulkQuestion } from "../../../../src/message/control.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const JOBS = 1500;

const shardOf = (tube: string): number => shardOfTube(Buffer.from(tube), 0, tube.length, 2);
/** A tube of the other shard. */
const FAR = ["far-a", "far-b", "far-c", "far-d", "far-e"].find((tube) => shardOf(tube) !== shardOf("from"))!;
const ALL: BulkQuestion = { tube: "from", act: "move", to: FAR, states: ["ready"], where: {}, max: 1e9 };

function start() {
  const server = new HandDrivenServer(2, undefined, { http: true });
  const control = new ControlClient(server.http!, () => {});
  const tasks = new TaskRegistry(control, () => 0);
  const client = server.connect(true);
  const ask = (text: string): string => {
    client.say(text);
    server.settle();
    return client.take();
  };
  ask("use from\r\n");
  const jobs = (tube: string): number =>
    Number(/current-jobs-ready: (\d+)/.exec(ask(`stats-tube ${tube}\r\n`))?.[1] ?? 0);
  const put = (count: number): void => {
    ask("put 0 0 9 1\r\nx\r\n".repeat(count));
  };
  const begin = (question: Partial<BulkQuestion> = {}) =>
    tasks.start(shardOf("from"), { ...ALL, ...question });
  return { server, ask, jobs, put, begin };
}

describe("a bulk move to another shard", () => {
  it("moves all selected jobs, and counts the arrived ones", async () => {
    const { server, jobs, put, begin } = start();
    put(JOBS);
    const task = begin();
    let before = 0;
    let steps = 0;
    while (server.turn()) {
      assert.ok(task.affected >= before);
      if (task.affected > before && task.affected < JOBS) steps++;
      before = task.affected;
    }
    await task.done;
    assert.ok(steps > 1, "it tells on the way how far it has come");
    assert.deepEqual([task.state, task.affected, task.progress], ["done", JOBS, 1]);
    assert.deepEqual([jobs("from"), jobs(FAR)], [0, JOBS]);
  });

  it("moves as many as requested", async () => {
    const { server, jobs, put, begin } = start();
    put(JOBS);
    const task = begin({ max: 700 });
    server.settle();
    await task.done;
    assert.equal(task.affected, 700);
    assert.deepEqual([jobs("from"), jobs(FAR)], [JOBS - 700, 700]);
  });

  it("ends on request, with the jobs on their way", async () => {
    const { server, jobs, put, begin } = start();
    put(JOBS);
    const task = begin();
    while (task.affected === 0) assert.ok(server.turn());
    task.cancel();
    server.settle();
    await task.done;
    assert.equal(task.state, "cancelled");
    assert.ok(task.affected > 0 && task.affected < JOBS, `${task.affected}`);
    assert.deepEqual([jobs("from"), jobs(FAR)], [JOBS - task.affected, task.affected]);
  });

  it("ends at a full tube, and reports how many it moved", async () => {
    const { server, ask, jobs, put, begin } = start();
    put(JOBS);
    assert.equal(ask(`set-tube ${FAR} max-jobs=300\r\n`), "SET\r\n");
    const task = begin();
    server.settle();
    await assert.rejects(task.done, { refusal: "TUBE_FULL" });
    assert.deepEqual([task.state, task.affected], ["failed", 300]);
    assert.deepEqual([jobs("from"), jobs(FAR)], [JOBS - 300, 300]);
  });

  it("lets other questions be answered while it waits", async () => {
    const { server, put, begin } = start();
    put(JOBS);
    const move = begin();
    const count = begin({ act: "count", states: ["ready", "reserved"] });
    server.settle();
    await Promise.all([move.done, count.done]);
    assert.ok(count.affected > 0);
  });
});
