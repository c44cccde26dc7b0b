import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  createRing,
  DATA_OFFSET,
  EMPTY,
  FULL,
  HEAD_WORD,
  messageBytesMax,
  RING_BYTES_MIN,
  RingReader,
  RingWriter,
  TAIL_WORD,
} from "../../../src/ring/ring.ts";
import { checkProperty } from "../../support/seeded-property.ts";

/** A ring of the smallest size whose positions start at `start`, a multiple of 8. */
function ringAt(start: number): { writer: RingWriter; reader: RingReader } {
  const ring = createRing(RING_BYTES_MIN);
  const words = new Int32Array(ring, 0, DATA_OFFSET / 4);
  words[TAIL_WORD] = start | 0;
  words[HEAD_WORD] = start | 0;
  return { writer: new RingWriter(ring), reader: new RingReader(ring) };
}

/** A byte of a message, which no other place of another message has as well. */
const byteAt = (number: number, at: number): number => (number * 31 + at * 7 + (at >> 8)) & 0xff;

/** Writes a message in which every byte differs; returns false if the ring is full. */
function write(writer: RingWriter, length: number, number: number): boolean {
  const offset = writer.claim(length);
  if (offset === FULL) return false;
  assert.equal(offset % 8, 0);
  assert.equal(writer.int32[offset >> 2], (length + 7) & ~7);
  for (let at = 4; at < length; at++) writer.bytes[offset + at] = byteAt(number, at);
  return true;
}

function readOne(reader: RingReader): { length: number; bytes: Uint8Array } | undefined {
  const offset = reader.next();
  if (offset === EMPTY) return undefined;
  const length = reader.int32[offset >> 2]!;
  return { length, bytes: reader.bytes.slice(offset, offset + length) };
}

/** Returns whether a message that was read is the one of that number, whole. */
function assertIs(message: ReturnType<typeof readOne>, number: number, length: number): void {
  assert.ok(message !== undefined, `message ${number} exists`);
  assert.equal(message.length, Math.ceil(length / 8) * 8, `length of message ${number}`);
  for (let at = 4; at < length; at++)
    if (message.bytes[at] !== byteAt(number, at)) assert.fail(`byte ${at} of message ${number}`);
}

/**
 * A ring as a list of messages, each with the bytes that it keeps from others: by exact positions
 * that never wrap.
 */
class ModelRing {
  readonly #capacity: number;
  /** Positions behind the last byte that was claimed, and behind the last that was released. */
  #end: number;
  #released: number;
  readonly #ends: number[] = [];

  constructor(start: number, capacity: number) {
    this.#end = this.#released = start;
    this.#capacity = capacity;
  }

  get usedBytes(): number {
    return this.#end - this.#released;
  }

  /**
   * Claims a message if there is room between its place, which does not go around the end, and what
   * is not released.
   */
  claim(length: number): boolean {
    const bytes = Math.ceil(length / 8) * 8;
    const leftInLap = this.#capacity - (this.#end % this.#capacity);
    const end = this.#end + (bytes > leftInLap ? leftInLap : 0) + bytes;
    if (end - this.#released > this.#capacity) return false;
    this.#end = end;
    this.#ends.push(end);
    return true;
  }

  /** The first so many messages are not needed any more. */
  release(messages: number): void {
    if (messages > 0) this.#released = this.#ends[messages - 1]!;
  }
}

const STARTS = [
  0,
  4088,
  2 ** 31 - 4096,
  2 ** 31 - 8,
  2 ** 32 - 4096,
  2 ** 32 - 8,
  2 ** 32,
  5 * 2 ** 32 + 2 ** 31 + 1000,
];
const MAX = messageBytesMax(RING_BYTES_MIN);

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      write: fc.oneof(fc.integer({ min: 5, max: 60 }), fc.integer({ min: 5, max: MAX })),
    }),
  },
  { weight: 2, arbitrary: fc.constant({ publish: true }) },
  { weight: 3, arbitrary: fc.record({ read: fc.integer({ min: 1, max: 5 }) }) },
  { weight: 2, arbitrary: fc.constant({ release: true }) },
);

/** A writer and a reader of one ring, and what must come of each step. */
class CheckedPass {
  readonly writer: RingWriter;
  readonly reader: RingReader;
  readonly #written: { length: number; number: number }[] = [];
  readonly #model: ModelRing;
  published = 0;
  read = 0;

  constructor(start: number) {
    ({ writer: this.writer, reader: this.reader } = ringAt(start));
    this.#model = new ModelRing(start, RING_BYTES_MIN);
  }

