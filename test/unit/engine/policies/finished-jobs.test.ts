// The ends of jobs that tubes keep: their order, their bounds, and the memory that they take.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BYTES_OF, Engine } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { NOTHING_SET } from "../../../../src/schema/setting.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";

const FIRST_PLACES = 8;
const TUBES_MAX = 1000;
const RECORDS_MAX = 200_000;

class Scene {
  readonly engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
  readonly finished = this.engine.policies.finished;
  #id = 0;

  keep(pattern: string, keepFinished: number): void {
    this.engine.beginSetting(pattern, { keepFinished }).step(Number.POSITIVE_INFINITY, 0);
  }

  /** Puts a job into a tube and deletes it. */
  end(tube: string, nowMs: number, id = ++this.#id): number {
    const job = { id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 1, bodyBytes: 0, atMs: nowMs };
    this.engine.put(this.engine.session(1), job, EMPTY_BODY, nowMs, tube);
    this.engine.delete(this.engine.session(1), id, nowMs);
    return id;
  }

  ids(tube: string, before = Number.POSITIVE_INFINITY): number[] {
    return Array.from(this.finished.ofTube(tube, before), ([, { id }]) => id);
  }
}

describe("the ends that a tube keeps", () => {
  it("are the last ones, newest first, after the ring has gone around", () => {
    const scene = new Scene();
    scene.keep("*", 11);
    for (let n = 1; n <= 40; n++) {
      scene.end("a", n);
      const all = Array.from({ length: Math.min(n, 11) }, (_, at) => n - at);
      assert.deepEqual(scene.ids("a"), all);
    }
    assert.deepEqual(scene.ids("a", 32), [31, 30]);
    assert.equal(scene.finished.find(29), undefined);
    assert.equal(scene.finished.find(30)?.job.endedAtMs, 30);
  });

  it("take nothing where nothing is set, and give all back", () => {
    const scene = new Scene();
    const before = scene.engine.memoryBytes;
    scene.end("a", 1);
    assert.equal(scene.engine.memoryBytes, before);
    scene.keep("a", 100);
    const set = scene.engine.memoryBytes;
    for (let n = 0; n < 50; n++) scene.end("a", n);
    const places = 64 * BYTES_OF.finished;
    assert.equal(scene.engine.memoryBytes - set, 50 * 48 + places + BYTES_OF.history);
    scene.keep("a", 3);
    assert.equal(
      scene.engine.memoryBytes - set,
      3 * 48 + FIRST_PLACES * BYTES_OF.finished + BYTES_OF.history,
      "a smaller ring",
    );
    scene.keep("a", NOTHING_SET.keepFinished);
    assert.equal(scene.engine.memoryBytes, set);
    assert.equal(scene.engine.bodies.usedBytes, 0);
    assert.deepEqual([scene.finished.size, scene.finished.places, scene.finished.tubes], [0, 0, 0]);
  });

  it("give their room to new ones beyond the memory limit, and begin no new list", () => {
    const scene = new Scene();
    scene.keep("*", 100);
    for (let n = 0; n < 5; n++) scene.end("a", n);
    const limit = { allows: false };
    scene.engine.bodies.limit = limit;
    const before = scene.engine.memoryBytes;
    scene.end("a", 6);
    scene.end("b", 6);
    assert.deepEqual(scene.ids("a"), [6, 5, 4, 3, 2]);
    assert.deepEqual(scene.ids("b"), []);
    assert.equal(scene.engine.memoryBytes, before);
    scene.engine.bodies.limit = { allows: true };
    scene.end("b", 7);
    assert.deepEqual(scene.ids("b"), [8]);
  });

  it("are of a limited number of tubes: the one where nothing ended for longest goes", () => {
    const scene = new Scene();
    scene.keep("*", 2);
    for (let n = 0; n < TUBES_MAX; n++) scene.end(`t${n}`, n);
    scene.end("t0", TUBES_MAX);
    scene.end("more", TUBES_MAX + 1);
    assert.equal(scene.finished.tubes, TUBES_MAX);
    assert.deepEqual([scene.ids("t0").length, scene.ids("t1").length, scene.ids("more").length], [2, 0, 1]);
  });

  it("are a limited number of all tubes", () => {
    const scene = new Scene();
    const EACH = 10_000;
    scene.keep("*", EACH + 1);
    for (let n = 0; n < RECORDS_MAX; n++) scene.end(`t${n % (RECORDS_MAX / EACH)}`, n);
    assert.equal(scene.finished.size, RECORDS_MAX);
    scene.end("t1", RECORDS_MAX);
    assert.deepEqual(
      [scene.ids("t0").length, scene.ids("t1").length],
      [EACH, EACH],
      "it takes its own place",
    );
    scene.end("more", RECORDS_MAX);
    assert.deepEqual([scene.ids("t0").length, scene.ids("more").length], [0, 1]);
    scene.keep("*", 0);
    assert.deepEqual([scene.finished.size, scene.engine.bodies.usedBytes], [0, 0]);
  });

  it("are found by the last end of an id, in any tube", () => {
    const scene = new Scene();
    scene.keep("*", 10);
    scene.end("a", 5, 900);
    scene.end("b", 6, 900);
    assert.deepEqual([scene.finished.find(900)?.tube, scene.ids("a"), scene.ids("b")], ["b", [900], [900]]);
    scene.keep("b", 0);
    assert.equal(scene.finished.find(900)?.tube, "a");
    assert.equal(scene.finished.find(901), undefined);
  });

  it("drop what a smaller setting leaves in steps, and show none of it meanwhile", () => {
    const scene = new Scene();
    scene.keep("a", 500);
    for (let n = 0; n < 400; n++) scene.end("a", n);
    const change = scene.engine.beginSetting("a", { keepFinished: 7 });
    assert.equal(scene.ids("a").length, 7);
    let steps = 1;
    while (!change.step(1, 400)) steps++;
    assert.ok(steps > 1, `${steps} steps`);
    assert.deepEqual([scene.finished.size, scene.ids("a")[0]], [7, 400]);
  });
});
