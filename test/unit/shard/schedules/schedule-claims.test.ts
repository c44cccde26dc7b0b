// Tests of a schedule that another shard claims the name of, and then doesn't take over.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { NO_SINK, type Schedule, type Schedules } from "../../../../src/engine/schedules.ts";
import type { ReplyPort } from "../../../../src/message/response.ts";
import { TransferMessage } from "../../../../src/message/transfer.ts";
import { Span } from "../../../../src/protocol/request.ts";
import { ScheduleClaims } from "../../../../src/shard/schedules/schedule-claims.ts";
import { ScheduleTurns } from "../../../../src/shard/schedules/shard-schedules.ts";
import { addSchedule, everyMs } from "../../../support/in-process/add-schedule.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { tubeOn } from "../../../support/tube-on.ts";
import { EngineBench } from "../../engine/engine-bench.ts";

for (const timing of ["cron=0_0_1_1_*", "every=3600"])
  it(`a schedule goes on where it is if the log of the other shard has no room, ${timing}`, () => {
    const server = new HandDrivenServer(2);
    const [here, there] = server.shards.map((shard) => shard.engine.schedules);
    const client = server.connect(true);
    const ask = (command: string): string => {
      client.say(`${command}\r\n`);
      server.settle();
      return client.take();
    };
    const set = (shard: number): string => ask(`set-schedule s ${tubeOn(shard, 2)} 0 0 60 1 ${timing}\r\nx`);
    assert.equal(set(0), "SET\r\n");
    const dueAtMs = here!.table.timers.nextAtMs;
    there!.sink = { ...NO_SINK, scheduled: () => false };
    assert.equal(set(1), "OUT_OF_MEMORY\r\n");
    assert.equal(here!.table.timers.nextAtMs, dueAtMs, "its next tick comes");
    assert.match(ask("run-schedule s"), /^INSERTED /);
    there!.sink = NO_SINK;
    assert.equal(set(1), "SET\r\n");
    assert.deepEqual([here!.table.size, there!.table.size], [0, 1]);
    assert.equal(there!.table.timers.nextAtMs, dueAtMs, "the new place continues with the same tick");
  });

// Tests of claims to the names of schedules: who answers when, what is frozen meanwhile, which
// schedule a claim finds, and what its end does on each shard.

const { ClaimName, YieldName, EndClaim } = TransferMessage;
const KINDS: Record<number, string> = { [ClaimName]: "claim", [YieldName]: "yield", [EndClaim]: "end" };
const EVERY_MS = 3_600_000;

interface Message {
  readonly kind: number;
  readonly from: number;
  readonly to: number;
  readonly transfer: number;
  readonly body: Uint8Array;
}

interface Node {
  readonly schedules: Schedules;
  readonly claims: ScheduleClaims;
  readonly turns: ScheduleTurns;
  /** Ids whose commands may continue. */
  readonly settled: number[];
  /** How often a schedule has moved here. */
  moves: number;
}

const wordsOf = ({ kind, from, to }: Message): string => `${KINDS[kind]} ${from}>${to}`;

/** Shards whose messages arrive when a test says so. */
class Shards {
  readonly nodes: readonly Node[];
  wallMs = 0;
  #nowMs = 0;
  #lastNumber = 0;
  #said: Message[] = [];

  constructor(shards: number) {
    this.nodes = Array.from({ length: shards }, (_, shard) => this.#node(shard, shards));
  }

  #node(shard: number, shards: number): Node {
    const { schedules } = new EngineBench().engine;
    const settled: number[] = [];
    const port = {
      at: 0,
      target: new Uint8Array(0),
      beginCarry: (kind: number, to: number, transfer: number, bytes: number): void => {
        port.target = new Uint8Array(bytes);
        this.#said.push({ kind, from: shard, to, transfer, body: port.target });
      },
    };
    const clocks = { wallOffsetMs: () => this.wallMs, clock: () => 0, mayLog: () => true };
    const turns = new ScheduleTurns({ schedules, ...clocks });
    const claims = new ScheduleClaims({
      ...{ schedules, shard, shards, lastRecord: () => 0, wallMs: () => this.wallMs },
      port: port as Partial<ReplyPort> as ReplyPort,
      catchUp: (schedule) => turns.catchUp(0, schedule),
      nextNumber: () => ++this.#lastNumber,
      onMove: () => void node.moves++,
      onSettled: (id) => void settled.push(id),
    });
    const node: Node = { schedules, claims, turns, settled, moves: 0 };
    return node;
  }

