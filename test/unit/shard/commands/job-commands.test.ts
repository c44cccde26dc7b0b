// Tests that whoever is told that a job is not there, or that a schedule is paused, waits for all
// records: another client may have changed it a moment ago, and a crash must not undo that.

import assert from "node:assert/strict";
import { it } from "node:test";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { ReplyPort, ResponseFlag } from "../../../../src/message/response.ts";
import { Op } from "../../../../src/protocol/commands.ts";
import { Request, Span } from "../../../../src/protocol/request.ts";
import { createRing, RingReader } from "../../../../src/ring/ring.ts";
import type { CommandShard, ShardCommand } from "../../../../src/shard/commands/command.ts";
import {
  DeleteMany,
  deleteJob,
  KickMany,
  kickJob,
  locate,
  peek,
} from "../../../../src/shard/commands/job-commands.ts";
import { pauseSchedule, resumeSchedule } from "../../../../src/shard/commands/schedules.ts";
import { ClearMany } from "../../../../src/shard/commands/tube-commands.ts";
import type { ScheduleClaims } from "../../../../src/shard/schedules/schedule-claims.ts";
import { ReplyWriter } from "../../../../src/shard/sessions/replies.ts";
import { ShardSession } from "../../../../src/shard/sessions/shard-session.ts";
import { addSchedule } from "../../../support/in-process/add-schedule.ts";
import { EngineBench } from "../../engine/engine-bench.ts";

const ID = 9;

class Shard {
  readonly engine = new EngineBench().engine;
  readonly records = { lastNumber: 0 };
  readonly session = new ShardSession(this.engine.session(0), 0, 0);
  readonly replies: ReplyWriter;
  readonly #port: ReplyPort;
  readonly #reader: RingReader;

  constructor() {
    const ring = createRing(1 << 16);
    this.#port = new ReplyPort(ring);
    this.#reader = new RingReader(ring);
    this.replies = new ReplyWriter(this.engine, [this.#port], this.records);
    this.engine.use(this.session.engineSession, "t");
  }

  /** Runs a command without records of its own; returns whether its reply waits for the log. */
  waits(command: ShardCommand | (() => void)): boolean {
    const request = new Request().begin(Op.Delete);
    request.id = ID;
    this.replies.request = request;
    this.replies.recordsBefore = this.records.lastNumber;
    const { engine, replies } = this;
    const shard: Partial<CommandShard> = { engine, replies, nowMs: 0 };
    command(shard as CommandShard, this.session, request);
    this.#port.publish(0);
    const offset = this.#reader.next();
    assert.ok(offset >= 0, "it is answered");
    const flags = this.#reader.int32[(offset >> 2) + 1]! >>> 16;
    this.#reader.release();
    return (flags & ResponseFlag.Durable) !== 0;
  }
}

it("NOT_FOUND and counts wait for the log, if there is one", () => {
  const shard = new Shard();
  const { engine, replies, session } = shard;
  const ids = new Span();
  ids.set(Buffer.from(`${ID} 10`), 0, 4);
  const many = {
    deleteMany: () => new DeleteMany(engine, replies, session, ids, 2, false),
    kickMany: () => new KickMany(engine, replies, session, 5),
    clearMany: () =>
      new ClearMany(
        engine,
        replies,
        session,
        engine.clearing("t", { states: 15, createdByMs: 0, contains: undefined }, 5),
      ),
  };
  const commands: [name: string, command: ShardCommand | (() => void)][] = [
    ...Object.entries({ deleteJob, peek, kickJob, locate }),
    ...Object.entries(many).map(([name, begin]): [string, () => void] => [
      name,
      () => {
        const command = begin();
        assert.ok(command.step(1000, 0));
        command.finish();
      },
    ]),
  ];
  for (const [name, command] of commands) assert.equal(shard.waits(command), false, `${name} without a log`);
  shard.records.lastNumber = 7;
  for (const [name, command] of commands) assert.equal(shard.waits(command), true, name);
  const job = { id: ID, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
  engine.put(session.engineSession, job, EMPTY_BODY, 0, "t");
  assert.equal(shard.waits(locate), false, "the job is here");
});

it("PAUSED and RESUMED for a schedule that is so already wait for the log: another client may just have done it", () => {
  const shard = new Shard();
  addSchedule(shard.engine.schedules, 1, "s", {}, { paused: true });
  const named =
    (command: ShardCommand): ShardCommand =>
    ({ engine, replies }, session, request) => {
      request.body.set(Buffer.from("s"), 0, 1);
      const claims: Partial<ScheduleClaims> = { awaited: () => undefined };
      const ofShard = { claims, wallMs: () => 0 } as unknown as CommandShard["schedules"];
      const alone: Partial<CommandShard> = { engine, replies, schedules: ofShard, nowMs: 0 };
      command(alone as CommandShard, session, request);
    };
  for (const lastNumber of [0, 7]) {
    shard.records.lastNumber = lastNumber;
    for (const command of [pauseSchedule, resumeSchedule, resumeSchedule, pauseSchedule])
      assert.equal(shard.waits(named(command)), lastNumber > 0);
  }
});
