// Tests of the parts of an answer: they arrive in order, and none that reports a change arrives
// before the change is durable enough.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { AcceptorCore } from "../../../../src/acceptor/connection/acceptor-core.ts";
import { shardOfTube } from "../../../../src/base/bytes.ts";
import { AsyncQueue, Busy, ControlClient } from "../../../../src/http/link/control-client.ts";
import { TaskRegistry } from "../../../../src/http/state/task-registry.ts";
import type { BulkQuestion } from "../../../../src/message/control.ts";
import { ResponseFlag } from "../../../../src/message/response.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

/** The test says by hand what is durable. */
class Log {
  durable = 0;
  readonly core: AcceptorCore;

  constructor() {
    this.core = new HandDrivenServer(1, undefined, { http: true }).http!;
    this.core.log.isLogged = (_shard, number) => number <= this.durable;
  }
}

describe("parts of an answer", () => {
  it("wait for their records, and for those before them", () => {
    const log = new Log();
    const control = new ControlClient(log.core, () => {});
    const told: string[] = [];
    let waits = 0;
    log.core.runQueues.waitForLog = () => void waits++;
    const { number } = control.begin(0, "ping", undefined, (bytes) =>
      told.push(Buffer.from(bytes).toString()),
    );
    const answer = (text: string, flags: number, recordNumber: number): void =>
      control.onAnswer({ shard: 0, flags, number, recordNumber, payload: Buffer.from(text) });
    answer("first", ResponseFlag.More, 0);
    answer("second", ResponseFlag.More | ResponseFlag.Durable, 1);
    answer("third", ResponseFlag.More, 0);
    assert.deepEqual(told, ["first"]);
    const waitsBefore = waits;
    control.flush();
    assert.deepEqual(told, ["first"]);
    assert.equal(waits, waitsBefore + 1, "what is not durable yet waits for the log again");
    log.durable = 1;
    answer("last", ResponseFlag.Durable, 1);
    assert.deepEqual(told, ["first"]);
    assert.ok(control.isDurable);
    const waitsAtLast = waits;
    control.flush();
    assert.deepEqual(told, ["first", "second", "third", "last"]);
    assert.equal(waits, waitsAtLast, "nothing waits any more");
    assert.equal(control.underWay, 0);
  });
});

/** Returns why a question is refused; "" if it is under way. */
async function refusalOf(asked: Promise<unknown>): Promise<string> {
  let refusal = "";
  asked.catch((error: Error) => {
    refusal = error.message;
  });
  await nextTurn();
  return refusal;
}

describe("questions", () => {
  it("are refused beyond a thousand under way, or if they are too long; neither counts", async () => {
    const server = new HandDrivenServer(1, undefined, { http: true });
    const control = new ControlClient(server.http!, () => {});
    const all = Array.from({ length: 1000 }, () => control.ask(0, "totals", undefined));
    assert.equal(control.underWay, 1000);
    assert.match(await refusalOf(control.ask(0, "totals", undefined)), /too many questions/);
    assert.equal(control.underWay, 1000);
    void control.ask(0, "ping", undefined);
    assert.equal(control.underWay, 1001, "a ping is never refused");
    server.settle();
    await Promise.all(all);
    assert.equal(control.underWay, 0);
    const jobs = Array.from({ length: control.questionBytesMax }, () => ({ id: 1, reserves: 1 }));
    assert.match(await refusalOf(control.ask(0, "give-back", { jobs })), /too long/);
    assert.equal(control.underWay, 0);
    const last = control.ask(0, "totals", undefined);
    server.settle();
    await last;
  });

  it("may fill a message to its last byte", async () => {
    const server = new HandDrivenServer(1, undefined, { http: true });
    const control = new ControlClient(server.http!, () => {});
    // Verb and details are packed as an array of a text and a map.
    const ask = (length: number): Promise<unknown> =>
      control.askParts(0, "tubes", { name: "x".repeat(length) }, () => {});
    let length = control.questionBytesMax - 100;
    let refused = "";
    for (const end = length + 200; refused === "" && length < end; length++) {
      const asked = ask(length).catch((error: Error) => {
        refused = error.message;
      });
      server.settle();
      await asked;
    }
    assert.match(refused, /too long/);
    // MessagePack's heads: of the array, the verb, the map, the key, and a text above 64 KiB.
    const packed = 1 + 1 + "tubes".length + 3 + 1 + "name".length + 5;
    assert.equal(length - 1 + packed, control.questionBytesMax + 1);
  });
});

const HERE = { destroyed: false };

describe("in turn", () => {
  it("starts each task when the one before is done, also if that failed", async () => {
    const turns = new AsyncQueue();
    const first = Promise.withResolvers<string>();
    const began: string[] = [];
    const begin = (name: string, result: Promise<string>) =>
      turns.run(HERE, () => {
        began.push(name);
        return result;
      });
    const made = [begin("a", first.promise), begin("b", Promise.resolve("done"))];
    await new Promise(setImmediate);
    assert.deepEqual(began, ["a"]);
    first.reject(new Error("failed"));
    await assert.rejects(made[0]!, /failed/);
    assert.equal(await made[1], "done");
    assert.deepEqual(began, ["a", "b"]);
  });

  it("skips clients that have left before their turn", async () => {
    const turns = new AsyncQueue();
    const asker = { destroyed: false };
    const first = Promise.withResolvers<void>();
    const made = [turns.run(HERE, () => first.promise), turns.run(asker, () => assert.fail("it was made"))];
    asker.destroyed = true;
    first.resolve();
    await made[0];
    await assert.rejects(made[1]!, Busy);
  });

  it("lets a thousand wait, and more when these are done", async () => {
    const turns = new AsyncQueue();
    const first = Promise.withResolvers<void>();
    const made = [turns.run(HERE, () => first.promise)];
    await new Promise(setImmediate);
    for (let each = 0; each < 1000; each++) made.push(turns.run(HERE, async () => {}));
    await assert.rejects(
      turns.run(HERE, async () => {}),
      Busy,
    );
    first.resolve();
    await Promise.all(made);
    await turns.run(HERE, async () => {});
  });
});

// Tests of an operator's bulk move to a tube of another shard: its progress, and what ends it.

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
