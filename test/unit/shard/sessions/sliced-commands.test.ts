// Tests of kicks and disconnects that take several turns of a shard: the replies are the same as in
// a single turn.

import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { asciiBytes, shardOfTube } from "../../../../src/base/bytes.ts";
import { ALL_STATES } from "../../../../src/engine/job-walk.ts";
import { type IndexPlace, JobIndex } from "../../../../src/engine/jobs/job-index.ts";
import { JobState } from "../../../../src/engine/jobs/job-table.ts";
import { RequestOp } from "../../../../src/message/request.ts";
import { TransferMessage } from "../../../../src/message/transfer.ts";
import { LIST_TEXT_BYTES_MAX } from "../../../../src/protocol/option-rows.ts";
import { Span } from "../../../../src/protocol/request.ts";
import { DeleteMany } from "../../../../src/shard/commands/job-commands.ts";
import { JobListing } from "../../../../src/shard/commands/list-jobs.ts";
import type { ReplyWriter } from "../../../../src/shard/sessions/replies.ts";
import { ShardSession, type SlicedCommand } from "../../../../src/shard/sessions/shard-session.ts";
import { SLICE_MS, SlicedCommands } from "../../../../src/shard/sessions/sliced-commands.ts";
import type { FakeSocket } from "../../../simulation/server/fake-socket.ts";
import { InProcessServer } from "../../../simulation/server/in-process-server.ts";
import { checkInvariants } from "../../../support/in-process/engine-invariants.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { memoryInUse, settledBytes } from "../../../support/machine/memory-in-use.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { EngineBench } from "../../engine/engine-bench.ts";

const JOBS = 25;
const TURN_JOBS = 4;

/** Limits of a turn; the server's by default. */
interface Bounds {
  readonly turnJobsMax?: number;
  readonly turnDueMax?: number;
}

interface Scene {
  readonly server: InProcessServer;
  readonly client: FakeSocket;
  /** Sends and reads all replies. */
  readonly ask: (text: string, from?: FakeSocket) => string;
  /** Sends, and lets the server take steps until `condition` holds. */
  readonly sendUntil: (text: string, condition: () => boolean) => void;
}

function scene(bounds: Bounds = { turnJobsMax: TURN_JOBS, turnDueMax: TURN_JOBS }): Scene {
  const server = new InProcessServer({
    shards: 1,
    acceptors: 1,
    random: new SeededRandom(1),
    ...bounds,
  });
  const client = server.connect();
  const ask = (text: string, from = client): string => {
    from.write(Buffer.from(text, "latin1"));
    server.settle();
    checkInvariants(engineOf(server), [0, 1, 2]);
    return from.takeReceived().toString("latin1");
  };
  const sendUntil = (text: string, condition: () => boolean): void => {
    client.write(Buffer.from(text, "latin1"));
    for (let step = 0; !condition(); step++) {
      assert.ok(step < 10_000, "it did not come to that");
      server.step();
    }
  };
  return { server, client, ask, sendUntil };
}

const engineOf = (server: InProcessServer): InProcessServer["shards"][number]["engine"] =>
  server.shards[0]!.engine;

const repeat = (count: number, line: (n: number) => string): string =>
  Array.from({ length: count }, (_, index) => line(index + 1)).join("");

const put = (delay: number): string => `put 0 ${delay} 100 1\r\nx\r\n`;

/** Buries jobs 1 to JOBS, the last one first. */
function buryAll(ask: Scene["ask"]): void {
  ask(repeat(JOBS, () => put(0)) + repeat(JOBS, () => "reserve\r\n"));
  ask(repeat(JOBS, (n) => `bury ${JOBS + 1 - n} 0\r\n`));
}

/** Returns whether some of the jobs are ready, but not all. */
function isHalfWay(server: InProcessServer): () => boolean {
  const engine = engineOf(server);
  return () => engine.jobCounts[1]! > 0 && engine.jobCounts[1]! < JOBS;
}

