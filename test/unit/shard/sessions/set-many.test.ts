// Tests of a set-tube for tens of thousands of tubes: it runs in slices without delaying other
// clients, and SET means that all have it.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Engine } from "../../../../src/engine/engine.ts";
import { ENDS } from "../../../../src/engine/jobs/ends.ts";
import type { Tube } from "../../../../src/engine/tubes/tube.ts";
import type { FakeSocket } from "../../../simulation/server/fake-socket.ts";
import { InProcessServer } from "../../../simulation/server/in-process-server.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const TUBES = 5000;
const GROUPS = 5000;
/** As a turn of a shard has it: 1,000 jobs for one client, and so many times as many for all. */
const TURN_JOBS = 1000;
const CLIENTS_IN_A_TURN = 5;

class Scene {
  readonly server: InProcessServer;
  readonly client: FakeSocket;
  /** Most tubes that were given settings in one turn of one shard. */
  mostInATurn = 0;

  constructor(shards: number) {
    const random = new SeededRandom(1);
    this.server = new InProcessServer({ shards, acceptors: 1, random });
    this.client = this.server.connect();
    this.server.settle();
    for (const core of this.server.shards) {
      const { engine } = core;
      // A watcher: without it they would be gone.
      const watcher = engine.session(1000);
      for (let tube = 0; tube < TUBES; tube++) engine.watch(watcher, `t${tube}`);
      let inThisTurn = 0;
      const apply = engine.applySettings.bind(engine);
      engine.applySettings = (tube, looks, nowMs) => {
        inThisTurn++;
        return apply(tube, looks, nowMs);
      };
      const step = core.step.bind(core);
      core.step = (nowMs) => {
        inThisTurn = 0;
        const taken = step(nowMs);
        this.mostInATurn = Math.max(this.mostInATurn, inThisTurn);
        return taken;
      };
    }
  }

  tubes(): Tube[] {
    return this.server.shards.flatMap(({ engine }) => [...engine.tubes.values()]);
  }

  ask(line: string, client = this.client): string {
    client.write(Buffer.from(`${line}\r\n`));
    this.server.settle();
    return client.takeReceived().toString();
  }
}

/** A tube with two jobs of each group, one of them held. */
function groupsScene(): { server: InProcessServer; client: FakeSocket; engine: Engine } {
  const server = new InProcessServer({ shards: 1, acceptors: 1, random: new SeededRandom(1) });
  const [client, worker] = [server.connect(), server.connect()];
  const { engine } = server.shards[0]!;
  for (let from = 0; from < GROUPS; from += 500) {
    const puts = Array.from(
      { length: 1000 },
      (_, i) => `put-in-tube g 0 0 60 1 group=k${from + (i >> 1)}\r\nx\r\n`,
    );
    client.write(Buffer.from(puts.join("")));
    server.settle();
  }
  client.takeReceived();
  // The group with the fewest jobs in work is next.
  worker.write(Buffer.from(`watch g\r\n${"reserve-batch 1000 0\r\n".repeat(GROUPS / 1000)}`));
  server.settle();
  assert.equal(engine.jobsReserved, GROUPS);
  return { server, client, engine };
}

