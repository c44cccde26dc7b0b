// Tests of input in pieces of every size, while the server reads and while it has paused, and of
// the end after it.

import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { drawnSeed, SeededRandom } from "../support/seeded-random.ts";
import { startWithTransport } from "../support/server/start-with-transport.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { skipVariant } from "../support/whole.ts";

const CLIENTS = 12;
const COMMANDS = 1500;
/**
 * Each of so many asks for the body, in all more than a socket takes whose client does not read.
 */
const PEEK_EACH = 10;
const BODY_BYTES = 60_000;
/** Clients that read nothing for so long, or before they have sent all and ended. */
const LATE = 4;
const UNREAD_MS = 300;
/** Sizes of a piece: far below, at and above the size of one receive. */
const PIECES = [7, 200, 2048, 5000, 40_000];

/** Each second one has both kinds and both transports. */
const KINDS = [
  ["TCP", "io_uring"],
  ["unix", "io_uring"],
  ["unix", "io_uring, once"],
  ["TCP", "io_uring, once"],
] as const;

const PEEKS = 600;
/** Between the input at which the server pauses and the most that the receive then brings. */
const PAUSED_BYTES = 74_000;
const LITTLE = "list-tube-used\r\n".repeat(40);

describe("with io_uring, commands in pieces", { concurrency: 2 }, () => {
  for (const [index, [kind, transport]] of KINDS.entries()) {
    it(`are answered once, in order, before the end: ${kind}, ${transport}`, {
      skip: skipVariant(index, 2),
    }, async (t) => {
      const seed = Number(process.env["SEED"] ?? drawnSeed());
      t.diagnostic(`SEED=${seed}`);
      const path = kind === "unix" ? join(temporaryFolder(t, "receiving"), "socket") : undefined;
      const server = await startWithTransport(t, transport, [], {}, path);
      if (server === undefined) return;
      const other = await WireClient.connect(server.address);
      await other.put("x".repeat(BODY_BYTES));
      const played = Array.from({ length: CLIENTS }, async (_, each) => {
        const client = await WireClient.connect(server.address);
        if (each < LATE) client.socket.pause();
        const random = new SeededRandom(seed + each);
        const sent = sendInPieces(client, commandsOf(each), random);
        if (each < LATE) {
          // The server takes no more of it at some point, and then neither does the socket.
          await Promise.race([sent, sleep(UNREAD_MS)]);
          client.socket.resume();
        }
        await expectReplies(client, each);
        await sent;
        client.close();
      });
      await Promise.all(played);
      assert.equal((await other.ask("list-tube-used")).line, "USING default");
      other.close();
    });
  }
});

it("with io_uring, the server bears a client that doesn't read and sends a little, then a lot", async (t) => {
  const server = await startWithTransport(t, "io_uring", []);
  if (server === undefined) return;
  const other = await WireClient.connect(server.address);
  await other.put("x".repeat(BODY_BYTES));
  const client = await WireClient.connect(server.address);
  client.socket.pause();
  // Far more than its socket and the server take: what it sends then only waits.
  client.send("peek 1\r\n".repeat(PEEKS));
  await sleep(UNREAD_MS);
  // The receive in which the server pauses has room left. It brings a little more, and a buffer.
  for (let sent = PEEKS * 8; sent < PAUSED_BYTES; sent += LITTLE.length) {
    client.send(LITTLE);
    await sleep(1);
  }
  await sleep(UNREAD_MS);
  client.send(LITTLE.repeat(100));
  await sleep(UNREAD_MS);
  assert.equal((await other.ask("list-tube-used")).line, "USING default");
  other.close();
  client.close();
});

/** Long, so that what waits is more than the server takes of a client that does not read. */
const tubeOf = (client: number, command: number): string => `${client}-${command}-`.padEnd(190, "t");

function commandsOf(client: number): Buffer {
  const lines = Array.from({ length: COMMANDS }, (_, command) =>
    command % PEEK_EACH === 0 ? "peek 1\r\n" : `use ${tubeOf(client, command)}\r\n`,
  );
  return Buffer.from(lines.join(""));
}

async function sendInPieces(client: WireClient, bytes: Buffer, random: SeededRandom): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const length = 1 + random.below(PIECES[random.below(PIECES.length)]!);
    const piece = bytes.subarray(at, at + length);
    at += length;
    if (!client.socket.write(piece)) await new Promise((resolve) => client.socket.once("drain", resolve));
    if (random.below(20) === 0) await sleep(1);
  }
  client.halfClose();
}

async function expectReplies(client: WireClient, each: number): Promise<void> {
  for (let command = 0; command < COMMANDS; command++) {
    const { line, body } = await client.readReply();
    if (command % PEEK_EACH === 0) {
      assert.equal(line, `FOUND 1 ${BODY_BYTES}`, `client ${each}, command ${command}`);
      assert.equal(body!.length, BODY_BYTES);
    } else assert.equal(line, `USING ${tubeOf(each, command)}`, `client ${each}, command ${command}`);
  }
  await client.expectEnd();
}
