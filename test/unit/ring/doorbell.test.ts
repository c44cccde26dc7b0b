import assert from "node:assert/strict";
import { it } from "node:test";
import { Worker } from "node:worker_threads";
import { DOORBELL_WORDS, Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";

function bells(): { words: Int32Array; owner: DoorbellOwner; bell: Doorbell; other: Doorbell } {
  const words = new Int32Array(new SharedArrayBuffer(2 * DOORBELL_WORDS * 4));
  return {
    words,
    owner: new DoorbellOwner(words, 1),
    bell: new Doorbell(words, 1),
    other: new Doorbell(words, 0),
  };
}

it("Doorbell wakes no thread that is awake", () => {
  assert.equal(bells().bell.ring(), false);
});

it("Doorbell wakes a thread once that announced its sleep", () => {
  const { owner, bell, other } = bells();
  owner.prepare();
  assert.equal(other.ring(), false);
  assert.equal(bell.ring(), true);
  assert.equal(bell.ring(), false);
});

it("DoorbellOwner does not sleep through a ring between announcement and sleep", () => {
  const { owner, bell } = bells();
  owner.prepare();
  bell.ring();
  owner.sleep(Number.POSITIVE_INFINITY);
  assert.equal(bell.ring(), false);
});

it("DoorbellOwner wakes by itself when its time is over", () => {
  const { owner, bell } = bells();
  owner.prepare();
  owner.sleep(1);
  assert.equal(bell.ring(), false);
});

it("DoorbellOwner withdraws an announcement", () => {
  const { owner, bell } = bells();
  owner.prepare();
  owner.cancel();
  assert.equal(bell.ring(), false);
});

it("DoorbellOwner.sleepAsync resolves on the ring, and is not needed after one", {
  timeout: 5000,
}, async () => {
  const { owner, bell } = bells();
  owner.prepare();
  bell.ring();
  assert.equal(owner.sleepAsync(), undefined);
  owner.prepare();
  const rung = owner.sleepAsync();
  assert.ok(rung !== undefined);
  // A pending waitAsync does not keep the process alive by itself.
  const alive = setInterval(() => {}, 1000);
  assert.equal(bell.ring(), true);
  await rung;
  clearInterval(alive);
});

it("DoorbellOwner.sleepAsync of an earlier, cancelled sleep is woken by a ring of the next", {
  timeout: 5000,
}, async () => {
  const { owner, bell } = bells();
  owner.prepare();
  const rung = owner.sleepAsync();
  owner.cancel();
  owner.prepare();
  const alive = setInterval(() => {}, 1000);
  assert.equal(bell.ring(), true);
  await rung;
  clearInterval(alive);
});

it("Doorbell wakes a thread once in its io_uring, if the caller's thread can", (t) => {
  const { words, owner, bell, other } = bells();
  const woken: number[][] = [];
  owner.sleepsInUring(33);
  owner.prepare();
  assert.notEqual(owner.sleepAsync(), undefined);
  t.after(() => Doorbell.notify(words, DOORBELL_WORDS));
  Doorbell.wakeInUring = (...place) => void woken.push(place);
  t.after(() => {
    Doorbell.wakeInUring = undefined;
  });
  assert.equal(bell.ring(), true);
  assert.equal(bell.ring(), false);
  assert.deepEqual(woken, [[33, DOORBELL_WORDS]]);
  assert.equal(owner.isRung, true);
  // A thread without an io_uring is woken as usual.
  new DoorbellOwner(words, 0).prepare();
  assert.equal(other.ring(), true);
  assert.equal(woken.length, 1);
});

it("Doorbell of a thread without an io_uring wakes one that has one as any other", () => {
  const { owner, bell } = bells();
  owner.sleepsInUring(33);
  owner.prepare();
  assert.equal(bell.ring(), true);
  assert.equal(owner.isRung, true);
});

it("Doorbell wakes a thread once, though two ring at the same moment", (t) => {
  const { words, owner, bell } = bells();
  owner.prepare();
  const real = Atomics.exchange;
  const exchange = t.mock.method(Atomics, "exchange", (...args: Parameters<typeof real>) => {
    exchange.mock.restore();
    assert.equal(new Doorbell(words, 1).ring(), true, "the other is first");
    return real(...args);
  });
  assert.equal(bell.ring(), false);
});

it("DoorbellOwner.rest takes its time, and cannot be rung meanwhile", () => {
  const { owner, bell } = bells();
  const before = performance.now();
  owner.rest(5);
  // Two clocks round differently.
  assert.ok(performance.now() - before > 4);
  assert.equal(bell.ring(), false);
});

it("Doorbell wakes a thread with an io_uring that blocks elsewhere: a shard that waits for the log in the middle of a command", {
  timeout: 10_000,
}, async (t) => {
  const { words, owner, bell } = bells();
  owner.sleepsInUring(33);
  const file = JSON.stringify(import.meta.resolve("../../../src/ring/doorbell.ts"));
  // Long enough to be told from a wake; the test's own time is over before.
  const code = `
    const { parentPort, workerData } = require("node:worker_threads");
    import(${file}).then(({ DoorbellOwner }) => {
      const owner = new DoorbellOwner(workerData, 1);
      owner.prepare();
      parentPort.postMessage("sleeps");
      owner.sleep(60_000);
      parentPort.postMessage("woken");
    });`;
  const worker = new Worker(code, { eval: true, workerData: words });
  t.after(() => worker.terminate());
  const said = (): Promise<string> => new Promise((resolve) => worker.once("message", resolve));
  assert.equal(await said(), "sleeps");
  // Announced is not yet blocked: only then is the descriptor gone.
  while (Atomics.load(words, DOORBELL_WORDS + 1) !== 0) await new Promise(setImmediate);
  Doorbell.wakeInUring = () => assert.fail("no thread sleeps in the io_uring");
  t.after(() => {
    Doorbell.wakeInUring = undefined;
  });
  const woken = said();
  assert.equal(bell.ring(), true);
  assert.equal(await woken, "woken");
  assert.equal(Atomics.load(words, DOORBELL_WORDS + 1), 33, "it sleeps in its io_uring again");
});
