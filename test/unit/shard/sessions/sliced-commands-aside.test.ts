// Tests of long moves that wait for jobs in transit: no turn looks at them, however many, before
// there is news of their job.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes, shardOfTube } from "../../../../src/base/bytes.ts";
import { RequestOp } from "../../../../src/message/request.ts";
import { TransferMessage } from "../../../../src/message/transfer.ts";
import type { Replies } from "../../../../src/shard/sessions/replies.ts";
import type { ShardSession, SlicedCommand } from "../../../../src/shard/sessions/shard-session.ts";
import { SlicedCommands } from "../../../../src/shard/sessions/sliced-commands.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { memoryInUse, settledBytes } from "../../../support/machine/memory-in-use.ts";

const MANY = 10_000;
const TURNS = 100;
/** Far less than 50,000 empty sets. */
const KEPT_BYTES_MAX = 2e6;
const anybody = (): boolean => true;

/** Waits for a job, and counts how often it is asked whether it still does. */
class Waiter implements SlicedCommand {
  readonly jobs = 1;
  readonly mayEndUnheard: boolean;
  static looks = 0;
  #awaited: number | undefined;
  isDone = false;

  constructor(job: number, mayEndUnheard = false) {
    this.#awaited = job;
    this.mayEndUnheard = mayEndUnheard;
  }

  get awaitedJob(): number | undefined {
    Waiter.looks++;
    return this.#awaited;
  }

  waitFor(job: number | undefined): void {
    this.#awaited = job;
  }

  step(): boolean {
    return this.#awaited === undefined;
  }

  finish(): void {
    this.isDone = true;
  }
}

class Scene {
  readonly slicedCommands = new SlicedCommands({ recordsBefore: 0 } as Replies, 1000, () => 0);
  readonly waiters: Waiter[] = [];

  /** Waiter n waits for job n. */
  constructor(count: number, mayEndUnheard = false) {
    for (let job = 0; job < count; job++) {
      const waiter = new Waiter(job, mayEndUnheard);
      this.waiters.push(waiter);
      this.slicedCommands.join({} as ShardSession, waiter);
    }
    Waiter.looks = 0;
  }

  /** Takes turns as long as there is something to do, and so many more. */
  turns(more: number): void {
    for (let left = more; left > 0; ) {
      if (!this.slicedCommands.hasWork(anybody)) left--;
      this.slicedCommands.step(anybody, 0);
    }
  }

  get done(): number[] {
    return [...this.waiters.entries()].filter(([, { isDone }]) => isDone).map(([job]) => job);
  }
}

