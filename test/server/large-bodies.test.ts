// Tests of bodies that are received into their place in the arena and sent from it: they stay
// intact, whatever happens to the job or the client.

import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import type { ServerProcess } from "../support/server/server-process.ts";
import { startWithTransport } from "../support/server/start-with-transport.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { skipVariant } from "../support/whole.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
/** Around what is copied, what fits a cell of the arena, and its blocks. */
const SIZES = [16 * KIB - 1, 16 * KIB, 64 * KIB, 64 * KIB + 1, 200_000, MIB - 1, MIB, MIB + 1, 3 * MIB + 77];
/** Clients that break off, each with most of a MiB, and what all of them may leave. */
const BROKEN = 150;
const LEFT_BYTES_MAX = 60 * MIB;
const FLAGS = ["-z", `${4 * MIB}`, "--placement", "together", "--shards", "1", "--acceptors", "1"];

/** Bytes that tell bodies apart, and places in them. */
function bodyOf(bytes: number, salt: number): Buffer {
  const body = Buffer.alloc(bytes);
  for (let at = 0; at < bytes; at++) body[at] = (at * 31 + salt * 7 + (at >> 8)) & 0xff;
  return body;
}

const putOf = (body: Buffer, end = "\r\n"): Buffer =>
  Buffer.concat([Buffer.from(`put 0 0 60 ${body.length}\r\n`), body, Buffer.from(end)]);

async function idOf(reply: Promise<{ line: string }>): Promise<string> {
  const { line } = await reply;
  assert.match(line, /^INSERTED \d+$/);
  return line.slice("INSERTED ".length);
}

async function put(client: WireClient, body: Buffer): Promise<string> {
  client.send(putOf(body));
  return idOf(client.readReply());
}

/** Reads a reply for each of them; returns how many were found, as they are. */
async function readFound(client: WireClient, bodies: readonly Buffer[]): Promise<number> {
  let found = 0;
  for (const [each, body] of bodies.entries()) {
    const reply = await client.readReply();
    if (reply.body === undefined) assert.equal(reply.line, "NOT_FOUND");
    else assert.equal(Buffer.compare(reply.body, body), 0, `${body.length} bytes, body ${each}`);
    if (reply.body !== undefined) found++;
  }
  return found;
}

async function assertBody(client: WireClient, body: Buffer, what: string): Promise<void> {
  const reply = await client.readReply();
  assert.ok(reply.body !== undefined && Buffer.compare(reply.body, body) === 0, `${what}: ${reply.line}`);
}

