// Tests of kicks and disconnects that take several turns of a shard: the replies are the same as in
// a single turn.

import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { type IndexPlace, JobIndex } from "../../../../src/engine/jobs/job-index.ts";
import { JobState } from "../../../../src/engine/jobs/job-table.ts";
import type { FakeSocket } from "../../../simulation/server/fake-socket.ts";
import { InProcessServer } from "../../../simulation/server/in-process-server.ts";
import { checkInvariants } from "../../../support/in-process/engine-invariants.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

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
