import assert from "node:assert/strict";
import { it } from "node:test";
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

it("Doorbell wakes nobody who is awake", () => {
  assert.equal(bells().bell.ring(), false);
});

it("Doorbell wakes once who has announced sleep", () => {
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

it("DoorbellOwner wakes by itself when its time is over, and is awake then", () => {
  const { owner, bell } = bells();
  owner.prepare();
  owner.sleep(1);
  assert.equal(bell.ring(), false);
});

it("DoorbellOwner takes an announcement back", () => {
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

it("Doorbell wakes who sleeps in a ring of the kernel there, once, where its own thread can", (t) => {
  const { words, owner, bell, other } = bells();
  const woken: number[][] = [];
  owner.sleepsInRing(33);
  owner.prepare();
  assert.notEqual(owner.sleepAsync(), undefined);
  t.after(() => Doorbell.notify(words, DOORBELL_WORDS));
  Doorbell.wakeInRing = (...place) => void woken.push(place);
  t.after(() => {
    Doorbell.wakeInRing = undefined;
  });
  assert.equal(bell.ring(), true);
  assert.equal(bell.ring(), false);
  assert.deepEqual(woken, [[33, DOORBELL_WORDS]]);
  assert.equal(owner.isRung, true);
  // Who has no such ring is woken as ever.
  new DoorbellOwner(words, 0).prepare();
  assert.equal(other.ring(), true);
  assert.equal(woken.length, 1);
});
