import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, addressBehind, halves } from "../../../src/uring/kernel.ts";
import { MessageSlots } from "../../../src/uring/message-slots.ts";

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