describe("a kick of more jobs than one turn allows", () => {
  it("moves a thousand in a turn by default", () => {
    const { server, client, ask } = scene({});
    const jobs = 2500;
    ask(repeat(jobs, () => put(1000)));
    const engine = engineOf(server);
    client.write(Buffer.from(`kick ${jobs}\r\n`));
    let most = 0;
    for (let step = 0; engine.jobCounts[1]! < jobs; step++) {
      assert.ok(step < 10_000, "it did not come to that");
      const before = engine.jobCounts[1]!;
      server.step();
      most = Math.max(most, engine.jobCounts[1]! - before);
    }
    assert.equal(most, 1000);
  });

  it("counts all, never more than requested, and runs later commands afterwards", () => {
    const { ask } = scene();
    buryAll(ask);
    assert.equal(
      ask(`kick ${JOBS - 3}\r\nkick 100\r\nkick 100\r\n`),
      "KICKED 22\r\nKICKED 3\r\nKICKED 0\r\n",
    );
    assert.equal(ask("peek-ready\r\n"), "FOUND 1 1\r\nx\r\n");
  });

  it("takes delayed jobs, earliest first, only if none was buried at its start", () => {
    const { ask } = scene();
    ask(repeat(JOBS, (n) => put(1000 - n)));
    buryAll((text) => ask(text.replace(/bury (\d+)/g, (_, id) => `bury ${Number(id) + JOBS}`)));
    assert.equal(ask("kick 1000\r\n"), `KICKED ${JOBS}\r\n`);
    assert.equal(ask("peek-delayed\r\n"), `FOUND ${JOBS} 1\r\nx\r\n`);
    assert.equal(ask("kick 24\r\n"), "KICKED 24\r\n");
    assert.equal(ask("peek-delayed\r\n"), "FOUND 1 1\r\nx\r\n");
  });

  it("serves others in between, and waiters in the order of burial", () => {
    const { server, client, ask, sendUntil } = scene();
    buryAll(ask);
    const worker = server.connect();
    ask("reserve\r\n", worker);
    sendUntil("kick 100\r\n", isHalfWay(server));
    const other = server.connect();
    assert.match(ask("stats-tube default\r\n", other), /name: default/);
    server.settle();
    assert.equal(worker.takeReceived().toString(), `RESERVED ${JOBS} 1\r\nx\r\n`);
    assert.equal(client.takeReceived().toString(), `KICKED ${JOBS}\r\n`);
  });

  it("is completed after its client left, and later commands aren't run", () => {
    const { server, client, ask, sendUntil } = scene();
    buryAll(ask);
    sendUntil("kick 100\r\ndelete 1\r\n", isHalfWay(server));
    client.reset();
    server.settle();
    const other = server.connect();
    assert.match(ask("stats-tube default\r\n", other), /jobs-ready: 25\n/);
    assert.equal(ask("peek 1\r\n", other), "FOUND 1 1\r\nx\r\n");
    assert.match(ask("stats\r\n", other), /current-connections: 1\n/);
  });

  it("ends even while workers bury the kicked jobs", () => {
    const { server, client, ask, sendUntil } = scene();
    buryAll(ask);
    sendUntil("kick 4294967295\r\n", isHalfWay(server));
    const worker = server.connect();
    const askInBetween = (text: string): string => {
      worker.write(Buffer.from(text));
      while (!worker.hasReceived) assert.ok(server.step());
      return worker.takeReceived().toString("latin1");
    };
    for (let round = 0; round < JOBS; round++) {
      const id = /RESERVED (\d+)/.exec(askInBetween("reserve-with-timeout 0\r\n"))?.[1];
      if (id !== undefined) assert.equal(askInBetween(`bury ${id} 0\r\n`), "BURIED\r\n");
    }
    server.settle();
    assert.equal(client.takeReceived().toString(), `KICKED ${JOBS}\r\n`);
  });
});

