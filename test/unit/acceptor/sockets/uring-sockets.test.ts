// Tests of an io_uring socket's deferred events: bytes that arrived during a pause, and its end.

import assert from "node:assert/strict";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { constants } from "node:os";
import { describe, it, type TestContext, test } from "node:test";
import type { AcceptorCore } from "../../../../src/acceptor/connection/acceptor-core.ts";
import type { Connection } from "../../../../src/acceptor/connection/connection.ts";
import type { ConnectionLog } from "../../../../src/acceptor/sockets/listener.ts";
import { Kind, UringSocket, UringSockets } from "../../../../src/acceptor/sockets/uring-sockets.ts";
import type { HandedOver } from "../../../../src/acceptor/stream/transport.ts";
import { asciiBytes, latin1 } from "../../../../src/base/bytes.ts";
import { BodyArena, type BodyPlace } from "../../../../src/engine/jobs/body-arena.ts";
import { closeDescriptor, KernelError } from "../../../../src/uring/kernel.ts";
import { BUFFER_BYTES, CQE_MORE, CQE_SOCK_NONEMPTY, RECEIVE_BYTES_MAX } from "../../../../src/uring/uring.ts";
import { ringsOrSkip } from "../../../support/machine/rings-or-skip.ts";

const TEXT = "put 0 0 60 1\r\nx\r\n";
const BYTES = asciiBytes(TEXT);
const LATER = asciiBytes("stats\r\n");
/** Far longer than a thread that has something to do takes to see it. */
const SLEEP_MS = 4000;
const BODY_BYTES = 40_000;
const { ECANCELED, ENOBUFS } = constants.errno;

/**
 * A socket that has got BYTES during a pause that is over, and is still to deliver them. `goesOn`
 * if the kernel still receives.
 */
function stage(t: TestContext, goesOn = false, onBytes = () => {}, receive = () => {}) {
  const descriptor = openSync("/dev/null", "r");
  t.after(() => closeSync(descriptor));
  const toDeliver: UringSocket[] = [];
  const sockets = {
    ring: { receive, cancel: () => {} },
    deliverLater: (each: UringSocket) => void toDeliver.push(each),
    finishLater: () => {},
  } as unknown as ConstructorParameters<typeof UringSocket>[0];
  const given: string[] = [];
  const connection = {
    awaitsBody: false,
    onBytes: (bytes: Uint8Array, length: number) => {
      given.push(latin1(bytes, 0, length));
      onBytes();
    },
    onEnd: () => void given.push("end"),
  } as unknown as Connection;
  const handle = { fd: descriptor, close: () => {} };
  const socket = new UringSocket(sockets, 0, handle, {} as AcceptorCore, {} as ConnectionLog);
  socket.open(connection);
  socket.pause();
  socket.onReceived(BYTES.length, BYTES, false, goesOn);
  socket.resume();
  const deliver = (): void => {
    for (const each of toDeliver.splice(0)) each.deliver();
  };
  return { socket, given, deliver };
}

describe("bytes that came during a pause", () => {
  it("move with the connection, and aren't delivered at the old place", (t) => {
    const { socket, given, deliver } = stage(t);
    let handedOver: HandedOver | undefined;
    socket.begin(() => {
      handedOver = socket.complete();
    });
    assert.deepEqual(handedOver?.bytes, BYTES);
    closeDescriptor(handedOver!.descriptor);
    deliver();
    assert.deepEqual(given, []);
  });

  it("are delivered once if the connection stays after all", (t) => {
    const { socket, given, deliver } = stage(t);
    socket.begin(() => socket.cancel());
    deliver();
    assert.deepEqual(given, [TEXT]);
  });

  it("come before those that the same receive brings until they are delivered, and before the end", (t) => {
    const { socket, given, deliver } = stage(t, true);
    socket.onReceived(LATER.length, LATER, true, true);
    socket.onReceived(0, undefined, false, false);
    assert.deepEqual(given, []);
    deliver();
    assert.deepEqual(given, [TEXT + latin1(LATER, 0, LATER.length), "end"]);
    deliver();
    assert.equal(given.length, 2, "each once");
  });

  it("leave the end to the next resume if they pause the connection again", (t) => {
    let onText = (): void => {};
    const { socket, given, deliver } = stage(t, true, () => onText());
    socket.onReceived(0, undefined, false, false);
    onText = () => socket.pause();
    deliver();
    assert.deepEqual(given, [TEXT]);
    socket.resume();
    deliver();
    assert.deepEqual(given, [TEXT, "end"]);
  });

  it("move when the kernel's receive has ended, with what it brought last", (t) => {
    const { socket, given } = stage(t, true);
    let handedOver: HandedOver | undefined;
    let isReady = false;
    socket.begin(() => {
      isReady = true;
      handedOver = socket.complete();
    });
    socket.onReceived(LATER.length, LATER, false, true);
    assert.equal(isReady, false);
    socket.onReceived(-ECANCELED, undefined, false, false);
    assert.equal(
      latin1(handedOver!.bytes!, 0, handedOver!.bytes!.length),
      TEXT + latin1(LATER, 0, LATER.length),
    );
    closeDescriptor(handedOver!.descriptor);
    assert.deepEqual(given, []);
  });

  it("may be nearly two buffers; then the connection stays where it is", (t) => {
    const { socket, given, deliver } = stage(t, true);
    const last = Buffer.alloc(RECEIVE_BYTES_MAX - BYTES.length, "x");
    assert.ok(last.length > BUFFER_BYTES, "more than the kernel brings at once");
    socket.onReceived(last.length - BUFFER_BYTES, last.subarray(BUFFER_BYTES), true, true);
    socket.begin(() => {
      if (socket.complete() === undefined) socket.cancel();
    });
    socket.onReceived(BUFFER_BYTES, last, true, false);
    deliver();
    assert.deepEqual(given, [TEXT + last.toString()]);
  });

  it("are delivered before the kernel gets another receive, though it had no buffer for the last", (t) => {
    let asked = 0;
    const { socket, given, deliver } = stage(t, true, undefined, () => asked++);
    const before = asked;
    socket.onReceived(-ENOBUFS, undefined, false, false);
    assert.equal(asked, before);
    deliver();
    assert.deepEqual(given, [TEXT]);
    assert.equal(asked, before + 1);
  });
});