  /** Sets the wall clock, and lets one shard look at it. */
  look(shard: number, wallMs: number): void {
    const { turns } = this.nodes[shard]!;
    this.wallMs = wallMs;
    this.#nowMs += 2000;
    while (turns.dueAtMs <= this.#nowMs) turns.step(this.#nowMs);
  }

  /** What is under way: "kind from>to". */
  get said(): string[] {
    return this.#said.map(wordsOf);
  }

  /** Delivers the messages that match, oldest first, and not those that they cause. */
  deliver(pattern: RegExp): void {
    const chosen = this.#said.filter((message) => pattern.test(wordsOf(message)));
    this.#said = this.#said.filter((message) => !chosen.includes(message));
    for (const { from, to, kind, transfer, body } of chosen) {
      const span = new Span();
      span.set(body, 0, body.length);
      this.nodes[to]!.claims.take(kind, from, transfer, span);
    }
  }

  /** Sets a schedule whose next tick has gone back with the wall clock, which was at `right`. */
  putHeld(shard: number, right: number): Schedule {
    const schedule = this.put(shard, 5, 1, right + EVERY_MS);
    schedule.anchorMs = right;
    this.look(shard, right);
    assert.equal(schedule.nextMs, right + EVERY_MS);
    this.look(shard, 1000);
    assert.ok(schedule.nextMs < right && schedule.heldMs > right, "the clock went back");
    return schedule;
  }

  /** Sets a schedule on a shard, without a claim. */
  put(shard: number, id: number, version: number, nextMs = 1000): Schedule {
    const { schedules } = this.nodes[shard]!;
    return addSchedule(schedules, id, "s", { timing: everyMs(EVERY_MS) }, { version, nextMs });
  }
}

/** Whether there is a schedule, whether it is frozen, and when it needs attention. */
function stateOf({ schedules: { table } }: Node): string {
  const frozen = table.get("s")?.isFrozen === true ? ", frozen" : "";
  const { nextAtMs } = table.timers;
  return `${table.size}${frozen}${nextAtMs === Number.POSITIVE_INFINITY ? "" : ` at ${nextAtMs}`}`;
}

describe("a claim", () => {
  for (const [what, versions, latest] of [
    ["the only schedule", [0, 5, 0], 5],
    ["the later one, which answers first", [0, 6, 5], 6],
    ["the later one, which answers last", [0, 5, 6], 6],
    ["none", [0, 0, 0], undefined],
  ] as const)
    for (const order of [/yield 1|yield 2/, /yield 1/, /yield 2/])
      it(`finds ${what}, answers by ${order.source}`, () => {
        const shards = new Shards(3);
        for (const [shard, version] of versions.entries())
          if (version > 0) shards.put(shard, version, version);
        const [own, ...others] = shards.nodes as [Node, ...Node[]];
        const claim = own.claims.begin("s", 77);
        assert.deepEqual(shards.said, ["claim 0>1", "claim 0>2"]);
        shards.deliver(/claim/);
        const expected = versions.slice(1).map((version) => (version === 0 ? "0" : "1, frozen"));
        assert.deepEqual(others.map(stateOf), expected, "they put no jobs meanwhile");
        shards.deliver(order);
        assert.deepEqual(own.settled, shards.said.length === 0 ? [77] : []);
        shards.deliver(/yield/);
        assert.deepEqual([own.settled, own.claims.awaited("s"), own.claims.size], [[77], 77, 1]);
        assert.deepEqual([claim.found?.id, claim.found?.progress.version], [latest, latest]);
      });

  for (const [isSet, isFound, left, moves, settled] of [
    [true, true, "0", 1, [[5], []]],
    [true, false, "0", 0, [[], []]],
    [false, true, "1 at 4000", 0, [[5], [5]]],
    [false, false, "0", 0, [[], []]],
  ] as const)
    it(`${isSet ? "that sets" : "that doesn't set"} the schedule it has${isFound ? "" : " not"} found`, () => {
      const shards = new Shards(3);
      if (isFound) shards.put(1, 5, 0, 4000);
      const [own, other] = shards.nodes as [Node, Node];
      for (const [round, expected] of settled.entries()) {
        const claim = own.claims.begin("s", 70 + round);
        shards.deliver(/claim/);
        shards.deliver(/yield/);
        own.claims.end(claim, isSet ? 99 : 0);
        assert.equal(own.moves, moves, "it has moved once, before others forget it");
        assert.deepEqual(shards.said, ["end 0>1", "end 0>2"]);
        shards.deliver(/end/);
        assert.equal(stateOf(other), left);
        assert.deepEqual(other.settled.splice(0), expected, "commands there go on");
        assert.deepEqual([own.claims.size, own.settled.splice(0)], [0, [70 + round, 70 + round]]);
      }
    });
});

describe("of two claims to a name", () => {
  for (const isSet of [true, false])
    it(`the later one is answered after the end of the first, which ${isSet ? "sets it" : "doesn't"}`, () => {
      const shards = new Shards(3);
      shards.put(2, 9, 0);
      const [first, second, third] = shards.nodes as [Node, Node, Node];
      const claims = [first.claims.begin("s", 70), second.claims.begin("s", 71)] as const;
      shards.deliver(/claim/);
      assert.deepEqual(shards.said.toSorted(), ["yield 1>0", "yield 2>0"], "the second waits");
      shards.deliver(/yield/);
      assert.deepEqual([claims[0].left, claims[1].left], [0, 2]);
      if (isSet) shards.put(0, 9, 50);
      first.claims.end(claims[0], isSet ? 50 : 0);
      assert.deepEqual(shards.said, ["end 0>1", "end 0>2", "yield 0>1"]);
      const here = first.schedules.table.get("s");
      assert.equal(here?.isFrozen, isSet ? true : undefined, "it waits for the second one now");
      shards.deliver(/end/);
      assert.equal(third.schedules.table.get("s")?.isFrozen, isSet ? undefined : true);
      shards.deliver(/yield/);
      assert.deepEqual([claims[1].left, second.settled], [0, [71]]);
      assert.equal(claims[1].found?.progress.version, isSet ? 50 : 0);
      second.claims.end(claims[1], 51);
      shards.deliver(/end/);
      assert.deepEqual(
        shards.nodes.map(({ schedules }) => schedules.table.size),
        [0, 0, 0],
      );
      assert.deepEqual(shards.said, []);
    });

  it("several later ones are answered one after another, each shard under its own number", () => {
    const shards = new Shards(4);
    const schedule = shards.put(0, 9, 0);
    const claims = shards.nodes.map((node) => node.claims.begin("s", 70));
    shards.deliver(/claim/);
    for (const [shard, claim] of claims.entries()) {
      shards.deliver(/end/);
      shards.deliver(/yield/);
      assert.deepEqual(
        claims.map(({ left }) => left === 0),
        claims.map((_, other) => other <= shard),
      );
      assert.deepEqual([...schedule.freezers], shard === 0 ? [] : [[shard, claim.number]]);
      shards.nodes[shard]!.claims.end(claim, 0);
    }
    shards.deliver(/end/);
    assert.deepEqual([shards.said, schedule.isFrozen], [[], false]);
  });
});

describe("a schedule that is set on its shard while another shard's claim begins", () => {
  it("is found as it is then, and goes when the claim ends", () => {
    const shards = new Shards(2);
    const [own, other] = shards.nodes as [Node, Node];
    shards.put(1, 5, 1);
    const claim = own.claims.begin("s", 70);
    other.schedules.table.remove(other.schedules.table.get("s")!);
    shards.put(1, 5, claim.number + 1);
    shards.deliver(/claim/);
    shards.deliver(/yield/);
    assert.equal(claim.found?.progress.version, claim.number + 1);
    shards.put(0, 5, claim.number + 2);
    own.claims.end(claim, claim.number + 2);
    shards.deliver(/end/);
    assert.deepEqual([stateOf(own), stateOf(other)], ["1 at 1000", "0"]);
  });
});

describe("a schedule that has been set elsewhere and deleted there", () => {
  it("is not told to a claim that begins before its old shard has heard of that", () => {
    const shards = new Shards(3);
    const [own, other, third] = shards.nodes as [Node, Node, Node];
    shards.put(0, 5, 0);
    const move = other.claims.begin("s", 70);
    shards.deliver(/claim/);
    shards.deliver(/yield/);
    other.claims.end(move, 50);
    shards.deliver(/end 1>2/);
    const claim = third.claims.begin("s", 71);
    shards.deliver(/claim/);
    assert.deepEqual(shards.said, ["end 1>0", "yield 1>2"]);
    shards.deliver(/end/);
    shards.deliver(/yield/);
    assert.deepEqual([claim.left, claim.found, own.schedules.table.size], [0, undefined, 0]);
  });

  for (const late of ["before", "after"])
    it(`is forgotten by a claim that hears of it ${late} the set`, () => {
      const shards = new Shards(3);
      const [, other, third] = shards.nodes as [Node, Node, Node];
      shards.put(0, 5, 0);
      const move = other.claims.begin("s", 70);
      const claim = third.claims.begin("s", 71);
      shards.deliver(/claim 2>0/);
      if (late === "before") shards.deliver(/yield 0>2/);
      shards.deliver(/claim 1/);
      shards.deliver(/yield .>1/);
      other.claims.end(move, 50);
      shards.deliver(/end 1>2/);
      shards.deliver(/yield 0>2/);
      shards.deliver(/claim 2>1/);
      shards.deliver(/yield 1>2/);
      assert.deepEqual([claim.left, claim.latest, claim.found], [0, 50, undefined]);
    });
});

describe("the end of another shard's claim", () => {
  for (const [version, stays] of [
    [0, false],
    [1, false],
    [2, true],
    [3, true],
    [5, true],
  ] as const)
    it(`${stays ? "leaves" : "ends"} a schedule of version ${version}, if the claim has set version 2`, () => {
      const shards = new Shards(2);
      const [own, other] = shards.nodes as [Node, Node];
      const claim = own.claims.begin("s", 70);
      shards.put(1, 5, version, 4000);
      shards.deliver(/claim/);
      shards.deliver(/yield/);
      own.claims.end(claim, 2);
      shards.deliver(/end/);
      const { table } = other.schedules;
      assert.deepEqual(
        [table.size, table.timers.nextAtMs],
        stays ? [1, 4000] : [0, Number.POSITIVE_INFINITY],
      );
      assert.deepEqual(other.settled, [5]);
    });

  it("corrects the next tick of a schedule that goes on, if the clock was ahead", () => {
    const shards = new Shards(2);
    const [own, other] = shards.nodes as [Node, Node];
    const before = 1000 * EVERY_MS;
    shards.wallMs = before;
    const schedule = shards.put(1, 5, 1, before + EVERY_MS);
    schedule.anchorMs = before;
    const claim = own.claims.begin("s", 70);
    shards.deliver(/claim/);
    shards.deliver(/yield/);
    shards.wallMs = 1000;
    // Nothing else corrects a schedule that is frozen.
    other.schedules.correct(schedule, shards.wallMs);
    assert.equal(schedule.nextMs, before + EVERY_MS);
    own.claims.end(claim, 0);
    shards.deliver(/end/);
    assert.deepEqual(
      [schedule.nextMs, other.schedules.table.timers.nextAtMs],
      [1000 + EVERY_MS, 1000 + EVERY_MS],
    );
  });

  it("brings back the tick from before the clock went back, if it was set right meanwhile", () => {
    const shards = new Shards(2);
    const [own, other] = shards.nodes as [Node, Node];
    const right = 1000 * EVERY_MS;
    const schedule = shards.putHeld(1, right);
    const claim = own.claims.begin("s", 70);
    shards.deliver(/claim/);
    shards.deliver(/yield/);
    shards.look(1, right);
    assert.ok(schedule.nextMs < right, "nothing moves the tick of a schedule that is frozen");
    own.claims.end(claim, 0);
    shards.deliver(/end/);
    assert.deepEqual(
      [schedule.nextMs, schedule.heldMs, other.schedules.table.timers.nextAtMs],
      [right + EVERY_MS, 0, right + EVERY_MS],
    );
  });

  it("leaves the hold of a schedule if the clock stayed behind", () => {
    const shards = new Shards(2);
    const [own, other] = shards.nodes as [Node, Node];
    const schedule = shards.put(1, 5, 1, EVERY_MS);
    shards.look(1, 0);
    other.schedules.table.setHeld(schedule, 2 * EVERY_MS);
    const claim = own.claims.begin("s", 70);
    shards.deliver(/claim/);
    shards.deliver(/yield/);
    own.claims.end(claim, 0);
    shards.deliver(/end/);
    assert.deepEqual([schedule.nextMs, schedule.heldMs], [EVERY_MS, 2 * EVERY_MS]);
  });

  it("finds the tick from before the clock went back, if it was set right just before the claim", () => {
    const shards = new Shards(2);
    const [own] = shards.nodes as [Node, Node];
    const right = 1000 * EVERY_MS;
    shards.putHeld(1, right);
    // Only the shard that claims the name has seen this step.
    shards.look(0, right);
    const claim = own.claims.begin("s", 70);
    shards.deliver(/claim/);
    shards.deliver(/yield/);
    const { nextMs, heldMs } = claim.found!.progress;
    assert.deepEqual([nextMs, heldMs], [right + EVERY_MS, 0]);
  });

  it("leaves the hold of a schedule that comes to a shard without any, if the clock stayed behind", () => {
    const shards = new Shards(2);
    const [own] = shards.nodes as [Node, Node];
    own.claims.begin("s", 70);
    const schedule = shards.put(0, 5, 1, EVERY_MS);
    own.schedules.table.setHeld(schedule, 2 * EVERY_MS);
    shards.look(0, 0);
    assert.deepEqual([schedule.nextMs, schedule.heldMs], [EVERY_MS, 2 * EVERY_MS]);
  });

  it("changes nothing on a shard whose schedule another one has set since", () => {
    const shards = new Shards(2);
    const [own, other] = shards.nodes as [Node, Node];
    const claim = own.claims.begin("s", 70);
    shards.deliver(/claim/);
    shards.deliver(/yield/);
    own.claims.end(claim, 99);
    shards.put(1, 5, 0, 4000);
    shards.deliver(/end/);
    const { table } = other.schedules;
    assert.deepEqual([table.size, table.timers.nextAtMs, other.settled], [1, 4000, []]);
  });
});