describe("many kicks, each small, that arrive in one turn", () => {
  const clients = 12;
  const each = TURN_JOBS - 1;

  /** Steps until the server rests; the most buried jobs that were kicked in one step. */
  function mostAtOnce(server: InProcessServer): number {
    const { jobCounts } = engineOf(server);
    let most = 0;
    for (let before = jobCounts[JobState.Buried]!; server.step(); before = jobCounts[JobState.Buried]!)
      most = Math.max(most, before - jobCounts[JobState.Buried]!);
    return most;
  }

  it("are spread over turns, and each kick counts its jobs", () => {
    const { server, client, ask } = scene();
    for (let round = 0; round * JOBS < clients * each; round++) {
      const first = 1 + round * JOBS;
      ask(repeat(JOBS, () => put(0)) + repeat(JOBS, () => "reserve\r\n"));
      ask(repeat(JOBS, (n) => `bury ${first - 1 + n} 0\r\n`));
    }
    client.write(Buffer.from(repeat(clients, () => `kick ${each}\r\n`)));
    const most = mostAtOnce(server);
    assert.ok(most <= TURN_JOBS * 5, `${most} at once`);
    assert.equal(
      client.takeReceived().toString(),
      repeat(clients, () => `KICKED ${each}\r\n`),
    );
  });

  it("a queued kick takes the jobs that exist when it begins", () => {
    const { server, client, ask } = scene();
    buryAll(ask);
    ask(repeat(JOBS, () => put(1000)));
    const others = Array.from({ length: clients }, () => server.connect());
    for (const other of others) other.write(Buffer.from(`kick ${each}\r\n`));
    client.write(Buffer.from(`kick ${each}\r\n`));
    server.settle();
    const counts = [client, ...others].map((socket) => Number(/\d+/.exec(socket.takeReceived().toString())));
    // One of them finds only the last buried job; none finds nothing.
    assert.deepEqual(
      counts.toSorted(),
      [1, ...Array.from({ length: clients }, () => each)].toSorted(),
      "8 kicks of 3 and one of 1 take the buried, the others the delayed",
    );
  });
});

const putAll = (tube: string, count: number): string =>
  repeat(count, () => `put-in-tube ${tube} 0 0 100 1\r\nx\r\n`);

/** Counts the ids that walks look at. */
function countLooks(t: TestContext): { count: number } {
  const looks = { count: 0 };
  const { next } = JobIndex.prototype;
  t.mock.method(JobIndex.prototype, "next", function (this: JobIndex, place: IndexPlace, lastId: number) {
    const before = place.looksLeft;
    const slot = next.call(this, place, lastId);
    looks.count += before - place.looksLeft;
    return slot;
  });
  return looks;
}

describe("a clear of more jobs than one turn allows", () => {
  it("counts all, serves others in between, and keeps later jobs", () => {
    const { server, client, ask, sendUntil } = scene();
    ask(putAll("default", JOBS));
    sendUntil("clear-tube default\r\npeek-ready\r\n", isHalfWay(server));
    const other = server.connect();
    other.write(Buffer.from("put 0 0 100 1\r\ny\r\n"));
    while (!other.hasReceived) assert.ok(server.step());
    assert.equal(other.takeReceived().toString(), `INSERTED ${JOBS + 1}\r\n`);
    assert.ok(!client.hasReceived, "the clear goes on");
    server.settle();
    assert.equal(client.takeReceived().toString(), `CLEARED ${JOBS}\r\nFOUND ${JOBS + 1} 1\r\ny\r\n`);
  });

  it("deletes reserved jobs of others, and finds them among other tubes", () => {
    const { server, client, ask } = scene();
    ask(putAll("a", JOBS) + putAll("b", JOBS));
    const worker = server.connect();
    ask(`watch b\r\n${repeat(JOBS, () => "reserve\r\n")}`, worker);
    assert.equal(ask("clear-tube b\r\n"), "CLEARED 0\r\n");
    assert.equal(ask("clear-tube b state=reserved limit=20\r\n"), "CLEARED 20\r\n");
    assert.equal(ask("clear-tube b state=reserved,ready contains=x\r\n"), "CLEARED 5\r\n");
    assert.equal(ask(`touch ${JOBS + 1}\r\n`, worker), "NOT_FOUND\r\n");
    assert.match(ask("stats-tube a\r\n", client), /jobs-ready: 25\n/);
  });

  it("is completed after its client left", () => {
    const { server, client, ask, sendUntil } = scene();
    ask(putAll("default", JOBS));
    sendUntil("clear-tube default\r\n", isHalfWay(server));
    client.reset();
    server.settle();
    const other = server.connect();
    assert.match(ask("stats\r\n", other), /current-jobs-ready: 0\n.*current-connections: 1\n/s);
  });
});

