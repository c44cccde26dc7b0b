// Tests of the order and the alarms of a scrub, with a log that exists only as numbers.

import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { Scrub } from "../../../src/binlog/scrub.ts";

const HOUR_MS = 3_600_000;

/** A log of so many sealed segments; `bad` are damaged, and `check` may be replaced. */
function scrubbed(t: TestContext, segments: number, random: number) {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const log = {
    sealed: Array.from({ length: segments }, (_, index) => index + 1),
    bad: new Set<number>(),
    read: [] as number[],
    rewritten: [] as number[],
    told: [] as string[],
    onRead: (_segment: number): void => {},
  };
  const scrub = new Scrub({
    sealed: () => log.sealed,
    check: async (segment) => {
      log.read.push(segment);
      log.onRead(segment);
      if (!log.sealed.includes(segment)) return undefined;
      const damage = {
        segment,
        offset: 64,
        bytes: 100,
        jobs: [segment],
        reason: "its checksum does not match",
      };
      return { bytes: 1000, damage: log.bad.has(segment) ? [damage] : [] };
    },
    rewrite: (segment) => log.rewritten.push(segment),
    tell: (_level, message) => log.told.push(message),
    onReport: () => {},
    wallMs: () => 0,
    random: () => random,
  });
  t.after(() => scrub.stop());
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 1000) {
      t.mock.timers.tick(1000);
      // The read of a segment takes a few turns of promises.
      for (let turn = 0; turn < 8; turn++) await Promise.resolve();
    }
  };
  return { log, scrub, pass };
}

it("a walk begins at a random segment and reads each within a day", async (t) => {
  const { log, scrub, pass } = scrubbed(t, 48, 0.5);
  scrub.start();
  // No more than 15 minutes pass between two segments, however few there are.
  await pass(13 * HOUR_MS);
  assert.equal(log.read[0], 26);
  assert.deepEqual(new Set(log.read.slice(0, 48)).size, 48);
  assert.equal(scrub.report.walks, 1);
});

it("while paused it reads nothing; a walk that is asked for reads all, the oldest first", async (t) => {
  const { log, scrub, pass } = scrubbed(t, 5, 0.5);
  scrub.start();
  scrub.pause();
  await pass(HOUR_MS);
  assert.deepEqual(log.read, []);
  scrub.walk();
  await pass(10_000);
  assert.deepEqual(log.read, [1, 2, 3, 4, 5]);
  assert.deepEqual([scrub.report.left, scrub.report.walks, scrub.report.paused], [0, 1, false]);
});

it("a walk that is asked for while a file is read reads that file again", async (t) => {
  const { log, scrub, pass } = scrubbed(t, 3, 0.5);
  scrub.start();
  log.onRead = () => {
    log.onRead = () => {};
    // The bits flip when this read is over.
    scrub.walk();
    queueMicrotask(() => log.bad.add(3));
  };
  await pass(15 * 60_000);
  assert.deepEqual(log.read, [3, 1, 2, 3, 3]);
  assert.deepEqual([scrub.report.found, log.rewritten], [1, [3]]);
});

it("all damage is reported before anything is rewritten, and counts until its files are gone", async (t) => {
  const { log, scrub, pass } = scrubbed(t, 6, 0.9);
  log.bad = new Set([2, 5]);
  log.onRead = () => assert.deepEqual(log.rewritten, []);
  scrub.start();
  await pass(HOUR_MS);
  log.onRead = () => {};
  assert.deepEqual(log.rewritten, [5]);
  assert.deepEqual([scrub.report.found, scrub.report.damaged], [2, 2]);
  assert.equal(
    log.told.filter((line) => /BINLOG_DAMAGED: runnerbean\.0+[25]\.log at offset 64/.test(line)).length,
    2,
  );
  log.sealed = [6];
  await pass(2000);
  assert.deepEqual([scrub.report.found, scrub.report.damaged], [2, 0]);
  assert.equal(log.told.filter((line) => line.startsWith("BINLOG_REPAIRED")).length, 2);
});

it("no alarm for a segment that is removed, cut or replaced while it is read", async (t) => {
  const { log, scrub, pass } = scrubbed(t, 3, 0.5);
  log.onRead = (segment) => {
    if (segment === 1) log.sealed = [2, 3];
    // The first look meets half of a new content, the second one all of it.
    log.bad = new Set(log.read.filter((each) => each === 2).length === 1 ? [2] : []);
    // A standby cuts its log here, so the segment is written again.
    if (segment === 3) log.bad.add(3);
    if (segment === 3 && log.read.filter((each) => each === 3).length === 2) log.sealed = [2];
  };
  scrub.walk();
  await pass(10_000);
  assert.deepEqual(log.read, [1, 2, 2, 3, 3]);
  assert.deepEqual([scrub.report.found, scrub.report.failure, log.told, log.rewritten], [0, "", [], []]);
});

it("a directory that can't be read is reported once and ends no server", async (t) => {
  const { log, scrub, pass } = scrubbed(t, 3, 0.5);
  log.onRead = () => {
    throw new Error("EMFILE: too many open files");
  };
  scrub.start();
  await pass(2 * HOUR_MS);
  assert.ok(log.read.length > 2);
  assert.deepEqual(log.told, ["BINLOG_SCRUB: cannot check the log: EMFILE: too many open files"]);
  log.onRead = () => {};
  // A client that asks for a walk must not take an earlier failure for one of this walk.
  scrub.walk();
  assert.equal(scrub.report.failure, "");
  await pass(HOUR_MS);
  assert.equal(scrub.report.failure, "");
});
