// Tests of the holders of unique keys after a start: records of this version, the rule for records
// of older servers, and two claims to one key in the log.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Memory } from "../../../../src/base/bytes.ts";
import { Engine, Outcome } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { JobState, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../../src/engine/jobs/new-job.ts";
import { NO_HOLDER, NO_ROW } from "../../../../src/engine/policies/key-table.ts";
import {
  ATTRIBUTE_BYTES_MAX,
  Attribute,
  AttributeWriter,
  DeathReason,
  findAttribute,
  KeyState,
} from "../../../../src/protocol/job-attribute.ts";
import { fixedCounters } from "../../../../src/schema/job.ts";
import { unheardEffects, unheardRecords } from "../../../support/in-process/effects.ts";

const NOBODY = unheardEffects({ reserved: () => assert.fail("no client waits") });

type Claim = Partial<
  Pick<JobAttributes, "keyState" | "untilReserve" | "uniqueUntilMs" | "reason" | "moved"> & {
    id: number;
    reserves: number;
    /** Its job is gone. */
    isRemembered: boolean;
  }
>;

const KEY = Buffer.from("k");
const TUBE = Buffer.from("t");

class Start {
  readonly deleted: number[] = [];
  readonly engine: Engine;

  /** Reads the records in this order. */
  constructor(claims: readonly Claim[]) {
    this.engine = new Engine({
      effects: NOBODY,
      ownsDefaultTube: true,
      records: unheardRecords({
        deleted: (id) => this.deleted.push(id),
        ended: (id) => this.deleted.push(id),
      }),
    });
    for (const claim of claims) this.#read(claim);
    this.engine.endRestore();
  }

  #read({ id = 1, reserves = 0, isRemembered = false, untilReserve = false, ...facts }: Claim): void {
    const attributes = new JobAttributes();
    attributes.setKey(KEY, 0, KEY.length, untilReserve);
    Object.assign(attributes, facts);
    if (isRemembered) this.engine.policies.keys.restoreRemembered(TUBE, id, attributes);
    else
      this.engine.restore(
        {
          ...{
            id,
            counters: fixedCounters({ reserves }),
            pri: 0,
            delaySeconds: 0,
            ttrSeconds: 60,
            bodyBytes: 0,
            atMs: 0,
            tube: "t",
          },
          ...{
            state: JobState.Ready,
            deadlineAtMs: 0,
            file: 1,
          },
        },
        this.engine.bodies.allocate(0),
        attributes,
      );
  }

  /** The holder of the key, or the job that left it remembered; and until when. */
  get found(): string {
    const { table } = this.engine.policies.keys;
    const row = table.find({ tube: TUBE, bytes: KEY, start: 0, end: KEY.length });
    if (row === NO_ROW) return "nobody";
    const verb = table.slotOf(row) === NO_HOLDER ? "left by" : "held by";
    return `${verb} ${table.idOf(row)} until ${table.untilOf(row)}`;
  }
}

/** Returns what is found, in whatever order the records come. */
function foundOf(...claims: readonly Claim[]): string {
  const [there, back] = [new Start(claims).found, new Start(claims.toReversed()).found];
  assert.equal(there, back, "the order of the records doesn't matter");
  return there;
}

const HELD = { keyState: KeyState.Held };
const LOST = { keyState: KeyState.Lost };

