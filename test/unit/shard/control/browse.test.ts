// Tests of browsing jobs in the order of delivery, in slices, while others change them.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { Engine, Outcome } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { ENDS } from "../../../../src/engine/jobs/ends.ts";
import { rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../../src/engine/jobs/new-job.ts";
import type { BrowsePart, BrowseQuestion } from "../../../../src/message/control.ts";
import { Attribute } from "../../../../src/protocol/job-attribute.ts";
import { OnDuplicate } from "../../../../src/protocol/option-rows.ts";
import { beginBrowse, nextJobs } from "../../../../src/shard/control/browse.ts";
import type { ControlAnswerer, ControlWork } from "../../../../src/shard/control/control-work.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";
import { setTubes } from "../../../support/in-process/set-tubes.ts";

const JOBS = 250;
const BODY_BYTES = 4000;
const SLICE_JOBS_MAX = 60;

function newEngine(): Engine {
  return new Engine({
    effects: unheardEffects(),
    ownsDefaultTube: true,
  });
}

/** An engine with delayed jobs 1, 2, 3 …: the last is due first. */
function engineWithJobs(): Engine {
  const engine = newEngine();
  for (let id = 1; id <= JOBS; id++) {
    const body = id === JOBS ? EMPTY_BODY : engine.bodies.allocate(BODY_BYTES);
    const bodyBytes = id === JOBS ? 0 : BODY_BYTES;
    const job = { id, pri: 0, delaySeconds: 1000 - id, delayMillis: 0, ttrSeconds: 100, bodyBytes, atMs: 0 };
    engine.put(engine.session(0), job, body, 0, "mail");
  }
  return engine;
}

function beginNext(engine: Engine, question: Partial<BrowseQuestion> = {}): ControlWork {
  const shard = {
    engine,
    records: undefined,
    nowMs: 0,
    clock: () => 0,
    portCount: 2,
    leaseSession: 1,
    ownsTube: () => true,
  };
  return beginBrowse(shard, {
    tube: "mail",
    states: ["delayed"],
    where: {},
    order: "next",
    afterId: 0,
    limit: 1000,
    bodyMax: 0,
    bodyBytesMax: 1_000_000,
    looksMax: 10_000,
    ...question,
  });
}

/** Takes parts until the last; `between` happens after each. */
function partsOf(
  work: ControlWork,
  between: (part: number) => void = () => {},
  isWhole = true,
): BrowsePart[] {
  const parts: BrowsePart[] = [];
  const answerer: ControlAnswerer = {
    partBytesMax: 1 << 17,
    value: (value, isLast) => {
      parts.push(value as BrowsePart);
      if (isWhole) assert.equal(isLast, (value as BrowsePart).hasEnded);
    },
    bytes: () => assert.fail("not msgpack"),
  };
  while (!work.step(answerer)) {
    between(parts.length);
    assert.ok(parts.length <= JOBS, "it ends");
  }
  return parts;
}

const idsOf = (parts: readonly BrowsePart[]): number[] =>
  parts.flatMap(({ jobs }) => jobs.map(({ id }) => id));

describe("jobs of a tube by id", () => {
  /** Tubes with many jobs and with few, whose ids are among each other. */
  function mixed(): { engine: Engine; few: number[] } {
    const engine = newEngine();
    const few: number[] = [];
    for (let id = 1; id <= 5000; id++) {
      const isFew = id % 500 === 0;
      if (isFew) few.push(id);
      const text = id === 4000 ? "a needle" : "hay, hay";
      const body = engine.bodies.allocate(text.length);
      engine.bodies.write(body, 0, Buffer.from(text), 0, text.length);
      const job = { id, pri: 0, delaySeconds: id % 1000 === 0 ? 9 : 0, delayMillis: 0, ttrSeconds: 1 };
      const facts = { ...job, bodyBytes: text.length, atMs: 0 };
      engine.put(engine.session(0), facts, body, 0, isFew ? "few" : "many");
    }
    return { engine, few };
  }
  const scan = (question: Partial<BrowseQuestion>): Partial<BrowseQuestion> => ({
    tube: "few",
    order: "scan",
    states: ["ready", "delayed", "buried", "reserved"],
    ...question,
  });
  const examined = (parts: readonly BrowsePart[]): number =>
    parts.reduce((sum, part) => sum + part.examined, 0);

  it("are found without a look at others if they are few", () => {
    const { engine, few } = mixed();
    const parts = partsOf(beginNext(engine, scan({})));
    assert.deepEqual(idsOf(parts), few);
    assert.equal(examined(parts), few.length);
    const later = partsOf(beginNext(engine, scan({ afterId: 2500, states: ["ready"] })));
    assert.deepEqual(idsOf(later), [3500, 4500]);
    const found = partsOf(beginNext(engine, scan({ where: { text: Buffer.from("needle") } })));
    assert.deepEqual(idsOf(found), [4000]);
    assert.deepEqual(
      idsOf(partsOf(beginNext(engine, scan({ where: { idFrom: 1500, idTo: 2100 } })))),
      [1500, 2000],
    );
  });

  it("end if a job goes whose body is half searched", () => {
    const engine = newEngine();
    for (const [index, text] of ["hay".repeat(40_000), "a needle"].entries()) {
      const body = engine.bodies.allocate(text.length);
      engine.bodies.write(body, 0, Buffer.from(text), 0, text.length);
      const job = { id: index + 1, pri: 0, delaySeconds: 9 + index, delayMillis: 0, ttrSeconds: 1 };
      engine.put(engine.session(0), { ...job, bodyBytes: text.length, atMs: 0 }, body, 0, "mail");
    }
    const parts = partsOf(beginNext(engine, { where: { text: Buffer.from("needle") } }), (part) => {
      if (part === 1) assert.equal(engine.delete(engine.session(0), 1, 0), Outcome.Done);
    });
    assert.deepEqual(idsOf(parts), [2]);
  });

  it("are found if a put replaces the body that is half searched by a shorter one", () => {
    const engine = newEngine();
    const key = Buffer.from("k");
    const put = (id: number, text: string): Outcome => {
      const attributes = new JobAttributes();
      attributes.setKey(key, 0, key.length, false);
      attributes.onDuplicate = OnDuplicate.Replace;
      const body = engine.bodies.allocate(text.length);
      engine.bodies.write(body, 0, Buffer.from(text), 0, text.length);
      const times = { delaySeconds: 0, delayMillis: 0, ttrSeconds: 1, atMs: 0 };
      const job = { id, pri: 0, bodyBytes: text.length, ...times };
      const outcome = engine.put(engine.session(0), job, body, 0, "mail", attributes);
      return outcome === Outcome.Duplicate ? engine.changes.putAgain(1, job, body, attributes, 0) : outcome;
    };
    for (const order of ["scan", "next"] as const) {
      assert.equal(put(1, "hay".repeat(21_000)), order === "scan" ? Outcome.Done : Outcome.Replaced);
      const question = { order, states: ["ready"], where: { text: Buffer.from("needle") } } as const;
      const parts = partsOf(beginNext(engine, question), (part) => {
        if (part === 1) assert.equal(put(2, "a needle"), Outcome.Replaced);
      });
      assert.deepEqual(idsOf(parts), [1]);
      assert.ok(parts.length > 1, "the search rests in the body");
    }
  });

  it("continue where a page ended", () => {
    const { engine, few } = mixed();
    const ids: number[] = [];
    for (let afterId = 0, hasEnded = false; !hasEnded; ) {
      const parts = partsOf(beginNext(engine, scan({ limit: 3, afterId })), () => {}, false);
      ids.push(...idsOf(parts));
      ({ doneId: afterId, hasEnded } = parts.at(-1)!);
    }
    assert.deepEqual(ids, few);
  });

  it("are all found where some of them are reserved", () => {
    const { engine, few } = mixed();
    assert.equal(engine.reserveJob(engine.session(1), few[3]!, 0), Outcome.Done);
    const parts = partsOf(beginNext(engine, scan({})));
    assert.deepEqual(idsOf(parts), few);
    const ready = partsOf(beginNext(engine, scan({ states: ["delayed", "ready"] })));
    assert.deepEqual(
      idsOf(ready),
      few.filter((id) => id !== few[3]),
    );
    assert.equal(examined(ready), few.length - 1);
  });
});

describe("jobs in the order of handing out", () => {
  it("come in slices, all of them, even if a slice is cut short", () => {
    const work = beginNext(engineWithJobs());
    const parts = partsOf(work, () => work.cancel?.());
    assert.ok(parts.every(({ jobs }) => jobs.length <= SLICE_JOBS_MAX));
    assert.deepEqual(
      idsOf(parts),
      Array.from({ length: JOBS }, (_, index) => JOBS - index),
    );
    assert.equal(
      parts.reduce((sum, { examined }) => sum + examined, 0),
      JOBS,
    );
  });

  it("exclude jobs of another state or tube, and jobs gone meanwhile", () => {
    const engine = engineWithJobs();
    const parts = partsOf(beginNext(engine), (part) => {
      if (part !== 1) return;
      engine.kickJob(10, 0);
      engine.discard(engine.find(11), ENDS.Cleared, 0);
      engine.changes.move(engine.find(12), "other", false, 0);
    });
    const ids = idsOf(parts);
    assert.equal(ids.length, JOBS - 3);
    for (const id of [10, 11, 12]) assert.ok(!ids.includes(id));
  });

  it("match a filter, also by bodies and ages", () => {
    const engine = newEngine();
    for (const [id, text] of [
      [1, "x".repeat(200_000)],
      [2, "a needle"],
      [3, `${"y".repeat(150_000)}needle`],
      [4, ""],
    ] as const) {
      const body = text === "" ? EMPTY_BODY : engine.bodies.allocate(text.length);
      engine.bodies.write(body, 0, Buffer.from(text), 0, text.length);
      const job = {
        id,
        pri: 10 - id,
        delaySeconds: 0,
        delayMillis: 0,
        ttrSeconds: 1,
        bodyBytes: text.length,
      };
      engine.put(engine.session(0), { ...job, atMs: 0 }, body, 0, "mail");
    }
    const asked = { states: ["ready"], limit: 10 } as const;
    assert.deepEqual(idsOf(partsOf(beginNext(engine, asked))), [4, 3, 2, 1]);
    const text = Buffer.from("needle");
    const parts = partsOf(beginNext(engine, { ...asked, where: { text } }));
    assert.deepEqual(idsOf(parts), [3, 2]);
    assert.ok(parts.length > 3, "a large body is searched in slices");
    assert.deepEqual(idsOf(partsOf(beginNext(engine, { ...asked, where: { ageFrom: 1 } }))), []);
    assert.deepEqual(idsOf(partsOf(beginNext(engine, { ...asked, limit: 1, where: { text } }))), [3]);
  });

  it("have their bodies while there is room", () => {
    const parts = partsOf(beginNext(engineWithJobs(), { bodyMax: 4000, bodyBytesMax: 99_000 }));
    const sizes = parts.flatMap(({ jobs }) => jobs.map(({ body }) => body!.length));
    assert.equal(sizes.length, JOBS);
    assert.equal(
      sizes.reduce((sum, size) => sum + size, 0),
      99_000,
    );
    assert.deepEqual(sizes.slice(0, 27), [0, ...Array(24).fill(BODY_BYTES), 3000, 0]);
    for (const { jobs } of parts) {
      const bytes = jobs.reduce((sum, { body }) => sum + body!.length, 0);
      assert.ok(bytes < 64 * 1024 + BODY_BYTES, `${bytes} bytes in a part`);
    }
  });
});

// Tests of the first jobs of a tube, including one whose groups may all be at their limit.

describe("next jobs", () => {
  const JOBS = 9;

  /** Ids of ready jobs of a tube, whose first two jobs are held. */
  function readyIds(group: string, limit: number): number[] {
    const engine = new Engine({
      effects: unheardEffects(),
      ownsDefaultTube: true,
    });
    const session = engine.session(0);
    setTubes(engine, "a", { groupMaxReserved: 2 }, 0);
    for (let id = 1; id <= JOBS; id++) {
      const attributes = new JobAttributes();
      attributes.fixed.text(Attribute.Group, asciiBytes(group), 0, group.length);
      const job = { id, pri: 9 - id, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
      engine.put(session, job, EMPTY_BODY, 0, "a", group === "" ? undefined : attributes);
    }
    for (const id of [1, 2]) engine.reserveJob(session, id, 0);
    return nextJobs(engine, engine.findTube("a")!, "ready", limit).map(
      (slot) => engine.jobs.pageOf(slot).id[rowOf(slot)]!,
    );
  }

  it("ready jobs come best first", () => assert.deepEqual(readyIds("", 4), [9, 8, 7, 6]));

  it("ready jobs of groups come in the order in which they became ready, also at the limit", () => {
    assert.deepEqual(readyIds("x", 4), [3, 4, 5, 6]);
    assert.deepEqual(readyIds("x", 100), [3, 4, 5, 6, 7, 8, 9]);
  });

  it("delayed jobs come in the order in which they become ready, those of one moment by their ids", () => {
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    const session = engine.session(0);
    // Each number is coprime to 23: all ids come, and no two orders of putting are alike.
    for (const step of [1, 5, 22]) {
      const ids = Array.from({ length: 22 }, (_, index) => ((index + 1) * step) % 23);
      const tube = `step-${step}`;
      for (const id of ids) {
        const times = { delaySeconds: 1 + (id % 3), delayMillis: 0, ttrSeconds: 60, atMs: 0 };
        engine.put(session, { id: 100 * step + id, pri: 0, bodyBytes: 0, ...times }, EMPTY_BODY, 0, tube);
      }
      const expected = ids.toSorted((a, b) => (a % 3) - (b % 3) || a - b).map((id) => 100 * step + id);
      const found = nextJobs(engine, engine.findTube(tube)!, "delayed", 100);
      assert.deepEqual(
        found.map((slot) => engine.jobs.pageOf(slot).id[rowOf(slot)]),
        expected,
      );
    }
  });
});
