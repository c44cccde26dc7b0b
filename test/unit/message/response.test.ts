// Tests of the path from a shard to one acceptor: nothing overtakes a message that found no room,
// and the right thread is rung.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RESPONSE_HEADER_BYTES, ReplyPort, ResponseFlag } from "../../../src/message/response.ts";
import { createRing, EMPTY, RingReader } from "../../../src/ring/ring.ts";

const RING_BYTES = 4096;
/** A quarter of the ring, with its header. */
const LARGE_BYTES = RING_BYTES / 4 - RESPONSE_HEADER_BYTES;

class Scene {
  readonly port: ReplyPort;
  readonly #reader: RingReader;

  constructor(isLocal = false) {
    const ring = createRing(RING_BYTES);
    this.port = new ReplyPort(ring, isLocal);
    this.#reader = new RingReader(ring);
  }

  /** A reply whose slot is `number`, and all of whose bytes are. */
  reply(number: number, bytes: number, record = 0): void {
    const flags = record > 0 ? ResponseFlag.Durable : 0;
    this.port.beginReply(flags, number, bytes, record);
    this.port.target.fill(number, this.port.at, this.port.at + bytes);
  }

  /** Takes all messages, whatever they are. */
  skip(): void {
    while (this.#reader.next() !== EMPTY);
    this.#reader.release();
    this.port.drainOverflow();
    this.port.publish(0);
    while (this.#reader.next() !== EMPTY);
    this.#reader.release();
  }

  /** Takes up to `count` messages: their numbers. */
  take(count = Number.POSITIVE_INFINITY): number[] {
    this.port.publish(0);
    const numbers: number[] = [];
    while (numbers.length < count) {
      const offset = this.#reader.next();
      if (offset === EMPTY) break;
      const slot = this.#reader.int32[(offset >> 2) + 2]!;
      const bytes = this.#reader.uint32[(offset >> 2) + 3]!;
      const payload = this.#reader.bytes.subarray(offset + RESPONSE_HEADER_BYTES).subarray(0, bytes);
      assert.ok(
        payload.every((byte) => byte === slot),
        `the bytes of reply ${slot}`,
      );
      numbers.push(slot);
    }
    this.#reader.release();
    return numbers;
  }
}

describe("ReplyPort", () => {
  // 10,000 clients with a large body each would be 640 MB to copy in one turn of their acceptor.
  it("passes at most a millisecond's copying of bodies outside the ring until the acceptor took them", () => {
    const scene = new Scene(true);
    const { port } = scene;
    const part = { handle: 7, offset: 0, length: 64 * 1024, isLast: true, headBytes: 0 };
    let replies = 0;
    for (; !port.storedIsFull; replies++) {
      assert.ok(replies < 1000, "it gets full");
      port.beginStored(0, 1, 0, part);
    }
    assert.equal(replies, 64);
    assert.equal(port.open, false, "no further command is taken either");
    scene.port.publish(0);
    assert.equal(port.storedIsFull, true);
    scene.skip();
    assert.equal(port.storedIsFull, false);
    assert.equal(port.open, true);
  });

  it("keeps replies without room, and all behind them, in order", () => {
    const scene = new Scene();
    const { port } = scene;
    for (const number of [1, 2, 3, 4]) scene.reply(number, LARGE_BYTES);
    assert.equal(port.blocked, false);
    assert.equal(port.open, false, "a whole reply would find no room");
    scene.reply(5, LARGE_BYTES);
    assert.equal(port.blocked, true);
    assert.deepEqual(scene.take(2), [1, 2]);
    // There is room again, but 5 is first.
    scene.reply(6, 8);
    assert.equal(port.open, false);
    assert.deepEqual(scene.take(), [3, 4]);
    assert.deepEqual(scene.take(), [], "it is moved when the shard says so");
    port.drainOverflow();
    assert.equal(port.blocked, false);
    scene.reply(7, 8);
    assert.deepEqual(scene.take(), [5, 6, 7]);
    assert.equal(port.open, true);
  });

  it("moves as much as fits, and the rest later", () => {
    const scene = new Scene();
    const numbers = Array.from({ length: 10 }, (_, index) => index + 1);
    for (const number of numbers) scene.reply(number, LARGE_BYTES);
    const taken: number[] = [];
    for (let turn = 0; turn < 10; turn++) {
      taken.push(...scene.take(1));
      scene.port.drainOverflow();
    }
    assert.deepEqual(taken, numbers);
    assert.equal(scene.port.blocked, false);
  });

  it("rings at once, except for replies that all wait for later records", () => {
    const scene = new Scene();
    const { port } = scene;
    assert.equal(port.publish(0), false, "there is nothing");
    scene.reply(1, 8);
    assert.equal(port.publish(0), true);
    assert.equal(port.publish(0), false, "once");
    scene.reply(2, 8, 5);
    assert.equal(port.publish(4), false, "the log rings when it has written record 5");
    scene.reply(3, 8, 6);
    scene.reply(4, 8, 5);
    assert.equal(port.publish(5), true, "record 5 was shown before, and may be written by now");
    scene.reply(5, 8, 6);
    scene.reply(6, 8);
    assert.equal(port.publish(5), true, "one waits for nothing");
    scene.reply(7, 8, 2 ** 32 - 1);
    assert.equal(port.publish(2 ** 32 - 2), false, "numbers wrap");
    scene.reply(8, 8, 1);
    assert.equal(port.publish(2 ** 32 - 1), false, "numbers wrap");
  });

  it("rings for overflowed replies, whatever they wait for", () => {
    const scene = new Scene();
    for (const number of [1, 2, 3, 4, 5]) scene.reply(number, LARGE_BYTES, number);
    assert.equal(scene.port.publish(0), false);
    assert.deepEqual(scene.take(), [1, 2, 3, 4]);
    scene.port.drainOverflow();
    scene.reply(6, 8, 9);
    assert.equal(scene.port.publish(8), true, "its record may have been written long ago");
  });
});
