// Tests of the submission ring while the kernel takes nothing, of a full completion ring, and of
// messages between rings.

import assert from "node:assert/strict";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { type Address, addressBehind, enter, halves } from "../../../src/uring/kernel.ts";
import { MessageSlots } from "../../../src/uring/uring.ts";
import { ringsOrSkip } from "../../support/machine/rings-or-skip.ts";

const EAGAIN = 11;
const EBUSY = 16;
/** More than the ring has room for, twice over. */
const SUBMISSIONS = 2500;
/** More than the completion ring has room for, twice over. */
const COMPLETIONS = 10_000;

for (const errno of [EAGAIN, EBUSY]) {
  test(`submissions that the kernel refuses (errno ${errno}) are repeated in order`, (t) => {
    let refuses = true;
    const call: typeof enter = (...args) => (refuses ? -errno : enter(...args));
    const rings = ringsOrSkip(t, call);
    if (rings === undefined) return;
    const [ring] = rings;
    const descriptor = openSync("/dev/null", "r");
    const wanted = Array.from({ length: SUBMISSIONS }, (_, each) => each);
    for (const each of wanted) ring.pollIn(descriptor, each, 7);
    ring.submit();
    assert.equal(
      ring.reap(() => assert.fail("nothing was submitted")),
      0,
    );
    refuses = false;
    const completed: number[] = [];
    const take = (low: number, high: number): void => {
      assert.equal(high, 7);
      completed.push(low);
    };
    // The last turn would sleep, were there nothing: the longest sleep makes that visible.
    for (let turn = 0; completed.length < SUBMISSIONS && turn < 10; turn++) {
      ring.submitAndWait(1000);
      ring.reap(take);
    }
    assert.deepEqual(completed, wanted);
    ring.pollIn(descriptor, SUBMISSIONS, 7);
    ring.submit();
    ring.reap(take);
    assert.equal(completed.length, SUBMISSIONS + 1, "the ring goes on as before");
    closeSync(descriptor);
  });
}

test("a send that reports only failures counts as sent once that is certain, also after an overflow of completions", (t) => {
  const rings = ringsOrSkip(t);
  if (rings === undefined) return;
  const [ring] = rings;
  // No socket: it fails at once.
  const descriptor = openSync("/dev/null", "r");
  // Each completes at once, since there is nothing to cancel.
  for (let each = 0; each < COMPLETIONS; each++) ring.cancel(each, 7, each, 8);
  ring.submit();
  const place = ring.sendNow(descriptor, 0, 0, 1, 5, 9);
  ring.submit();
  let sees = false;
  const lookForFailure = (low: number): void => {
    sees ||= low === 5;
  };
  assert.ok(ring.look(9, lookForFailure) < place);
  assert.equal(sees, false, "the others fill the ring");
  for (let turn = 0; !sees && turn < 10; turn++) {
    ring.reap(() => {});
    ring.submit();
    const settledPlace = ring.look(9, lookForFailure);
    assert.equal(settledPlace >= place, sees);
  }
  assert.ok(sees);
  closeSync(descriptor);
});

test("nothing is sent at once past submissions that wait, also when the ring itself has room", (t) => {
  let refuses = true;
  const call: typeof enter = (...args) => (refuses ? -EAGAIN : enter(...args));
  const rings = ringsOrSkip(t, call);
  if (rings === undefined) return;
  const [ring] = rings;
  const descriptor = openSync("/dev/null", "r");
  for (let each = 0; each < SUBMISSIONS; each++) ring.pollIn(descriptor, each, 7);
  assert.equal(ring.sendNow(descriptor, 0, 0, 1, 5, 9), -1, "the ring is full");
  refuses = false;
  // Submits what is in the ring, and doesn't admit the others to it.
  assert.equal(ring.tell(ring.descriptor, 0, 8), false);
  assert.equal(ring.sendNow(descriptor, 0, 0, 1, 5, 9), -1, "others wait");
  for (let turn = 0; turn < 10; turn++) {
    ring.submit();
    ring.reap((_low, high) => assert.notEqual(high, 9));
  }
  assert.ok(ring.sendNow(descriptor, 0, 0, 1, 5, 9) > 0, "nothing waits any more");
  closeSync(descriptor);
});

test("a ring wakes another; a failed message comes back", (t) => {
  const rings = ringsOrSkip(t);
  if (rings === undefined) return;
  const [one, other] = rings;
  const seen: number[][] = [];
  const take = (low: number, high: number, result: number): void =>
    void seen.push([low, high, Math.sign(result)]);
  assert.ok(one.tell(other.descriptor, 48, 5));
  other.submitAndWait(60_000);
  assert.equal(other.reap(take), 1);
  assert.deepEqual(seen, [[48, 5, 0]]);
  one.submit();
  assert.equal(one.reap(take), 0, "the sender gets no completion");
  const descriptor = openSync("/dev/null", "r");
  one.tell(descriptor, 64, 5);
  one.submit();
  assert.equal(one.reap(take), 1);
  assert.deepEqual(seen[1], [64, 5, -1]);
  closeSync(descriptor);
});

