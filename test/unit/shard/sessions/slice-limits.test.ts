// Tests of what a turn grants to commands that take several, and of what one slice of a delete or a
// list does.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { ALL_STATES } from "../../../../src/engine/job-walk.ts";
import { LIST_TEXT_BYTES_MAX } from "../../../../src/protocol/option-rows.ts";
import { Span } from "../../../../src/protocol/request.ts";
import { DeleteMany } from "../../../../src/shard/commands/job-commands.ts";
import { JobListing } from "../../../../src/shard/commands/list-jobs.ts";
import type { Replies } from "../../../../src/shard/sessions/replies.ts";
import { ShardSession, type SlicedCommand } from "../../../../src/shard/sessions/shard-session.ts";
import { SLICE_MS, SlicedCommands } from "../../../../src/shard/sessions/sliced-commands.ts";
import { EngineBench } from "../../engine/engine-bench.ts";

const JOBS_PER_CLOCK_READING = 125;
const NO_REPLIES = { recordsBefore: 0 } as Replies;

const sessionOf = ({ engine }: EngineBench, index = 0): ShardSession =>
  new ShardSession(engine.session(index), 0, 0);

/** A command of so many jobs, which notes what each step may do. */
class Counted implements SlicedCommand {
  readonly jobs: number;
  readonly mayEndUnheard = true;
  awaitedJob: number | undefined = undefined;
  readonly steps: number[] = [];
  isFinished = false;
  #left: number;

  constructor(jobs: number) {
    this.jobs = jobs;
    this.#left = jobs;
  }

  step(jobsMax: number): boolean {
    this.steps.push(jobsMax);
    this.#left -= jobsMax;
    return this.#left <= 0;
  }

  finish(): void {
    this.isFinished = true;
  }
}

describe("a turn", () => {
  for (const jobsMax of [1, 10, 1000])
    it(`grants ${jobsMax} jobs to a client, and four times as many to all`, () => {
      const commands = new SlicedCommands(NO_REPLIES, jobsMax, () => 0);
      for (let turn = 1; turn <= 2; turn++) {
        commands.beginTurn();
        assert.equal(commands.isTouched, false);
        for (const jobs of [jobsMax + 1, 2 * jobsMax + 1, 4 * jobsMax]) {
          assert.equal(commands.takesTurn(jobs), false, `${jobs} jobs`);
          assert.equal(commands.isTouched, false);
        }
        for (let client = 1; client <= 4; client++)
          assert.ok(commands.takesTurn(jobsMax), `client ${client}`);
        assert.equal(commands.takesTurn(1), false);
        assert.equal(commands.takesTurn(0), true);
      }
    });

  for (const jobsMax of [1, 124, 125, 126, 251, 1000])
    it(`gives a command ${jobsMax} jobs, with a clock reading after each ${JOBS_PER_CLOCK_READING}`, () => {
      const commands = new SlicedCommands(NO_REPLIES, jobsMax, () => 0);
      const command = new Counted(1e6);
      commands.start(sessionOf(new EngineBench()), command, 0);
      const whole = new Array<number>(Math.floor(jobsMax / JOBS_PER_CLOCK_READING)).fill(
        JOBS_PER_CLOCK_READING,
      );
      const rest = jobsMax % JOBS_PER_CLOCK_READING;
      assert.deepEqual(command.steps, rest === 0 ? whole : [...whole, rest]);
    });

  for (const [readingMs, steps] of [
    [SLICE_MS, 1],
    [SLICE_MS / 2, 2],
    [SLICE_MS / 4, 4],
    [SLICE_MS / 100, 8],
  ] as const)
    it(`ends for a command after ${steps} steps of ${readingMs} ms`, () => {
      let readings = 0;
      const commands = new SlicedCommands(NO_REPLIES, 1000, () => readings++ * readingMs);
      const command = new Counted(1e6);
      commands.start(sessionOf(new EngineBench()), command, 0);
      assert.equal(command.steps.length, steps);
    });
});