describe("set-tube of more tubes than one turn allows", () => {
  for (const shards of [1, 3])
    it(`is answered when all ${shards} shards are done, and others are answered before`, () => {
      const scene = new Scene(shards);
      const { server, client } = scene;
      client.write(Buffer.from("set-tube t* max-jobs=7\r\n"));
      const other = server.connect();
      other.write(Buffer.from("put-in-tube t-new 0 0 60 1\r\nx\r\n"));
      while (!other.hasReceived) assert.ok(server.step());
      assert.ok(!client.hasReceived, "it goes on");
      while (!client.hasReceived) assert.ok(server.step());
      assert.equal(client.takeReceived().toString(), "SET\r\n");
      const named = scene.tubes().filter(({ name }) => name.startsWith("t"));
      assert.equal(named.length, shards * TUBES + 1);
      assert.ok(named.every(({ policy }) => policy?.maxJobs === 7));
      for (const { engine } of server.shards) assert.equal(engine.findTube("default")?.policy, undefined);
    });

  it("does a part in each turn, also of concurrent ones, and of tubes that don't match", () => {
    const scene = new Scene(1);
    const clients = Array.from({ length: 12 }, () => scene.server.connect());
    for (const [index, each] of clients.entries())
      each.write(Buffer.from(`set-tube ${index % 2 === 0 ? "*" : "t49*"} max-jobs=${index + 1}\r\n`));
    scene.server.settle();
    for (const each of clients) assert.equal(each.takeReceived().toString(), "SET\r\n");
    assert.ok(scene.mostInATurn > 0);
    // A tube takes as long as two jobs at least.
    assert.ok(scene.mostInATurn <= (CLIENTS_IN_A_TURN * TURN_JOBS) / 2, `${scene.mostInATurn} in one turn`);
    const { settings } = scene.server.shards[0]!.engine;
    assert.ok(settings.policyOf("t4")!.maxJobs % 2 === 1 && settings.policyOf("t49")!.maxJobs % 2 === 0);
    for (const { name, policy } of scene.tubes()) assert.deepEqual(policy, settings.policyOf(name));
  });

  it("does less in each turn the more lengths prefixes have", () => {
    const scene = new Scene(1);
    for (let length = 1; length <= 99; length++) scene.ask(`set-tube ${"t".repeat(length + 1)}* max-jobs=1`);
    scene.mostInATurn = 0;
    assert.equal(scene.ask("set-tube * ttl=5"), "SET\r\n");
    assert.ok(scene.mostInATurn > 0 && scene.mostInATurn <= 10, `${scene.mostInATurn} in one turn`);
  });

  it("changes some groups of a tube in each turn, and is answered when all are changed", () => {
    const { server, client, engine } = groupsScene();
    let looks = 0;
    const pageOf = engine.jobs.pageOf.bind(engine.jobs);
    engine.jobs.pageOf = (slot) => {
      looks++;
      return pageOf(slot);
    };
    const blockedAfter = { "group-max-reserved=1": GROUPS, "group-max-reserved=": 0 };
    for (const [setting, blocked] of Object.entries(blockedAfter)) {
      const turns: number[] = [];
      client.write(Buffer.from(`set-tube g ${setting}\r\n`));
      while (!client.hasReceived) {
        looks = 0;
        assert.ok(server.step());
        turns.push(looks);
      }
      assert.equal(client.takeReceived().toString(), "SET\r\n");
      assert.equal(engine.findTube("g")!.groups!.blocked, blocked);
      const all = turns.reduce((sum, each) => sum + each, 0);
      assert.ok(all > GROUPS, `${all} looks at jobs`);
      assert.ok(Math.max(...turns) < all / 4, `${turns} looks in the turns`);
    }
  });

  it("ends with the tube of its groups", () => {
    const { client, server, engine } = groupsScene();
    client.write(Buffer.from("set-tube g group-max-reserved=1 rate=1/1000\r\n"));
    const groups = engine.findTube("g")!.groups!;
    while (groups.blocked === 0) assert.ok(server.step());
    assert.ok(groups.blocked < GROUPS, "it goes on");
    for (let index = 0; index < 2; index++) engine.ignore(engine.session(index), "g");
    const slots: number[] = [];
    engine.jobs.forEach((slot) => {
      slots.push(slot);
    });
    for (const slot of slots) engine.discard(slot, ENDS.Cleared, server.nowMs);
    assert.equal(engine.findTube("g"), undefined);
    server.settle();
    assert.equal(client.takeReceived().toString(), "SET\r\n");
    assert.equal(engine.nextDueAtMs, Number.POSITIVE_INFINITY);
  });

  it("is completed after its client leaves", () => {
    const scene = new Scene(1);
    scene.client.write(Buffer.from("set-tube * max-jobs=7\r\n"));
    while (scene.mostInATurn === 0) assert.ok(scene.server.step());
    assert.ok(scene.tubes().some(({ policy }) => policy === undefined));
    scene.client.reset();
    scene.server.settle();
    assert.ok(scene.tubes().every(({ policy }) => policy?.maxJobs === 7));
    assert.match(scene.ask("stats", scene.server.connect()), /\ncurrent-connections: 1\n/);
  });

  it("reaches all shards or none if its client leaves at any moment behind a costly command", () => {
    const seen = new Set<number>();
    for (let seed = 0; seed < 100; seed++) {
      const random = new SeededRandom(seed);
      const server = new InProcessServer({ shards: 3, acceptors: 1, random, commandWork: 4000 });
      const [client, other] = [server.connect(), server.connect()];
      // The tubes are on several shards. The end of the wait has no reply, but sets the connection
      // aside there, and the setting comes behind it.
      client.write(Buffer.from("watch a\r\nwatch b\r\nwatch c\r\nreserve\r\nset-tube * max-jobs=7\r\n"));
      server.settle();
      other.write(Buffer.from("put-in-tube a 0 0 60 1\r\nx\r\n"));
      for (let steps = random.between(0, 30); steps > 0; steps--) server.step();
      client.reset();
      server.settle();
      const had = server.shards.filter(({ engine }) => engine.settings.get("*") !== undefined).length;
      seen.add(had);
    }
    assert.deepEqual([...seen].sort(), [0, 3], "how many shards have the setting");
  });
});
