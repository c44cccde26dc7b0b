// Tests of the addresses of servers, in every form.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { serverOf } from "../../../src/client/wire.ts";

describe("the address of a server", () => {
  for (const [written, address, port] of [
    ["queue", "queue", 11_300],
    ["queue.example:1", "queue.example", 1],
    ["127.0.0.1:65535", "127.0.0.1", 65_535],
    ["[::1]", "::1", 11_300],
    ["[fe80::1]:7", "fe80::1", 7],
    ["tls:queue:7", "queue", 7],
    ["tls:[::1]:7", "::1", 7],
    ["tls://queue", "queue", 11_300],
    ["tcp://queue:7", "queue", 7],
    ["beanstalk://queue:7", "queue", 7],
    ["unix:/run/queue.sock", "/run/queue.sock", undefined],
  ] as const)
    it(`is read from ${written}`, () =>
      assert.deepEqual(serverOf(written), port === undefined ? { address } : { address, port }));

  for (const written of [
    "",
    ":7",
    "queue:",
    "queue:0",
    "queue:65536",
    "queue:x",
    "::1",
    "a b",
    "http://queue",
  ])
    it(`is not "${written}"`, () => assert.throws(() => serverOf(written), TypeError));
});