test("an end that the kernel has told comes after bytes that a new receive has taken meanwhile", async (t) => {
  const rings = ringsOrSkip(t);
  if (rings === undefined) return;
  const [ring] = rings;
  const server = createServer({ pauseOnConnect: true }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const [accepted] = (await once(server, "connection")) as [Socket];
  t.after(() => {
    client.destroy();
    accepted.destroy();
    server.close();
  });
  const { _handle: handle } = accepted as Socket & { readonly _handle: { readonly fd: number } };
  const toDeliver: UringSocket[] = [];
  const sockets = {
    ring,
    deliverLater: (each: UringSocket) => void toDeliver.push(each),
    finishLater: () => {},
  } as unknown as ConstructorParameters<typeof UringSocket>[0];
  let received = 0;
  let receivedAtEnd: number | undefined;
  const connection = {
    awaitsBody: false,
    onBytes: (_bytes: Uint8Array, length: number) => {
      received += length;
    },
    onEnd: () => {
      receivedAtEnd = received;
    },
  } as unknown as Connection;
  const kept = { fd: handle.fd, close: () => {} };
  const socket = new UringSocket(sockets, 0, kept, {} as AcceptorCore, {} as ConnectionLog);
  const sent = 2 * BUFFER_BYTES + 100;
  client.end(Buffer.alloc(sent, "x"));
  await once(client, "finish");
  ring.pollEnd(handle.fd, 0, Kind.Cancel);
  while (ring.reap(() => {}) === 0) ring.submitAndWait(1000);
  socket.open(connection);
  for (let turn = 0; turn < 10 && receivedAtEnd === undefined; turn++) {
    ring.submit();
    ring.reap((_index, kind, result, flags, bytes) => {
      if (kind === Kind.End) socket.onEndSeen(result);
      else if (kind === Kind.Receive)
        socket.onReceived(result, bytes, (flags & CQE_SOCK_NONEMPTY) !== 0, (flags & CQE_MORE) !== 0);
    });
    // As many operations of other sockets as let the ring submit in the middle of a turn.
    for (let each = 0; each < 2048; each++) ring.cancel(1, Kind.Receive, 1, Kind.Cancel);
    for (const each of toDeliver.splice(0)) each.deliver();
  }
  assert.equal(receivedAtEnd, sent);
});

describe("a body that is received in place", () => {
  it("keeps its memory until the kernel is done, even after its connection broke", (t) => {
    const descriptor = openSync("/dev/null", "r");
    t.after(() => closeSync(descriptor));
    const arena = new BodyArena();
    const handle = arena.allocate(BODY_BYTES);
    let asked = 0;
    const sockets = {
      ring: { receiveMessage: () => void asked++ },
      messages: { areTaken: false, take: () => 0, add() {}, addresses: [{ low: 0, high: 0 }], give() {} },
      finishLater: () => {},
    } as unknown as ConstructorParameters<typeof UringSocket>[0];
    const connection = {
      awaitsBody: true,
      findBodyRoom: (place: BodyPlace) => {
        arena.findRoom(handle, 0, BODY_BYTES, place);
        return true;
      },
      bodyEndsAfter: () => false,
    } as unknown as Connection;
    const socket = new UringSocket(
      sockets,
      0,
      { fd: descriptor, close: () => {} },
      { disconnect: () => {} } as unknown as AcceptorCore,
      {} as ConnectionLog,
    );
    socket.open(connection);
    assert.equal(asked, 1, "the kernel has been told where to write");
    socket.end();
    arena.free(handle);
    const { usedBytes } = arena;
    assert.ok(usedBytes >= BODY_BYTES, "what the kernel may still write to is in use");
    const other = arena.allocate(BODY_BYTES);
    assert.notEqual(other, handle, "no other body lies there");
    socket.onBodyReceived(-ECANCELED, false);
    arena.free(other);
    assert.equal(arena.usedBytes, 0, "then it is given back");
  });
});

describe("a thread does not sleep while a socket is to", () => {
  for (const [what, put] of [
    ["deliver what came during a pause", (sockets, socket) => sockets.deliverLater(socket)],
    ["be closed", (sockets, socket) => sockets.finishLater(socket)],
  ] as const satisfies [string, (sockets: UringSockets, socket: UringSocket) => void][]) {
    it(what, (t) => {
      let sockets: UringSockets;
      try {
        sockets = new UringSockets([], () => {});
        // The first turn tells whether the event loop has something to do: here it has not.
        sockets.turn();
      } catch (error) {
        if (!(error instanceof KernelError)) throw error;
        t.skip(error.message);
        return;
      }
      const done: string[] = [];
      const note = (): void => void done.push(what);
      const log = { closed: () => {} } as unknown as ConnectionLog;
      put(sockets, { index: 0, descriptor: -1, log, deliver: note, close: note } as unknown as UringSocket);
      const sinceMs = performance.now();
      sockets.wait(SLEEP_MS);
      sockets.takeCompletions();
      assert.deepEqual(done, [what]);
      const tookMs = performance.now() - sinceMs;
      assert.ok(tookMs < SLEEP_MS / 2, `it slept for ${tookMs} ms`);
    });
  }
});
