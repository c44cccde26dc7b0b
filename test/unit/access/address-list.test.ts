// Tests of allow-lists: which addresses they admit.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AddressList } from "../../../src/access/client-address.ts";

describe("AddressList", () => {
  const list = new AddressList(["10.0.0.0/8", "192.0.2.7", "fd00::/8", "::1"]);
  for (const address of ["10.1.2.3", "192.0.2.7", "fd12::1", "::1", "::ffff:10.1.2.3"])
    it(`includes ${address}`, () => assert.ok(list.includes(address)));
  for (const address of ["11.0.0.1", "192.0.2.8", "fe80::1", "::2", "::ffff:11.0.0.1", "", "mail"])
    it(`does not include "${address}"`, () => assert.ok(!list.includes(address)));
  for (const text of ["", "10.0.0.0/33", "10.1", "fd00::/129", "localhost", "1", "10.0.0.0/-1"])
    it(`refuses "${text}" as an entry`, () =>
      assert.throws(() => new AddressList([text]), /is not an address/));
  it("is empty without entries", () => assert.ok(!new AddressList([]).includes("127.0.0.1")));
});
