// Tests that there are receive buffers for as many sockets as have bytes at once.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { ringsOrSkip } from "../../support/machine/rings-or-skip.ts";

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
        ring.reap((index, _high, result, flags) => {
          open.delete(index);
          const bytes = ring.bufferOf(flags);
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
