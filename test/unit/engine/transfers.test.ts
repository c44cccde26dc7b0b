// Tests of jobs on their way to tubes of other shards, while they are still here: what limits
// count, and what the log knows of a death.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Memory } from "../../../src/base/bytes.ts";
import { Engine, Outcome, ReserveOutcome } from "../../../src/engine/engine.ts";
import { BodyArena, EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { JobState, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes, type JobChange } from "../../../src/engine/jobs/new-job.ts";
import type { RecordSink } from "../../../src/engine/state/effects.ts";
import { Travel } from "../../../src/engine/transfers.ts";
import {
  ATTRIBUTE_BYTES_MAX,
  Attribute,
  AttributeWriter,
  DeathReason,
  findAttribute,
} from "../../../src/protocol/job-attribute.ts";
import { fixedCounters } from "../../../src/schema/job.ts";
import type { SettingValues } from "../../../src/schema/setting.ts";
import { unheardEffects, unheardRecords } from "../../support/in-process/effects.ts";
import { checkArenaAtRest, checkInvariants } from "../../support/in-process/engine-invariants.ts";
import { setTubes } from "../../support/in-process/set-tubes.ts";

const GONE: JobChange = { pri: undefined, ttrSeconds: undefined, delayMs: undefined, tube: "elsewhere" };
const TRANSFER = 7;
/** The session that waits. */
const WAITING = 1;

/** An engine whose log is the last record of each job. */
class Bench {
  readonly given: number[] = [];
  readonly log = new Map<number, { state: JobState; attributes: Buffer }>();
  readonly engine: Engine;

  constructor(settings: Partial<SettingValues>, ownsAll = false) {
    this.engine = new Engine({
      effects: unheardEffects({ reserved: (_, slot) => this.given.push(this.#id(slot)) }),
      records: this.#records(),
      ownsDefaultTube: true,
      ownsTube: (name) => ownsAll || name !== "elsewhere",
    });
    setTubes(this.engine, "a", settings, 0);
  }

  #id(slot: number): number {
    return this.engine.jobs.pageOf(slot).id[rowOf(slot)]!;
  }

  #records(): RecordSink {
    return unheardRecords({
      put: (slot) => this.#note(slot),
      updated: (slot) => void this.#note(slot),
    });
  }

  #note(slot: number): true {
    const writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
    this.engine.policies.attributes.writeFixed(slot, writer, 0);
    this.engine.policies.attributes.writeMutable(slot, writer, 0);
    const state = this.engine.jobs.pageOf(slot).state[rowOf(slot)] as JobState;
    this.log.set(this.#id(slot), { state, attributes: Buffer.from(writer.bytes.subarray(0, writer.length)) });
    return true;
  }

  put(id: number, group = ""): void {
    const job = { id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
    const attributes = new JobAttributes();
    if (group !== "") attributes.fixed.text(Attribute.Group, Buffer.from(group), 0, group.length);
    const outcome = this.engine.put(this.engine.session(0), job, EMPTY_BODY, 0, "a", attributes);
    assert.equal(outcome, Outcome.Done);
  }

  hold(id: number): void {
    assert.equal(this.engine.reserveJob(this.engine.session(0), id, 0), Outcome.Done);
  }

  die(id: number): void {
    this.hold(id);
    assert.equal(this.engine.release(this.engine.session(0), id, 0, 0, 0), Outcome.Done);
  }

  wait(tube = "a"): void {
    const waiting = this.engine.session(WAITING);
    this.engine.watch(waiting, tube);
    assert.equal(this.engine.reserve(waiting, 60_000, 0), ReserveOutcome.Waits);
  }

  handOn(id: number): void {
    assert.equal(this.engine.changes.update(this.engine.session(0), id, GONE, 0), Outcome.OtherShard);
    this.engine.transfers.depart(this.engine.find(id), TRANSFER, 0);
    this.check();
  }

  /** The same jobs after a restart, in an engine of all tubes or not. */
  again(settings: Partial<SettingValues>, ownsAll = false): Bench {
    const next = new Bench(settings, ownsAll);
    for (const [id, { state, attributes }] of this.log) {
      const counts = { counters: fixedCounters({ reserves: 1, releases: 1 }) };
      const facts = { id, pri: 0, delaySeconds: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0, file: 0 };
      const known = new JobAttributes().read(attributes, 0, attributes.length, 0);
      const job = { ...facts, ...counts, tube: "a", state, deadlineAtMs: 0 };
      next.engine.restore(job, EMPTY_BODY, known);
      next.log.set(id, { state, attributes });
    }
    next.engine.endRestore();
    return next;
  }

  /** Returns the destination of each job that was marked to leave. */
  leaving(): [id: number, tube: string][] {
    return this.engine.policies.deaths
      .takeLeaving()
      .map((id) => [id, this.engine.transfers.leavesFor(id, 0)]);
  }

  check(): void {
    checkInvariants(this.engine, [0, WAITING]);
  }
}

describe("a held job on its way to another shard", () => {
  for (const [what, settings, group] of [
    ["max-reserved", { maxReserved: 1 }, ""],
    ["group-max-reserved", { groupMaxReserved: 1 }, "g"],
  ] as const) {
    it(`counts in ${what} until it arrives`, () => {
      const bench = new Bench(settings);
      bench.put(1, group);
      bench.hold(1);
      bench.put(2, group);
      bench.wait();
      bench.handOn(1);
      // Other changes in the tube meanwhile open nothing.
      bench.put(3, group);
      assert.deepEqual(bench.given, []);
      bench.engine.transfers.departed(1, TRANSFER, 0);
      assert.deepEqual(bench.given, [2]);
      bench.check();
    });

    it(`stays held if it is refused, and ${what} counts it once`, () => {
      const bench = new Bench(settings);
      bench.put(1, group);
      bench.hold(1);
      bench.put(2, group);
      bench.wait();
      bench.handOn(1);
      bench.engine.transfers.stay(1, TRANSFER, 0);
      bench.check();
      assert.deepEqual(bench.given, []);
      assert.equal(bench.engine.delete(bench.engine.session(0), 1, 0), Outcome.Done);
      assert.deepEqual(bench.given, [2]);
      bench.check();
    });
  }
});

describe("a held job that update-job sends to another shard", () => {
  for (const isTaken of [true, false])
    it(`costs its group one turn, also when it is ${isTaken ? "there" : "refused"}`, () => {
      const bench = new Bench({});
      const { engine } = bench;
      const client = engine.session(0);
      bench.put(1, "g");
      bench.put(2, "h");
      bench.hold(1);
      bench.hold(2);
      bench.put(3, "g");
      bench.put(4, "h");
      bench.handOn(1);
      if (isTaken) engine.transfers.departed(1, TRANSFER, 0);
      else {
        engine.transfers.stay(1, TRANSFER, 0);
        assert.equal(engine.delete(client, 1, 0), Outcome.Done);
      }
      assert.equal(engine.delete(client, 2, 0), Outcome.Done);
      engine.watch(client, "a");
      const slot = engine.reserve(client, 0, 0);
      assert.equal(engine.jobs.pageOf(slot).id[rowOf(slot)], 3, "g's turn was longest ago");
      bench.check();
    });

  it("expires if its time is over when it arrives", () => {
    const bench = new Bench({});
    bench.wait();
    const counts = { counters: fixedCounters({ reserves: 1, releases: 1 }) };
    const facts = { id: 1, pri: 0, delaySeconds: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0, file: 0 };
    const job = { ...facts, ...counts, tube: "a", state: JobState.Ready, deadlineAtMs: 0 };
    const attributes = new JobAttributes();
    attributes.expiresAtMs = 500;
    const arrival = { travel: Travel.Handed, asReady: false, delayMs: 0 };
    assert.equal(bench.engine.transfers.arrive(job, EMPTY_BODY, attributes, arrival, 501), Outcome.Done);
    assert.deepEqual(bench.given, []);
    assert.equal(bench.engine.jobs.live, 0, "it has expired");
    bench.check();
  });
});

describe("a job that dies with its dead-letter tube on another shard", () => {
  const settings = { maxAttempts: 1, deadLetter: "elsewhere" };

  it("is marked to leave, also after a restart before it arrives", () => {
    const bench = new Bench(settings);
    bench.put(1);
    bench.die(1);
    assert.deepEqual(bench.again(settings).leaving(), [[1, "elsewhere"]]);
    assert.deepEqual(bench.leaving(), [[1, "elsewhere"]]);
    bench.engine.transfers.depart(bench.engine.find(1), TRANSFER, 0);
    assert.ok(bench.engine.transfers.isLeaving(1));
    bench.check();
    assert.deepEqual(bench.again(settings).leaving(), [[1, "elsewhere"]]);
    bench.engine.transfers.departed(1, TRANSFER, 0);
    assert.ok(!bench.engine.transfers.isLeaving(1));
  });

  it("moves at once if a restart brings that tube to its shard", () => {
    const bench = new Bench(settings);
    bench.put(1);
    bench.die(1);
    const next = bench.again(settings, true);
    assert.deepEqual(next.leaving(), [[1, ""]]);
    assert.equal(next.engine.findTube("elsewhere")!.jobsIn(JobState.Ready), 1);
    assert.equal(next.engine.findTube("a"), undefined);
    next.check();
  });

  it("expires if that tube is now on its shard and a new time to live is over", () => {
    const bench = new Bench(settings);
    bench.put(1);
    bench.die(1);
    const change = { ...GONE, ttlMs: 500, tube: undefined };
    assert.equal(bench.engine.changes.update(bench.engine.session(0), 1, change, 0), Outcome.Done);
    setTubes(bench.engine, "a", { deadLetter: "b" }, 0);
    bench.wait("b");
    assert.equal(bench.engine.transfers.leavesFor(1, 501), "");
    assert.deepEqual(bench.given, []);
    assert.equal(bench.engine.jobs.live, 0, "it has expired");
    assert.equal(bench.engine.findTube("a"), undefined);
    bench.check();
  });

  it("stays if it is refused, or if the tube was unset before or after its death", () => {
    const bench = new Bench(settings);
    bench.put(1);
    bench.die(1);
    assert.deepEqual(bench.again({ maxAttempts: 1 }).leaving(), [[1, ""]]);
    assert.deepEqual(bench.leaving(), [[1, "elsewhere"]]);
    bench.engine.transfers.depart(bench.engine.find(1), TRANSFER, 0);
    bench.engine.transfers.stay(1, TRANSFER, 0);
    assert.deepEqual(bench.again(settings).leaving(), []);
    const other = new Bench({ maxAttempts: 1 });
    other.put(1);
    other.die(1);
    assert.deepEqual(other.again(settings).leaving(), []);
  });

  it("stays for good if the tube was unset before it left", () => {
    const bench = new Bench(settings);
    for (const id of [1, 2]) {
      bench.put(id);
      bench.die(id);
    }
    setTubes(bench.engine, "a", { maxAttempts: 1 }, 0);
    assert.deepEqual(bench.leaving(), [
      [1, ""],
      [2, ""],
    ]);
    bench.check();
    // The tube is set again, and the server starts anew.
    assert.deepEqual(bench.again(settings).leaving(), []);
    assert.equal(bench.engine.kickJob(1, 0), Outcome.Done);
  });

  it("leaves after all if a move elsewhere is refused", () => {
    const bench = new Bench(settings);
    bench.put(1);
    bench.die(1);
    bench.engine.transfers.depart(bench.engine.find(1), TRANSFER, 0);
    assert.deepEqual(bench.leaving(), [[1, ""]]);
    bench.engine.transfers.stay(1, TRANSFER, 0);
    assert.deepEqual(bench.leaving(), [[1, "elsewhere"]]);
    bench.check();
  });

  it("doesn't leave if it is kicked, reserved or deleted before", () => {
    const bench = new Bench(settings);
    for (const id of [1, 2, 3]) {
      bench.put(id);
      bench.die(id);
    }
    assert.equal(bench.engine.kickJob(1, 0), Outcome.Done);
    bench.hold(2);
    assert.equal(bench.engine.delete(bench.engine.session(0), 3, 0), Outcome.Done);
    assert.deepEqual(
      bench.leaving().map(([, tube]) => tube),
      ["", "", ""],
    );
    for (const id of [1, 2, 3]) assert.ok(!bench.engine.transfers.isLeaving(id));
    bench.check();
  });
});

it("the next record keeps a time to live that ended before the start", () => {
  const writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
  writer.float64(Attribute.ExpiresAt, 1000);
  const startedAtMs = 5000;
  const attributes = new JobAttributes().read(writer.bytes, 0, writer.length, startedAtMs);
  const bench = new Bench({});
  const facts = { id: 1, pri: 0, delaySeconds: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0, file: 0 };
  const counts = { counters: fixedCounters({ buries: 1 }) };
  const job = { ...facts, ...counts, tube: "a", state: JobState.Buried, deadlineAtMs: 0 };
  bench.engine.restore(job, EMPTY_BODY, attributes);
  bench.engine.endRestore();
  // A buried job doesn't expire, but it changes.
  assert.equal(
    bench.engine.changes.update(bench.engine.session(0), 1, { ...GONE, pri: 7, tube: undefined }, 1),
    Outcome.Done,
  );
  const { attributes: logged } = bench.log.get(1)!;
  assert.ok(findAttribute(logged, 0, logged.length, Attribute.ExpiresAt) >= 0);
  assert.equal(bench.engine.kickJob(1, 2), Outcome.Done);
  assert.equal(bench.engine.jobs.live, 0, "it has expired");
});

describe("a job that arrives while memory runs out", () => {
  /** An arena in which the allocation of this number fails. */
  class ShortArena extends BodyArena {
    left = Number.POSITIVE_INFINITY;

    override allocate(bytes: number): number {
      if (this.left-- === 0) throw new RangeError("no memory");
      return super.allocate(bytes);
    }
  }

  const TUBE = "there";
  const JOB = {
    ...{ id: 1, pri: 0, delaySeconds: 0, ttrSeconds: 60, bodyBytes: 100, atMs: 0, file: 0, tube: TUBE },
    ...{ state: JobState.Ready, deadlineAtMs: 0, counters: fixedCounters({ reserves: 1, releases: 1 }) },
  };

  function arriving(delayMs?: number): { engine: Engine; arena: ShortArena; arrive: () => Outcome } {
    const arena = new ShortArena();
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true, arena });
    const body = arena.allocate(JOB.bodyBytes);
    const attributes = new JobAttributes();
    attributes.setKey(Buffer.from("k"), 0, 1, false);
    attributes.fixed.text(Attribute.Group, Buffer.from("g"), 0, 1);
    attributes.origin = Buffer.from("origin");
    attributes.reason = DeathReason.Attempts;
    attributes.expiresAtMs = 5000;
    const arrival = { travel: Travel.Handed, asReady: false, delayMs };
    return {
      engine,
      arena,
      arrive: () => {
        const outcome = engine.transfers.arrive(JOB, body, attributes, arrival, 0);
        // As the receiver does.
        if (outcome !== Outcome.Done) arena.free(body);
        return outcome;
      },
    };
  }

  function checkNothing({ engine }: { engine: Engine }): void {
    assert.equal(engine.find(JOB.id), NO_SLOT);
    assert.deepEqual([engine.jobs.live, engine.jobs.groups, [...engine.tubes.keys()]], [0, 0, ["default"]]);
    checkArenaAtRest(engine);
    checkInvariants(engine, []);
  }

  it("is not created, and its body is freed once, whatever there is no memory for", () => {
    const outcomes = [0, 1, 2].map((left) => {
      const scene = arriving();
      scene.arena.left = left;
      const outcome = scene.arrive();
      if (outcome === Outcome.NoRoom) checkNothing(scene);
      return outcome;
    });
    // Attributes and the name of the tube in which it died.
    assert.deepEqual(outcomes, [Outcome.NoRoom, Outcome.NoRoom, Outcome.Done]);
  });

  it("is not created if there is none for one more delayed job", () => {
    const scene = arriving(1000);
    const session = scene.engine.session(0);
    scene.engine.watch(session, TUBE);
    scene.engine.tubes.get(TUBE)!.delayed.makeRoom = () => {
      throw new RangeError("no memory");
    };
    assert.equal(scene.arrive(), Outcome.NoRoom);
    scene.engine.ignore(session, TUBE);
    checkNothing(scene);
  });
});
