// Tests of answers that come to a connection which their client has closed.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { onUnread } from "../../../../src/http/app/unread-answers.ts";

const REQUEST = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

describe("an answer that was written", () => {
  let server: Server;
  /** What the client does just before each answer. */
  let beforeAnswer: (client: Socket) => void = () => {};
  let client: Socket;
  let takenBack: number[];
  let answered = 0;
  const ends: Promise<unknown>[] = [];

  before(async () => {
    server = createServer((request, response) => {
      const number = ++answered;
      const { socket } = request;
      if (number === 1) ends.push(new Promise((ended) => socket.once("close", ended)));
      socket.on("error", () => {});
      response.once("close", () => onUnread(socket, () => takenBack.push(number)));
      beforeAnswer(client);
      response.end("ok");
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
  });
  after(() => server.close());

  /** Connects, plays, and returns the numbers of the answers that were taken back in the end. */
  async function play(run: () => Promise<unknown>): Promise<number[]> {
    takenBack = [];
    answered = 0;
    client = connect((server.address() as AddressInfo).port, "127.0.0.1");
    client.on("error", () => {});
    client.write(REQUEST);
    await run();
    await Promise.all(ends.splice(0));
    return takenBack;
  }
  const read = (): Promise<unknown> => once(client, "data");

  it("is taken back if the client had closed before", async () => {
    beforeAnswer = () => client.destroy();
    assert.deepEqual(await play(() => once(client, "close")), [1]);
  });

  it("is taken back on a connection that has had others, and only the last one", async () => {
    beforeAnswer = () => {
      if (answered === 3) client.destroy();
    };
    const run = async (): Promise<void> => {
      for (const _ of [1, 2]) {
        await read();
        client.write(REQUEST);
      }
      await once(client, "close");
    };
    assert.deepEqual(await play(run), [3]);
  });

  it("stands if the client reads it and closes", async () => {
    beforeAnswer = () => {};
    assert.deepEqual(await play(() => read().then(() => client.destroy())), []);
  });

  it("stands if the client had ended only its own half, and reads it", async () => {
    beforeAnswer = () => client.end();
    assert.deepEqual(await play(read), []);
  });

  it("stands if the client reads it and resets the connection", async () => {
    beforeAnswer = () => {};
    assert.deepEqual(await play(() => read().then(() => client.resetAndDestroy())), []);
  });

  it("stands if the client sends more before it leaves", async () => {
    beforeAnswer = () => {
      if (answered === 1) client.write("GET / HTTP/1.1\r\n", () => client.destroy());
    };
    assert.deepEqual(await play(() => once(client, "close")), []);
  });
});