describe("unique keys after a start", () => {
  it("are as the log has them", () => {
    assert.equal(foundOf({ id: 1, ...LOST }), "nobody");
    assert.equal(foundOf({ id: 1, ...LOST, uniqueUntilMs: 500 }), "nobody");
    assert.equal(foundOf({ id: 1, ...HELD, uniqueUntilMs: 500 }), "held by 1 until 0");
    assert.equal(foundOf({ id: 1, keyState: KeyState.HeldFor, uniqueUntilMs: 500 }), "held by 1 until 500");
    assert.equal(
      foundOf({ id: 1, keyState: KeyState.Remembered, uniqueUntilMs: 500 }),
      "left by 1 until 500",
    );
    assert.equal(foundOf({ id: 1, isRemembered: true, uniqueUntilMs: 500 }), "left by 1 until 500");
  });

  it("belong to their holders, whatever the ids", () => {
    assert.equal(foundOf({ id: 1, ...LOST }, { id: 2, ...HELD }), "held by 2 until 0");
    assert.equal(foundOf({ id: 1, ...HELD }, { id: 2, ...LOST }), "held by 1 until 0");
  });

  it("follow a newer record rather than a guess about an older one", () => {
    assert.equal(foundOf({ id: 1 }, { id: 2, ...HELD }), "held by 2 until 0");
    const left = { id: 2, keyState: KeyState.Remembered, uniqueUntilMs: 500 };
    assert.equal(foundOf({ id: 1 }, left), "left by 2 until 500");
  });

  it("belong to a holder rather than to a remembered job", () => {
    const left = { id: 1, keyState: KeyState.Remembered, uniqueUntilMs: 500 };
    assert.equal(foundOf(left, { id: 2, ...HELD }), "held by 2 until 0");
  });

  it("forget a remembered job if another job has the key", () => {
    const claims = [
      { id: 1, isRemembered: true, uniqueUntilMs: 500 },
      { id: 2, ...HELD },
    ];
    for (const each of [claims, claims.toReversed()]) {
      const start = new Start(each);
      start.engine.runDue(10);
      assert.deepEqual(start.deleted, [1]);
      assert.equal(start.found, "held by 2 until 0");
    }
  });

  it("forget every remembered job if another job has the key", () => {
    const left = { isRemembered: true, uniqueUntilMs: 500 };
    const start = new Start([
      { id: 1, ...left },
      { id: 2, ...left },
      { id: 3, ...left },
      { id: 4, ...HELD },
    ]);
    start.engine.runDue(10);
    assert.deepEqual(start.deleted.sort(), [1, 2, 3]);
    assert.equal(start.found, "held by 4 until 0");
  });

  it("belong to the smaller id if a salvage brought two holders", () => {
    assert.equal(foundOf({ id: 7, ...HELD }, { id: 3, ...HELD }), "held by 3 until 0");
  });
});

describe("a record of an older server without key states", () => {
  it("gives a key to a job that lives, the smaller id first", () => {
    assert.equal(foundOf({ id: 1 }), "held by 1 until 0");
    assert.equal(foundOf({ id: 2 }, { id: 1 }), "held by 1 until 0");
    assert.equal(foundOf({ id: 1, reason: DeathReason.Attempts }, { id: 2 }), "held by 2 until 0");
  });

  it("ends a key at a reservation if the put says so, and remembers it for its time", () => {
    assert.equal(foundOf({ id: 1, untilReserve: true, reserves: 0 }), "held by 1 until 0");
    assert.equal(foundOf({ id: 1, untilReserve: true, reserves: 1 }), "nobody");
    const left = { id: 1, untilReserve: true, reserves: 1, uniqueUntilMs: 500 };
    assert.equal(foundOf(left), "left by 1 until 500");
    // Its time may be over since long.
    assert.equal(foundOf(left, { id: 2 }), "held by 2 until 0");
  });

  it("remembers no key of a job that has moved", () => {
    assert.equal(foundOf({ id: 1, moved: true, uniqueUntilMs: 500 }), "held by 1 until 0");
  });
});

describe("a reservation that ends a key", () => {
  for (const [what, uniqueUntilMs, state] of [
    ["forgotten", 0, KeyState.Lost],
    ["remembered for its time", 500, KeyState.Remembered],
  ] as const)
    it(`is logged, with a key that is ${what}`, () => {
      const writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
      const logged: number[] = [];
      const engine = new Engine({
        effects: NOBODY,
        ownsDefaultTube: true,
        records: unheardRecords({
          updated: (slot) => {
            writer.clear();
            engine.policies.keys.write(engine.jobs.pageOf(slot).extras!, rowOf(slot), writer);
            const at = findAttribute(writer.bytes, 0, writer.length, Attribute.Key);
            logged.push(writer.bytes[at]!);
          },
        }),
      });
      const session = engine.session(0);
      const attributes = new JobAttributes();
      attributes.setKey(KEY, 0, KEY.length, true);
      attributes.uniqueUntilMs = uniqueUntilMs;
      const times = { delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, atMs: 0 };
      engine.put(session, { id: 1, pri: 0, bodyBytes: 0, ...times }, EMPTY_BODY, 0, "t", attributes);
      assert.equal(engine.reserveJob(session, 1, 10), Outcome.Done);
      assert.deepEqual(logged, [state]);
    });
});
