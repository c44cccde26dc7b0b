// What belongs to the choice of a transport. That both serve clients alike is tested by `npm test` running the tests that
// speak with a server once more with the one that is not the default (run.ts).

import assert from "node:assert/strict";
import { release } from "node:os";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { defaultTransport } from "../src/server/options.ts";
import { launch, startServer } from "./support/server-process.ts";
import { WireClient } from "./support/wire-client.ts";

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

test("unasked, where io_uring is not permitted, libuv serves and a line says why", async () => {
  const server = await startServer({
    kind: "ours",
    wrapper: [process.execPath, "--disable-warning=ExperimentalWarning", withoutIoUring],
  });
  const client = await WireClient.connect(server.address);
  await client.put("a body");
  client.close();
  assert.deepEqual(await server.stop(), { code: 0, signal: null });
  assert.match(server.stderr, /with \d+ shards? and \d+ acceptors?, libuv;/);
  const saysWhy = /io_uring can't be had here \(io_uring_setup: EPERM.*libuv serves instead/.test(
    server.stderr,
  );
  // Where it is not tried there is nothing to say.
  assert.equal(saysWhy, defaultTransport(release()) === "auto", server.stderr);
});

test("unasked, io_uring is tried from the kernel on that it was tested on", () => {
  const releases = [
    "5.15.0-1-amd64",
    "6.9.12",
    "6.17.13",
    "6.18.0",
    "6.18-rc1",
    "6.18.44+",
    "6.100.1",
    "7.0.1",
    "?",
  ];
  assert.deepEqual(
    releases.filter((each) => defaultTransport(each) === "auto"),
    ["6.18.0", "6.18-rc1", "6.18.44+", "6.100.1", "7.0.1"],
  );
});

test("another transport than the two is refused with the names of the two", async () => {
  const server = await launch({ kind: "ours", flags: ["--transport", "tcp"] });
  assert.equal((await server.exited).code, 5);
  assert.match(server.stderr, /invalid transport: tcp \(libuv or io_uring\)/);
});