describe("a list of more jobs than one turn allows", () => {
  it("is whole, and others are answered before", () => {
    const { server, client, ask } = scene();
    ask(putAll("default", 10 * JOBS));
    client.write(Buffer.from("list-jobs default limit=1000\r\npeek 1\r\n"));
    const other = server.connect();
    other.write(Buffer.from("peek 2\r\n"));
    while (!other.hasReceived) assert.ok(server.step());
    assert.ok(!client.hasReceived, "the list goes on");
    server.settle();
    const reply = client.takeReceived().toString();
    assert.deepEqual(
      [...reply.matchAll(/^- \{"id":(\d+),/gm)].map(([, id]) => Number(id)),
      Array.from({ length: 10 * JOBS }, (_, index) => index + 1),
    );
    assert.match(reply, /\nnext: 0\n.*\r\nFOUND 1 1\r\nx\r\n$/s);
  });

  it("ends with its client", (t) => {
    const { server, client, ask } = scene();
    ask(putAll("default", 10 * JOBS));
    const looks = countLooks(t);
    client.write(Buffer.from("list-jobs default contains=y\r\n"));
    while (looks.count === 0) assert.ok(server.step());
    client.reset();
    server.settle();
    assert.ok(looks.count < 10 * JOBS, `${looks.count} ids were looked at`);
    assert.match(ask("stats\r\n", server.connect()), /current-connections: 1\n/);
  });
});

describe("many walks that arrive in one turn", () => {
  for (const line of [
    "list-jobs default limit=1 contains=nowhere",
    "clear-tube default limit=1 contains=nowhere",
    "list-jobs default state=buried",
  ])
    it(`are spread over turns: ${line}`, (t) => {
      const { server, ask } = scene();
      ask(putAll("default", 10 * JOBS));
      const clients = Array.from({ length: 12 }, () => server.connect());
      for (const each of clients) each.write(Buffer.from(`${line}\r\n`));
      const looks = countLooks(t);
      let most = 0;
      const core = server.shards[0]!;
      const step = core.step.bind(core);
      core.step = (nowMs) => {
        looks.count = 0;
        const taken = step(nowMs);
        most = Math.max(most, looks.count);
        return taken;
      };
      server.settle();
      // Four at once, and one that stood in line.
      assert.ok(most <= 5 * 5 * TURN_JOBS, `${most} ids in one turn`);
      assert.ok(most > 0);
      for (const each of clients) assert.match(each.takeReceived().toString(), /^(?:CLEARED 0|OK \d+)\r\n/);
    });
});

describe("the end of a connection that holds more jobs than one turn allows", () => {
  it("releases all of them, and its slot is reused", () => {
    const { server, client, ask, sendUntil } = scene();
    ask(repeat(JOBS, () => put(0)) + repeat(JOBS, () => "reserve\r\n"));
    client.reset();
    sendUntil("", isHalfWay(server));
    const other = server.connect();
    assert.notEqual(other.slot, client.slot);
    assert.match(ask("reserve\r\n", other), /^RESERVED 1 1\r\n/);
    server.settle();
    assert.match(ask("stats-tube default\r\n", other), /jobs-ready: 24\ncurrent-jobs-reserved: 1\n/);
    assert.equal(server.connect().slot, client.slot);
  });

  it("works for a client that leaves in the middle of a kick, too", () => {
    const { server, client, ask, sendUntil } = scene();
    buryAll(ask);
    ask("use b\r\nwatch b\r\n");
    ask(repeat(JOBS, () => put(0)) + repeat(JOBS, () => "reserve\r\n"));
    ask("use default\r\n");
    sendUntil("kick 100\r\n", isHalfWay(server));
    client.reset();
    server.settle();
    const other = server.connect();
    assert.match(ask("stats-tube default\r\n", other), /jobs-ready: 25\n/);
    assert.match(ask("stats-tube b\r\n", other), /jobs-ready: 25\n/);
  });

  it("ends its watches as well, also more than one turn allows", () => {
    const { server, client, ask } = scene();
    ask(repeat(JOBS, (n) => `watch t${n}\r\n`));
    client.reset();
    server.settle();
    const other = server.connect();
    assert.equal(ask("list-tubes\r\n", other), "OK 14\r\n---\n- default\n\r\n");
    assert.equal(other.slot, client.slot);
  });

  it("gets no more jobs meanwhile", () => {
    const { server, client, ask } = scene();
    ask(repeat(JOBS, (n) => `watch t${n}\r\n`));
    const [producer, worker] = [server.connect(), server.connect()];
    ask("reserve\r\n");
    ask("reserve\r\n", worker);
    client.reset();
    producer.write(Buffer.from(put(0)));
    server.settle();
    assert.equal(worker.takeReceived().toString(), "RESERVED 1 1\r\nx\r\n");
  });
});

describe("more timers due together than one turn allows", () => {
  // Fewer than the reserves that a connection may have under way.
  const due = 121;

  it("serve waiters in the order of the deadlines, and others in between", () => {
    const { server, client, ask, sendUntil } = scene();
    const worker = server.connect();
    ask(repeat(due, (n) => put(n)));
    ask(
      repeat(due, () => "reserve\r\n"),
      worker,
    );
    server.nowMs += 1000 * due;
    sendUntil("stats-tube default\r\n", () => client.hasReceived);
    assert.match(client.takeReceived().toString(), /current-jobs-delayed: [1-9]/);
    server.settle();
    const ids = [
      ...worker
        .takeReceived()
        .toString()
        .matchAll(/RESERVED (\d+)/g),
    ].map(([, id]) => Number(id));
    assert.deepEqual(
      ids,
      Array.from({ length: due }, (_, place) => place + 1),
    );
  });
});

// Tests of what a turn grants to commands that take several, and of what one slice of a delete or a
// list does.

const JOBS_PER_CLOCK_READING = 125;
const NO_REPLIES = { recordsBefore: 0 } as ReplyWriter;

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
      } as unknown as ReplyWriter;
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
    } as unknown as ReplyWriter;
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

// Tests of long moves that wait for jobs in transit: no turn looks at them, however many, before
// there is news of their job.

describe("sliced commands aside", () => {
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
    readonly slicedCommands = new SlicedCommands({ recordsBefore: 0 } as ReplyWriter, 1000, () => 0);
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
      const moves = new SlicedCommands({ recordsBefore: 0 } as ReplyWriter, 1000, () => 0);
      const session = {} as ShardSession;
      /**
       * Has a command wait for each job. Half of them hear of it; the others look for themselves.
       */
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
      const replies = { recordsBefore: 5 } as ReplyWriter;
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
   * How often a shard looks whether a job is on its way while a client puts and deletes, and
   * `count` others wait for one that is.
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
});