describe("SlicedCommands", () => {
  it("looks at no waiting command", () => {
    const scene = new Scene(MANY);
    scene.turns(TURNS);
    assert.equal(Waiter.looks, 0);
  });

  it("resumes commands whose job has settled, and looks at no others", () => {
    const scene = new Scene(MANY);
    for (const job of [7, 5000]) {
      scene.waiters[job]!.waitFor(undefined);
      scene.slicedCommands.settled(job);
    }
    scene.turns(TURNS);
    assert.deepEqual(scene.done, [7, 5000]);
    assert.ok(Waiter.looks < 10, `${Waiter.looks} looks`);
  });

  it("lets a command wait again, for another job or the same", () => {
    const scene = new Scene(3);
    scene.waiters[0]!.waitFor(1);
    scene.slicedCommands.settled(0);
    scene.slicedCommands.settled(2);
    scene.turns(TURNS);
    assert.deepEqual(scene.done, []);
    for (const waiter of scene.waiters) waiter.waitFor(undefined);
    scene.slicedCommands.settled(1);
    scene.turns(TURNS);
    assert.deepEqual(scene.done, [0, 1]);
    scene.slicedCommands.settled(2);
    scene.turns(TURNS);
    assert.deepEqual(scene.done, [0, 1, 2]);
  });

  it("checks some commands a turn whose job may have arrived unnoticed", () => {
    const scene = new Scene(1000, true);
    scene.turns(TURNS);
    assert.ok(Waiter.looks <= TURNS * 40, `${Waiter.looks} looks in ${TURNS} turns`);
    for (const waiter of scene.waiters.slice(990)) waiter.waitFor(undefined);
    scene.turns(TURNS);
    assert.equal(scene.done.length, 10);
    scene.waiters[3]!.waitFor(undefined);
    scene.slicedCommands.settled(3);
    scene.slicedCommands.step(anybody, 0);
    assert.equal(scene.waiters[3]!.isDone, true);
    // It is not among those that nobody has told of their job any more.
    scene.turns(TURNS);
    assert.equal(scene.done.length, 11);
  });

  it("keeps nothing of the jobs that commands have waited for", () => {
    const moves = new SlicedCommands({ recordsBefore: 0 } as Replies, 1000, () => 0);
    const session = {} as ShardSession;
    /** Has a command wait for each job. Half of them hear of it; the others look for themselves. */
    const awaitJobs = (from: number, to: number): void => {
      for (let job = from; job < to; job++) {
        const waiter = new Waiter(job, true);
        moves.join(session, waiter);
        waiter.waitFor(undefined);
        if (job % 2 === 0) moves.settled(job);
        for (let turn = 0; !waiter.isDone; turn++) {
          moves.step(anybody, 0);
          assert.ok(turn < TURNS, `job ${job}`);
        }
      }
    };
    awaitJobs(0, 1000);
    const before = memoryInUse();
    awaitJobs(1000, 100_000);
    const kept = settledBytes(KEPT_BYTES_MAX, () => memoryInUse() - before);
    assert.ok(kept <= KEPT_BYTES_MAX, `${kept} bytes`);
  });

  it("has each slice of a command wait for the records before its first", () => {
    const replies = { recordsBefore: 5 } as Replies;
    const slicedCommands = new SlicedCommands(replies, 1000, () => 0);
    const seen: number[] = [];
    const move = {
      jobs: 3000,
      awaitedJob: undefined,
      step: (): boolean => seen.push(replies.recordsBefore) === 20,
      finish: (): void => {},
    };
    slicedCommands.join({} as ShardSession, move as unknown as SlicedCommand);
    for (let turn = 0; turn < 10; turn++) {
      replies.recordsBefore = 100 + turn;
      slicedCommands.step(anybody, 0);
    }
    assert.deepEqual(
      seen,
      Array.from({ length: 20 }, () => 5),
    );
  });
});

const SHARDS = 2;

function tubeOn(shard: number): string {
  for (let number = 0; ; number++) {
    const name = `tube-${number}`;
    if (shardOfTube(asciiBytes(name), 0, name.length, SHARDS) === shard) return name;
  }
}

/**
 * How often a shard looks whether a job is on its way while a client puts and deletes, and `count`
 * others wait for one that is.
 */
function looksBeside(count: number, command: (jobs: string) => string): number {
  const server = new HandDrivenServer(SHARDS);
  const client = server.connect(true);
  const [here, there] = [tubeOn(0), tubeOn(1)];
  const ask = (text: string): string => {
    client.say(`${text}\r\n`);
    server.settle();
    return client.take();
  };
  const put = `put-in-tube ${here} 0 0 60 1\r\nx`;
  assert.equal(ask(put), "INSERTED 1\r\n");
  // It never comes there.
  const post = server.acceptor.links.post.bind(server.acceptor.links);
  server.acceptor.links.post = (shard, message) => {
    if (message.op !== RequestOp.Carried || message.count !== TransferMessage.Begin) post(shard, message);
  };
  const mover = server.connect(true);
  mover.say(`update-job 1 tube=${there}\r\n`);
  server.settle();
  for (let number = 0; number < count; number++) {
    const waiting = server.connect(true);
    waiting.say(`${command(here)}\r\n`);
    server.settle();
    assert.equal(waiting.take(), "");
  }
  const { engine } = server.shards[0]!;
  let looks = 0;
  for (const name of ["isMoving", "isLeaving"] as const) {
    const original = engine.transfers[name].bind(engine.transfers);
    engine.transfers[name] = (id) => {
      looks++;
      return original(id);
    };
  }
  assert.equal(ask(put), "INSERTED 2\r\n");
  assert.equal(ask("delete 2"), "DELETED\r\n");
  assert.equal(mover.take(), "");
  return looks;
}

describe("the turns of a shard", () => {
  for (const command of ["kick-job 1", "delete 1", "update-job 1 pri=1"])
    it(`cost the same however many clients wait with ${command} for a moving job`, () => {
      assert.equal(
        looksBeside(200, () => command),
        looksBeside(1, () => command),
      );
    });

  it("cost a few looks however many clients wait with a delete-batch", () => {
    const looks = looksBeside(200, () => "delete-batch 1");
    assert.ok(looks <= 20 * 32, `${looks} looks`);
  });
});