  write(length: number): void {
    const number = this.#written.length;
    const asked = this.writer.hasRoom(length);
    const room = this.#model.claim(length);
    assert.equal(asked, room, `room for ${length} bytes`);
    assert.equal(write(this.writer, length, number), room, `a claim of ${length} bytes`);
    if (room) this.#written.push({ length, number });
    assert.equal(this.writer.used, this.#model.usedBytes, "bytes that are not released");
  }

  publish(): void {
    assert.equal(this.writer.publish(), this.published < this.#written.length);
    this.published = this.#written.length;
  }

  take(): void {
    const message = readOne(this.reader);
    if (this.read === this.published) {
      assert.equal(message, undefined);
      return;
    }
    const { number, length } = this.#written[this.read++]!;
    assertIs(message, number, length);
  }

  release(): void {
    assert.equal(this.reader.release(), false);
    this.#model.release(this.read);
    assert.equal(this.writer.used, this.#model.usedBytes, "bytes that are not released");
  }

  end(): void {
    this.publish();
    while (this.read < this.published) this.take();
    assert.equal(this.reader.next(), EMPTY);
  }
}

describe("RingWriter and RingReader", () => {
  it("pass every message once, whole and in order, wherever the positions wrap", (t) => {
    checkProperty(
      t,
      fc.property(fc.constantFrom(...STARTS), fc.array(step, { maxLength: 400 }), (start, steps) => {
        const pass = new CheckedPass(start);
        for (const each of steps) {
          if ("write" in each) pass.write(each.write);
          else if ("publish" in each) pass.publish();
          else if ("read" in each) for (let i = 0; i < each.read; i++) pass.take();
          else pass.release();
          assert.equal(pass.reader.hasMessage, pass.read < pass.published);
        }
        pass.end();
      }),
      150,
    );
  });

  for (const start of STARTS) {
    it(`keep several laps of the largest messages in order from position ${start}`, () => {
      const { writer, reader } = ringAt(start);
      let read = 0;
      for (let number = 0; number < 50; ) {
        while (write(writer, MAX - (number % 3) * 8, number))
          assert.ok(++number - read <= RING_BYTES_MIN / (MAX - 16), "no more than the ring holds");
        writer.publish();
        for (let got = readOne(reader); got !== undefined; got = readOne(reader))
          assertIs(got, read, MAX - (read++ % 3) * 8);
        reader.release();
      }
      assert.ok(read >= 50);
    });
  }

  it("have room for exactly the capacity, then return FULL without a change", () => {
    const { writer, reader } = ringAt(0);
    for (let i = 0; i < 4; i++) assert.equal(write(writer, MAX, i), true);
    assert.equal(writer.hasRoom(8), false);
    assert.equal(writer.claim(8), FULL);
    assert.equal(writer.used, RING_BYTES_MIN);
    writer.publish();
    assertIs(readOne(reader), 0, MAX);
    assert.equal(writer.claim(8), FULL, "bytes that are read but not released still belong to the reader");
    reader.release();
    assert.equal(write(writer, MAX, 4), true);
    assert.equal(writer.claim(8), FULL);
  });

  it("show nothing before publish", () => {
    const { writer, reader } = ringAt(0);
    assert.equal(writer.publish(), false);
    write(writer, 20, 1);
    assert.equal(reader.next(), EMPTY);
    assert.equal(reader.hasMessage, false);
    assert.equal(writer.publish(), true);
    assert.equal(reader.hasMessage, true);
    assertIs(readOne(reader), 1, 20);
  });

  it("skip the padding at the end, also if it is the rest of a lap", () => {
    const { writer, reader } = ringAt(RING_BYTES_MIN - 16);
    assert.equal(write(writer, 24, 7), true);
    writer.publish();
    assertIs(readOne(reader), 7, 24);
    reader.release();
    assert.equal(writer.used, 0);
  });

  it("refuse a message above a quarter of the ring", () => {
    assert.throws(() => ringAt(0).writer.claim(MAX + 1), /a message fits in a quarter of its ring/);
  });

  it("say what is unpublished, and how full the ring is of messages that were not taken", () => {
    for (const start of STARTS) {
      const { writer, reader } = ringAt(start);
      assert.deepEqual([writer.hasUnpublished, reader.fill], [false, 0]);
      write(writer, 1024, 1);
      write(writer, 1000, 2);
      assert.deepEqual([writer.hasUnpublished, reader.fill], [true, 0]);
      writer.publish();
      assert.equal(writer.hasUnpublished, false);
      assert.equal(reader.fill, writer.used / RING_BYTES_MIN);
      assert.ok(reader.fill >= 2024 / RING_BYTES_MIN);
      reader.next();
      reader.next();
      assert.equal(reader.fill, 0, "released or not");
    }
  });

  it("tell the reader once that the writer wants room", () => {
    const { writer, reader } = ringAt(0);
    write(writer, 8, 1);
    writer.publish();
    writer.wantRoom();
    assert.equal(reader.release(), false, "nothing was taken");
    reader.next();
    assert.equal(reader.release(), true);
    write(writer, 8, 2);
    writer.publish();
    reader.next();
    assert.equal(reader.release(), false);
  });

  it("continue where an earlier reader and writer of the same ring stopped", () => {
    const ring = createRing(RING_BYTES_MIN);
    const writer = new RingWriter(ring);
    write(writer, 16, 1);
    write(writer, 16, 2);
    writer.publish();
    const reader = new RingReader(ring);
    readOne(reader);
    reader.release();
    const nextWriter = new RingWriter(ring);
    write(nextWriter, 16, 3);
    nextWriter.publish();
    assertIs(readOne(reader), 2, 16);
    assertIs(readOne(reader), 3, 16);
  });
});

describe("createRing", () => {
  it("accepts powers of two from the smallest legal size on", () => {
    assert.equal(createRing(RING_BYTES_MIN).byteLength, DATA_OFFSET + RING_BYTES_MIN);
    for (const capacity of [0, 2048, 5000, RING_BYTES_MIN + 8])
      assert.throws(() => createRing(capacity), RangeError);
  });
});
