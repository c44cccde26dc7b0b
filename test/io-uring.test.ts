// What only `--transport io_uring` does. That it serves clients as the other transport does is tested by `npm test`
// running the tests that speak with a server once more with it (run.ts).

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { launch } from "./support/server-process.ts";

/** EX_UNAVAILABLE */
const REFUSED = 69;
const withoutIoUring = fileURLToPath(new URL("./support/without-io-uring.ts", import.meta.url));

test("where io_uring is not permitted the server says so, and what works instead", async () => {
  const server = await launch({
    kind: "ours",
    flags: ["--transport", "io_uring"],
    wrapper: [process.execPath, "--disable-warning=ExperimentalWarning", withoutIoUring],
  });
  assert.deepEqual(await server.exited, { code: REFUSED, signal: null });
  assert.match(server.stderr, /--transport io_uring: io_uring_setup: EPERM, not permitted: .*seccomp/);
  assert.match(server.stderr, /--transport libuv works everywhere/);
});

test("another transport than the two is refused with the names of the two", async () => {
  const server = await launch({ kind: "ours", flags: ["--transport", "tcp"] });
  assert.equal((await server.exited).code, 5);
  assert.match(server.stderr, /invalid transport: tcp \(libuv or io_uring\)/);
});