it("a command that was set aside comes back once, by a report or by a look", () => {
  const bench = new EngineBench();
  for (const isReported of [true, false]) {
    const commands = new SlicedCommands(NO_REPLIES, 10, () => 0);
    const [first, second] = [new Counted(1), new Counted(1)];
    first.awaitedJob = 5;
    second.awaitedJob = 5;
    commands.join(sessionOf(bench, 1), first);
    commands.join(sessionOf(bench, 2), second);
    assert.equal(
      commands.hasWork(() => true),
      false,
    );
    first.awaitedJob = undefined;
    if (isReported) commands.settled(5);
    for (let turn = 0; turn < 3; turn++) commands.step(() => true, 0);
    assert.deepEqual([first.steps.length, first.isFinished, second.steps.length], [1, true, 0]);
    second.awaitedJob = undefined;
    assert.equal(
      commands.hasWork(() => true),
      true,
    );
    commands.step(() => true, 0);
    assert.deepEqual([second.steps.length, second.isFinished, commands.size], [1, true, 0]);
    assert.equal(
      commands.hasWork(() => true),
      false,
    );
  }
});

describe("a slice of a delete-batch", () => {
  for (const jobs of [1, 9, 10, 11, 21])
    it(`deletes at most ten jobs, of ${jobs}`, () => {
      const bench = new EngineBench();
      const client = bench.session(0, "a");
      const ids = Array.from({ length: jobs }, () => bench.put(client));
      const said: string[] = [];
      const replies = {
        isElsewhere: () => false,
        mayBeElsewhere: () => false,
        fixed: (_: ShardSession, reply: Uint8Array) => void said.push(Buffer.from(reply).toString()),
      } as unknown as Replies;
      const span = new Span();
      const text = asciiBytes(ids.join(" "));
      span.set(text, 0, text.length);
      const command = new DeleteMany(bench.engine, replies, sessionOf(bench), span, jobs, false);
      for (let turn = 1; ; turn++) {
        const isDone = command.step(10, 0);
        assert.equal(bench.engine.totalJobs - bench.engine.jobs.live, Math.min(jobs, 10 * turn));
        assert.equal(isDone, 10 * turn >= jobs);
        if (isDone) break;
      }
      command.finish();
      assert.deepEqual(said, [`DELETED_BATCH ${jobs} 0\r\n`]);
    });
});

describe("a list", () => {
  /** The number of steps of a list of all jobs of `tube`, and its text. */
  const listed = (bench: EngineBench, tube: string, partBytesMax?: number): [steps: number, text: string] => {
    let text = "";
    const replies = {
      text: (_: ShardSession, all: string) => void (text = all),
      gatheredBytes: (_: ShardSession, all: Uint8Array) => void (text = Buffer.from(all).toString("latin1")),
    } as unknown as Replies;
    const walk = bench.engine.walk({ states: ALL_STATES, createdByMs: Infinity, contains: undefined }, 0);
    const listing = new JobListing(bench.engine, replies, sessionOf(bench), {
      ...{ tube, partBytesMax, walk, limit: 1000, showBytes: 0 },
    });
    let steps = 1;
    while (!listing.step(1000, 0)) steps++;
    listing.finish();
    return [steps, text];
  };

  it("looks at 100,000 ids, and says where the next one continues", () => {
    const bench = new EngineBench();
    const other = bench.session(0, "other");
    const wanted = bench.session(1, "wanted");
    for (let id = 1; id <= 99_999; id++) bench.put(other);
    bench.put(wanted);
    assert.match(listed(bench, "wanted")[1], /^next: 0\njobs:\n- .*"id":100000\b/m);
    bench.put(wanted);
    const [steps, text] = listed(bench, "wanted");
    assert.equal(steps, 20);
    assert.match(text, /^next: 100000$/m);
    assert.doesNotMatch(text, /"id":100001\b/);
  });

  it("has as many rows as fit into its bytes, and the first one whatever its length", () => {
    const bench = new EngineBench();
    const session = bench.session(0, "t");
    for (let id = 1; id <= 5; id++) bench.put(session);
    const idsOf = (partBytesMax: number): number[] =>
      [...listed(bench, "t", partBytesMax)[1].matchAll(/"id":(\d+)/g)].map(([, id]) => Number(id));
    assert.deepEqual(idsOf(LIST_TEXT_BYTES_MAX), [1, 2, 3, 4, 5]);
    const rowBytes = /^- .*\n/m.exec(listed(bench, "t")[1])![0].length;
    for (const [bytes, rows] of [
      [0, 1],
      [rowBytes - 1, 1],
      [rowBytes, 1],
      [2 * rowBytes - 1, 1],
      [2 * rowBytes, 2],
      [2 * rowBytes + 1, 2],
      [5 * rowBytes - 1, 4],
      [5 * rowBytes, 5],
    ] as const)
      assert.equal(idsOf(bytes).length, rows, `${bytes} bytes`);
  });
});