test("a ring that can't wake another at once knows that, and wakes it later", (t) => {
  let refuses = true;
  const call: typeof enter = (...args) => (refuses ? -EAGAIN : enter(...args));
  const rings = ringsOrSkip(t, call);
  if (rings === undefined) return;
  const [one, other] = rings;
  assert.equal(one.tell(other.descriptor, 48, 5), false);
  refuses = false;
  one.submit();
  other.submitAndWait(60_000);
  const seen: number[][] = [];
  assert.equal(
    other.reap((low, high) => void seen.push([low, high])),
    1,
  );
  assert.deepEqual(seen, [[48, 5]]);
});

// Tests that there are receive buffers for as many sockets as have bytes at once.

/** Three times what is offered at the start. */
const SOCKETS = 192;

/** The descriptor of a socket that Node doesn't read from. */
const descriptorOf = (socket: Socket): number =>
  (socket as Socket & { readonly _handle: { readonly fd: number } })._handle.fd;

test("each of many sockets gets its bytes, though the kernel runs out of buffers on the way", async (t) => {
  const rings = ringsOrSkip(t);
  if (rings === undefined) return;
  const [ring] = rings;
  const accepted: Socket[] = [];
  const server = createServer({ pauseOnConnect: true }, (socket) => accepted.push(socket)).listen(
    0,
    "127.0.0.1",
  );
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const clients = Array.from({ length: SOCKETS }, () => connect(port, "127.0.0.1"));
  while (accepted.length < SOCKETS) await once(server, "connection");
  const received: string[] = [];
  /** Waits until each socket has bytes: only then do all receives take a buffer at once. */
  const allReadable = async (): Promise<void> => {
    for (const [index, socket] of accepted.entries()) ring.pollIn(descriptorOf(socket), index, 0);
    for (let left = accepted.length; left > 0; left -= ring.reap(() => {})) {
      ring.submit();
      await setImmediate();
    }
  };
  /** Receives from all; returns how often the kernel had no buffer. */
  const receiveAll = async (): Promise<number> => {
    for (const client of clients) client.write("hello");
    await allReadable();
    let refusals = 0;
    let again: number[] = accepted.keys().toArray();
    while (again.length > 0) {
      for (const index of again) ring.receive(descriptorOf(accepted[index]!), true, false, index, 0);
      const open = new Set(again);
      again = [];
      while (open.size > 0) {
        ring.submitAndWait(1000);
        ring.reap((index, _high, result, _flags, bytes) => {
          open.delete(index);
          if (bytes === undefined) {
            refusals++;
            again.push(index);
          } else received.push(Buffer.from(bytes.subarray(0, result)).toString());
        });
      }
    }
    return refusals;
  };
  const refusals = [await receiveAll(), await receiveAll(), await receiveAll()];
  for (const socket of [...clients, ...accepted]) socket.destroy();
  server.close();
  assert.deepEqual(refusals, [128, 64, 0]);
  assert.deepEqual(received, new Array(3 * SOCKETS).fill("hello"));
});

// Tests of messages in several parts.

const addressOf = ({ low, high }: Address): bigint =>
  (BigInt.asUintN(32, BigInt(high)) << 32n) | BigInt.asUintN(32, BigInt(low));

test("a message locates any byte, and the rest of its part", () => {
  const slots = new MessageSlots(2);
  const parts = [
    { address: 0x7f01_ffff_fff0n, length: 100 },
    { address: 0x1000n, length: 1 },
    { address: 0x7f01_0000_0010n, length: 32 },
    { address: 0xffff_fff0n, length: 1 << 20 },
  ];
  const [first, second] = [slots.take(), slots.take()];
  assert.ok(slots.areTaken && first !== second);
  for (const slot of [first, second]) {
    for (const { address, length } of parts) slots.add(slot, halves(address - 0x20n), 0x20, length);
    let before = 0;
    for (const { address, length } of parts) {
      for (const at of [0, Math.floor(length / 2), length - 1]) {
        const part = slots.partAt(slot, before + at);
        assert.equal(addressOf(part), address + BigInt(at));
        assert.equal(part.length, length - at);
      }
      before += length;
    }
  }
  slots.give(first);
  assert.equal(slots.take(), first);
  slots.add(first, halves(5n), 0, 5);
  assert.equal(addressOf(slots.partAt(first, 4)), 9n, "a message that is taken again has no parts");
});

test("a message has room for eleven parts", () => {
  const slots = new MessageSlots(1);
  const slot = slots.take();
  for (let part = 0; part < 11; part++) {
    assert.ok(slots.hasRoom(slot, 11 - part) && !slots.hasRoom(slot, 12 - part));
    slots.add(slot, halves(1n), 0, 1);
  }
  assert.ok(!slots.hasRoom(slot, 1));
});

test("an address behind another carries into its high word", () => {
  for (const address of [0n, 0x1000n, 0x7f01_ffff_fff0n, 0x7f01_7fff_ffffn, 0x7ffe_8000_0000n])
    for (const offset of [0, 1, 15, 16, 1 << 20, 2 ** 31])
      assert.equal(addressOf(addressBehind(halves(address), offset)), address + BigInt(offset));
});
