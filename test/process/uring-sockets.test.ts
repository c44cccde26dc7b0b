// Tests of the choice of a transport. `npm test` covers that both serve clients alike: it runs the
// tests that talk to a server once more with the other transport (run.ts).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { release } from "node:os";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { defaultTransport } from "../../src/server/options/thread-settings.ts";
import { launch, startServer } from "../support/server/server-process.ts";
import { startWithTransport } from "../support/server/start-with-transport.ts";
import { WireClient } from "../support/server/wire-client.ts";

/** EX_UNAVAILABLE */
const REFUSED = 69;
/** Acceptors of an idle server, and so many clients that nearly each has one. */
const ACCEPTORS = 8;
const CLIENTS = 60;
/**
 * An acceptor sleeps for half of a second at most: for a moment now and then it is not blocked in
 * any case.
 */
const LOOKS = 15;
const LOOK_MS = 20;
/**
 * More than a socket takes whose client does not read, in replies that are sent at once or not at
 * all.
 */
const SMALL_BYTES = 3900;
const SMALL_REPLIES = 2500;
const withoutIoUring = fileURLToPath(new URL("../support/machine/without-io-uring.ts", import.meta.url));

test("without permission for io_uring the server says so, and names the alternative", async () => {
  const server = await launch({
    kind: "ours",
    flags: ["--transport", "io_uring"],
    wrapper: [process.execPath, "--disable-warning=ExperimentalWarning", withoutIoUring],
  });
  assert.deepEqual(await server.exited, { code: REFUSED, signal: null });
  assert.match(server.stderr, /--transport io_uring: io_uring_setup: EPERM, not permitted: .*seccomp/);
  assert.match(server.stderr, /--transport libuv works everywhere/);
});

test("by default, without permission for io_uring, libuv serves and a line says why", async () => {
  const server = await startServer({
    kind: "ours",
    wrapper: [process.execPath, "--disable-warning=ExperimentalWarning", withoutIoUring],
  });
  const client = await WireClient.connect(server.address);
  await client.put("a body");
  client.close();
  assert.deepEqual(await server.stop(), { code: 0, signal: null });
  assert.match(server.stderr, /with \d+ shards? and \d+ acceptors? [^,]*, libuv;/);
  const saysWhy = /io_uring is not available here \(io_uring_setup: EPERM.*using libuv/.test(server.stderr);
  // Without a try there is nothing to report.
  assert.equal(saysWhy, defaultTransport(release()) === "auto", server.stderr);
});

test("by default, io_uring is tried from the oldest tested kernel on", () => {
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

test("an unknown transport is refused with the names of the known ones", async () => {
  const server = await launch({ kind: "ours", flags: ["--transport", "tcp"] });
  assert.equal((await server.exited).code, 5);
  assert.match(server.stderr, /invalid transport: tcp \(libuv or io_uring\)/);
});

test("small replies to a full socket leave whole and in order when their client reads", async (t) => {
  const server = await startWithTransport(t, "io_uring", []);
  if (server === undefined) return;
  const other = await WireClient.connect(server.address);
  const bodies = [1, 2, 3, 4, 5, 6, 7].map((each) => `${each}`.repeat(SMALL_BYTES + each));
  for (const body of bodies) await other.put(body);
  const slow = await WireClient.connect(server.address);
  slow.socket.pause();
  for (let each = 0; each < SMALL_REPLIES; each++) {
    slow.send(`peek ${1 + (each % bodies.length)}\r\n`);
    // Each reply by itself: not gathered with the next.
    await other.ask("list-tube-used");
  }
  slow.socket.resume();
  for (let each = 0; each < SMALL_REPLIES; each++) {
    const { body } = await slow.readReply();
    assert.equal(body!.toString("latin1"), bodies[each % bodies.length], `reply ${each}`);
  }
});

/**
 * Threads that wait for a disk, by the kernel's count; the least of some looks, since others may
 * really wait for one.
 */
async function leastBlocked(): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < LOOKS; look++) {
    const [, blocked] = /^procs_blocked (\d+)$/m.exec(readFileSync("/proc/stat", "latin1"))!;
    least = Math.min(least, Number(blocked));
    await sleep(LOOK_MS);
  }
  return least;
}

test("idle acceptors don't count as threads that wait for a disk", async (t) => {
  const [major, minor] = release().split(".").map(Number);
  if (major! < 6 || (major === 6 && minor! < 15)) {
    t.skip("a thread can tell the kernel so from Linux 6.15 on");
    return;
  }
  const before = await leastBlocked();
  const flags = ["--acceptors", `${ACCEPTORS}`, "--shards", "1", "--placement", "apart"];
  const server = await startWithTransport(t, "io_uring", flags);
  if (server === undefined) return;
  const clients: WireClient[] = [];
  for (let each = 0; each < CLIENTS; each++) clients.push(await WireClient.connect(server.address));
  // An acceptor sleeps in the ring once it has had something to do.
  for (const client of clients) await client.ask("list-tube-used");
  const more = (await leastBlocked()) - before;
  assert.ok(more < ACCEPTORS / 2, `${more} threads more than before wait for a disk`);
  for (const client of clients) client.close();
});