const TRANSPORTS = ["io_uring", "io_uring, once", "libuv"] as const;
for (const [index, transport] of TRANSPORTS.entries()) {
  const start = (t: TestContext, more: readonly string[] = []): Promise<ServerProcess | undefined> =>
    startWithTransport(t, transport, [...FLAGS, ...more]);

  describe(`large bodies, with ${transport}`, { skip: skipVariant(index, TRANSPORTS.length) }, () => {
    it("arrive unchanged in whatever parts, with commands behind them", async (t) => {
      const server = await start(t);
      if (server === undefined) return;
      const client = await WireClient.connect(server.address);
      const other = await WireClient.connect(server.address);
      for (const [salt, bytes] of SIZES.entries()) {
        const body = bodyOf(bytes, salt);
        const sent = Buffer.concat([putOf(body), Buffer.from("reserve\r\n")]);
        const step = 1 + Math.floor(bytes / 3);
        for (let at = 0; at < sent.length; at += step) {
          client.send(sent.subarray(at, at + step));
          // With every other body the server has begun to take the parts before the next is sent.
          if (salt % 2 === 0) await other.ask("list-tube-used");
        }
        const id = await idOf(client.readReply());
        await assertBody(client, body, `${bytes} bytes`);
        client.send(`peek ${id}\r\npeek ${id}\r\ndelete ${id}\r\n`);
        await assertBody(client, body, `${bytes} bytes, peeked at`);
        await assertBody(client, body, `${bytes} bytes, once more`);
        assert.equal((await client.readReply()).line, "DELETED");
      }
      for (const each of [client, other]) each.close();
    });

    it("reach a slow reader whole, also after their jobs are deleted and replaced", async (t) => {
      const server = await start(t);
      if (server === undefined) return;
      const slow = await WireClient.connect(server.address);
      const other = await WireClient.connect(server.address);
      for (const bytes of [40_000, 64 * KIB, MIB, 3 * MIB + 77]) {
        // More than the sockets take on their way.
        const bodies = Array.from({ length: Math.ceil((20 * MIB) / bytes) }, (_, each) =>
          bodyOf(bytes, each),
        );
        const ids: string[] = [];
        for (const body of bodies) ids.push(await put(other, body));
        slow.socket.pause();
        for (const id of ids) slow.send(`peek ${id}\r\n`);
        // Replies fill the sockets; one of them is on its way when all jobs are deleted.
        for (let each = 0; each < ids.length; each++) await other.ask("list-tube-used");
        for (const id of ids) assert.equal((await other.ask(`delete ${id}`)).line, "DELETED");
        for (let each = 0; each < 10; each++) {
          await other.ask(`delete ${await put(other, Buffer.alloc(bytes, 0xa5))}`);
        }
        slow.socket.resume();
        const found = await readFound(slow, bodies);
        assert.ok(found > 0 && found < bodies.length, `${found} bodies of ${bytes} bytes were on their way`);
      }
      for (const each of [slow, other]) each.close();
    });

    it("without CR LF are refused, and the next commands are read", async (t) => {
      const server = await start(t);
      if (server === undefined) return;
      const client = await WireClient.connect(server.address);
      for (const bytes of SIZES) {
        client.send(Buffer.concat([putOf(bodyOf(bytes, 1), "\rx"), Buffer.from("list-tube-used\r\n")]));
        assert.equal((await client.readReply()).line, "EXPECTED_CRLF", `${bytes} bytes`);
        assert.equal((await client.readReply()).line, "USING default", `${bytes} bytes`);
      }
      assert.match((await client.ask("stats-tube default")).body!.toString(), /^total-jobs: 0$/m);
      client.close();
    });

    it("can't end the server by breaking off between a delayed reply and a body", async (t) => {
      const server = await start(t, ["-b", temporaryFolder(t), "-f", "0"]);
      if (server === undefined) return;
      const other = await WireClient.connect(server.address);
      const id = await put(other, bodyOf(20_000, 1));
      for (let each = 0; each < 40; each++) {
        const client = await WireClient.connect(server.address);
        client.send(`list-tube-used\r\nput 0 0 60 1\r\na\r\npeek ${id}\r\n`);
        client.socket.resetAndDestroy();
        assert.equal((await other.ask("list-tube-used")).line, "USING default");
      }
      other.close();
    });

    it("leave nothing behind after a disconnect in a body or with unread replies", async (t) => {
      const server = await start(t);
      if (server === undefined) return;
      const other = await WireClient.connect(server.address);
      const body = bodyOf(MIB - 100, 3);
      const put = putOf(body);
      const breakOff = async (each: number): Promise<void> => {
        const client = await WireClient.connect(server.address);
        client.send(put);
        await idOf(client.readReply());
        if (each % 3 === 0) client.socket.pause();
        client.send(Buffer.concat([Buffer.from("reserve\r\n"), put.subarray(0, 900_000)]));
        await other.ask("list-tube-used");
        if (each % 2 === 0) client.socket.resetAndDestroy();
        else client.socket.end();
        // It is forgotten, and its job is ready again.
        other.send("reserve\r\n");
        const { line } = await other.readReply();
        assert.equal((await other.ask(`delete ${line.split(" ")[1]}`)).line, "DELETED");
      };
      for (let each = 0; each < 20; each++) await breakOff(each);
      const before = server.residentBytes();
      for (let each = 0; each < BROKEN; each++) await breakOff(each);
      const more = server.residentBytes() - before;
      assert.ok(more < LEFT_BYTES_MAX, `${more} bytes more for ${BROKEN} clients`);
      other.close();
    });
  });
}
