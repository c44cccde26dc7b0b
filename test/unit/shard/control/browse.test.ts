// Jobs in the order in which they would be handed out, told of in slices while others change them.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EMPTY_BODY } from "../../../../src/engine/body-arena.ts";
import { Engine } from "../../../../src/engine/engine.ts";
import type { BrowsePart, BrowseQuestion } from "../../../../src/message/control.ts";
import { beginBrowse } from "../../../../src/shard/control/browse.ts";
import type { ControlAnswerer, ControlWork } from "../../../../src/shard/control/control-work.ts";
import { unheardEffects } from "../../../support/effects.ts";

const JOBS = 250;
const BODY_BYTES = 4000;
const SLICE_JOBS_MAX = 60;

/** An engine with delayed jobs 1, 2, 3 …, the last of which would be the first. */
function engineWithJobs(): Engine {
  const engine = new Engine({
    effects: unheardEffects(),
    ownsDefaultTube: true,
  });
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
    looksMax: 1000,
    ...question,
  });
}

/** Takes parts until the last; `between` happens after each. */
function partsOf(work: ControlWork, between: (part: number) => void = () => {}): BrowsePart[] {
  const parts: BrowsePart[] = [];
  const answerer: ControlAnswerer = {
    partBytesMax: 1 << 17,
    value: (value, isLast) => {
      parts.push(value as BrowsePart);
      assert.equal(isLast, (value as BrowsePart).hasEnded);
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

describe("jobs in the order of handing out", () => {
  it("come in slices, all of them, even where somebody would have it end", () => {
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

  it("are not told of in another state, or another tube, or when they are gone meanwhile", () => {
    const engine = engineWithJobs();
    const parts = partsOf(beginNext(engine), (part) => {
      if (part !== 1) return;
      engine.kickJob(10, 0);
      engine.discard(engine.find(11), 0);
      engine.move(engine.find(12), "other", false, 0);
    });
    const ids = idsOf(parts);
    assert.equal(ids.length, JOBS - 3);
    for (const id of [10, 11, 12]) assert.ok(!ids.includes(id));
  });

  it("have their bodies until there is no more room for them", () => {
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
