// Tests of half-closed clients that do not read: they block no kernel thread, and finally receive
// everything.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import type { ServerProcess } from "../support/server/server-process.ts";
import { startWithTransport } from "../support/server/start-with-transport.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { skipVariant } from "../support/whole.ts";

const CLIENTS = 300;
/** Number of clients that read in the end. */
const READERS = 20;
/**
 * More than a unix socket takes whose client does not read; through TCP each would have megabytes
 * of the kernel's memory.
 */
const ASKED_BYTES = 400_000;
/** Less than that. */
const TAKEN_BYTES = 60_000;
/**
 * A reply that is sent from a stage, from a buffer of the output, and a body from where it lies.
 */
const BODIES = [3000, 12_000, 60_000];
/** io_uring's own, for what it tries last. */
const KERNEL_THREADS_MAX = 2;
const TURNS = 150;

const threadsOf = ({ pid }: ServerProcess): string[] =>
  readdirSync(`/proc/${pid}/task`).map((task) =>
    readFileSync(`/proc/${pid}/task/${task}/comm`, "latin1").trim(),
  );

async function peeks(client: WireClient): Promise<number> {
  const stats = (await client.ask("stats")).body!.toString();
  return Number(/^cmd-peek: (\d+)$/m.exec(stats)![1]);
}

describe("half-closed clients that do not read", () => {
  for (const [index, bytes] of BODIES.entries()) {
    it(`occupy no threads, delay no one, and get all replies: bodies of ${bytes} bytes`, {
      skip: skipVariant(index, 2),
    }, async (t) => {
      const path = join(temporaryFolder(t, "half-closed"), "socket");
      const server = await startWithTransport(t, "io_uring", [], {}, path);
      if (server === undefined) return;
      const other = await WireClient.connect(server.address);
      const body = "x".repeat(bytes);
      await other.put(body);
      const before = threadsOf(server).length;
      const asked = Math.ceil(ASKED_BYTES / bytes);
      const clients: WireClient[] = [];
      for (let each = 0; each < CLIENTS; each++) {
        const client = await WireClient.connect(server.address);
        client.socket.pause();
        client.send("peek 1\r\n".repeat(asked));
        client.halfClose();
        clients.push(client);
      }
      const enough = CLIENTS * Math.floor(TAKEN_BYTES / bytes);
      await eventually("all have what their sockets take", async () => (await peeks(other)) >= enough);
      // The kernel tries a send 128 times, in as many turns at most, before one of its threads
      // would take it.
      let last = -1;
      await eventually("nothing is sent to them any more", async () => {
        const before = last;
        for (let turn = 0; turn < TURNS; turn++)
          assert.equal((await other.ask("list-tube-used")).line, "USING default");
        last = await peeks(other);
        return last === before;
      });
      const threads = threadsOf(server);
      assert.ok(threads.length <= before + KERNEL_THREADS_MAX, `${before} threads before, now: ${threads}`);
      for (const client of clients.splice(0, READERS)) {
        client.socket.resume();
        for (let each = 0; each < asked; each++) {
          const { line, body: got } = await client.readReply();
          assert.equal(line, `FOUND 1 ${bytes}`);
          assert.ok(got!.equals(Buffer.from(body)), "the body is whole");
        }
        await client.expectEnd();
        client.close();
      }
      for (const client of clients) client.close();
    });
  }
});
