// Tests of a connection's output: what it holds until it is in the log, and bodies among copied
// bytes.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { Output } from "../../../../src/acceptor/stream/output.ts";
import type { BodyReference, Transport } from "../../../../src/acceptor/stream/transport.ts";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { BodyArena, BodyPlace } from "../../../../src/engine/jobs/body-arena.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

/** A transport that takes everything at once. */
function transport(): Transport & { lengths: number[] } {
  return {
    lengths: [],
    pendingBytes: 0,
    descriptor: -1,
    send(_buffer, length) {
      this.lengths.push(length);
      return true;
    },
    pause() {},
    resume() {},
    end() {},
    destroy() {},
  };
}

it("Output sends a turn's replies with one write, and nothing without replies", () => {
  const sink = transport();
  const output = new Output(sink, { isLogged: () => true });
  output.flush(false);
  assert.deepEqual(sink.lengths, []);
  for (const text of ["INSERTED 1\r\n", "x".repeat(5000), "DELETED\r\n"])
    output.append(asciiBytes(text), 0, text.length);
  output.flush(false);
  assert.deepEqual(sink.lengths, [12 + 5000 + 9]);
});

it("Output counts bytes that the kernel hasn't taken", () => {
  const output = new Output({ ...transport(), pendingBytes: 100 }, { isLogged: () => true });
  output.append(asciiBytes("abc"), 0, 3);
  assert.deepEqual([output.unsentBytes, output.gatheredBytes], [103, 3]);
});

it("Output doesn't hold a reply whose record is in the log", () => {
  const output = new Output(transport(), { isLogged: (shard, number) => shard === 1 && number <= 9 });
  assert.deepEqual([output.hold(1, 9), output.waitsForLog], [false, false]);
  assert.deepEqual([output.hold(1, 10), output.waitsForLog], [true, true]);
});

it("Output waits for the log no more when it is cleared", () => {
  const output = new Output(transport(), { isLogged: () => false });
  output.hold(0, 1);
  output.append(asciiBytes("gone"), 0, 4);
  output.clear();
  assert.ok(!output.waitsForLog);
  output.append(asciiBytes("here"), 1, 3);
  assert.equal(output.flush(false), 3);
});

const reply = fc.record({
  bytes: fc.integer({ min: 1, max: 50 }),
  shard: fc.nat(2),
  /** Whether it waits for a record, and whether the log takes a step before it. */
  waits: fc.boolean(),
  logged: fc.nat(3),
});

it("Output releases a reply once its record is in the log, and all replies once all are", (t) => {
  checkProperty(
    t,
    fc.property(fc.array(reply, { maxLength: 60 }), (replies) => {
      const made = [0, 0, 0];
      const logged = [0, 0, 0];
      const sink = transport();
      const output = new Output(sink, { isLogged: (shard, number) => number <= logged[shard]! });
      const held: { endsAt: number; shard: number; number: number }[] = [];
      let answered = 0;
      const flush = (): void => {
        output.flush(false);
        for (const { endsAt, shard, number } of held)
          if (endsAt <= answered - output.gatheredBytes)
            assert.ok(number <= logged[shard]!, "a reply left before its record was logged");
        const [first] = held.filter(({ endsAt }) => endsAt > answered - output.gatheredBytes);
        if (first !== undefined && output.gatheredBytes > 0) assert.ok(output.waitsForLog);
      };
      for (const { bytes, shard, waits, logged: steps } of replies) {
        if (waits) {
          output.hold(shard, ++made[shard]!);
          held.push({ endsAt: answered + bytes, shard, number: made[shard]! });
        }
        output.append(new Uint8Array(bytes), 0, bytes);
        answered += bytes;
        logged[shard] = Math.min(made[shard]!, logged[shard]! + steps);
        flush();
      }
      logged.splice(0, 3, ...made);
      flush();
      assert.equal(output.gatheredBytes, 0);
      assert.ok(!output.waitsForLog);
    }),
    300,
  );
});

it("Output releases the first reply of an endless pipeline once its own record is in the log", () => {
  const sink = transport();
  let logged = 0;
  const output = new Output(sink, { isLogged: (_shard, number) => number <= logged });
  for (let number = 1; number <= 100; number++) {
    output.hold(0, number);
    output.append(new Uint8Array(10), 0, 10);
  }
  assert.equal(output.flush(false), 0);
  logged = 1;
  assert.equal(output.flush(false), 10);
});

it("Output keeps one position per change of shard", () => {
  let logged = 0;
  const shardOf = (number: number): number => (number % 200 < 100 ? 0 : 1);
  const output = new Output(transport(), { isLogged: (_shard, number) => number <= logged });
  for (let number = 1; number <= 1000; number++) {
    output.hold(shardOf(number), number);
    output.append(new Uint8Array(1), 0, 1);
  }
  // Eleven stretches of one shard, and the first position, which never changes.
  let sends = 0;
  for (logged = 1; output.gatheredBytes > 0; logged++) if (output.flush(false) > 0) sends++;
  assert.equal(sends, 12);
});

describe("output bodies", () => {
  const IN_PLACE_BYTES_MIN = 20;
  const MIB = 1 << 20;

  /** Reads what it is given when it is told to, as a kernel may; how it takes bodies is drawn. */
  class LateTransport implements Transport {
    readonly descriptor = -1;
    readonly #received: Uint8Array[] = [];
    readonly #takesBodies: () => boolean;
    #late: { buffer: Uint8Array; length: number; bodies: readonly BodyReference[] }[] = [];
    pendingBytes = 0;

    constructor(takesBodies: () => boolean) {
      this.#takesBodies = takesBodies;
    }

    send(buffer: Uint8Array, length: number): boolean {
      this.#take(buffer, length, []);
      return false;
    }

    sendWithBodies(buffer: Uint8Array, length: number, bodies: readonly BodyReference[]): boolean {
      if (!this.#takesBodies()) return false;
      assert.ok(bodies.length > 0 && bodies.length <= 4);
      this.#take(buffer, length, bodies);
      return true;
    }

    #take(buffer: Uint8Array, length: number, bodies: readonly BodyReference[]): void {
      this.#late.push({ buffer, length, bodies });
      this.pendingBytes += bodies.reduce((sum, body) => sum + body.length, length);
    }

    read(): void {
      for (const { buffer, length, bodies } of this.#late) {
        let from = 0;
        for (const { arena, handle, offset, length: bodyBytes, at } of bodies) {
          this.#received.push(buffer.slice(from, at));
          from = at;
          const place = new BodyPlace();
          for (let done = 0; done < bodyBytes; done += place.length) {
            arena.locate(handle, offset + done, bodyBytes - done, place);
            this.#received.push(place.bytes.slice(place.at, place.at + place.length));
          }
          arena.unpin(handle);
        }
        this.#received.push(buffer.slice(from, length));
      }
      this.#late = [];
      this.pendingBytes = 0;
    }

    get received(): Buffer {
      return Buffer.concat(this.#received);
    }

    pause(): void {}
    resume(): void {}
    end(): void {}
    destroy(): void {}
  }

  /** An output, and what has been appended to it. */
  class Scene {
    readonly arena: BodyArena = new BodyArena();
    readonly output: Output;
    readonly #transport: Transport;
    readonly #appended: Uint8Array[] = [];
    /** Replies so far. Each waits for a record of its number, on one shard or the other in turn. */
    #replies = 0;
    #logged = 0;

    constructor(transport: Transport) {
      this.#transport = transport;
      const log = { isLogged: (_shard: number, number: number) => number <= this.#logged };
      this.output = new Output(transport, log, IN_PLACE_BYTES_MIN);
    }

    #hold(): void {
      this.#replies++;
      this.output.hold(this.#replies % 2, this.#replies);
    }

    copied(part: Uint8Array): void {
      this.#hold();
      this.output.append(part, 0, part.length);
      this.#appended.push(part);
    }

    reply({ head, body, tail }: Record<"head" | "body" | "tail", Uint8Array>): void {
      const { arena, output } = this;
      const handle = store(arena, body);
      this.#hold();
      output.append(head, 0, head.length);
      output.appendBody(arena, handle, 0, body.length);
      output.append(tail, 0, tail.length);
      // The job is gone before its reply has left.
      arena.free(handle);
      this.#appended.push(head, body, tail);
    }

    /** Logs a part of the waiting replies, 0 to 1, and flushes. */
    flush(part: number, all: boolean): void {
      this.#logged += Math.floor(part * (this.#replies - this.#logged));
      if (this.#transport.pendingBytes > 0 && !all) return;
      this.output.flush(all);
      if (all && this.#logged === this.#replies) assert.equal(this.output.gatheredBytes, 0);
    }

    /** Bytes that have been appended, without those still gathered. */
    get left(): Buffer {
      const all = Buffer.concat(this.#appended);
      return all.subarray(0, all.length - this.output.gatheredBytes);
    }
  }

  function store(arena: BodyArena, bytes: Uint8Array): number {
    const handle = arena.allocate(bytes.length);
    arena.write(handle, 0, bytes, 0, bytes.length);
    return handle;
  }

  const bytes = (maxLength: number): fc.Arbitrary<Uint8Array> => fc.uint8Array({ minLength: 1, maxLength });
  /** A reply: its head, its body if it has one, what follows. */
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ head: bytes(30), body: bytes(200), tail: bytes(2) }) },
    { weight: 1, arbitrary: fc.record({ copied: bytes(400) }) },
    {
      weight: 2,
      arbitrary: fc.record({ flush: fc.double({ min: 0, max: 1, noNaN: true }), all: fc.boolean() }),
    },
    { weight: 2, arbitrary: fc.constant("read" as const) },
  );

  describe("Output with bodies in an arena", () => {
    it("sends everything in order and releases every body, however its transport sends them", (t) => {
      checkProperty(
        t,
        fc.property(
          fc.array(step, { maxLength: 60 }),
          fc.infiniteStream(fc.boolean()),
          fc.boolean(),
          (steps, takes, isCleared) => {
            const transport = new LateTransport(() => takes.next().value);
            const scene = new Scene(transport);
            for (const each of steps) {
              if (each === "read") transport.read();
              else if ("copied" in each) scene.copied(each.copied);
              else if ("head" in each) scene.reply(each);
              else scene.flush(each.flush, each.all);
            }
            if (!isCleared) scene.flush(1, true);
            const expected = scene.left;
            scene.output.clear();
            assert.equal(scene.output.gatheredBytes, 0);
            transport.read();
            assert.equal(Buffer.compare(transport.received, expected), 0);
            assert.equal(scene.arena.usedBytes, 0);
          },
        ),
        200,
      );
    });

    it("hands over as many bodies as one message refers to, and the others only if all are wanted", () => {
      for (const all of [false, true]) {
        const transport = new LateTransport(() => true);
        const scene = new Scene(transport);
        for (let reply = 0; reply < 9; reply++)
          scene.reply({
            head: asciiBytes("head"),
            body: new Uint8Array(IN_PLACE_BYTES_MIN),
            tail: asciiBytes("\r\n"),
          });
        const { gatheredBytes } = scene.output;
        scene.flush(1, all);
        const left = scene.output.gatheredBytes;
        assert.deepEqual([left < gatheredBytes, left > 0], [true, !all]);
        scene.output.clear();
        transport.read();
        assert.equal(scene.arena.usedBytes, 0);
      }
    });

    it("survives a transport that fails at once and clears it, wherever the bodies are", () => {
      for (const isLogged of [false, true]) {
        const arena = new BodyArena();
        const transport = new LateTransport(() => false);
        let asked = 0;
        const log = { isLogged: () => asked++ > 0 && isLogged };
        const output = new Output(transport, log, IN_PLACE_BYTES_MIN);
        transport.send = () => {
          output.clear();
          return true;
        };
        output.append(new Uint8Array(15), 0, 15);
        // A reply that waits for the log, and one with a body behind it.
        output.hold(0, 1);
        output.append(new Uint8Array(1), 0, 1);
        const handle = store(arena, new Uint8Array(100));
        output.appendBody(arena, handle, 0, 100);
        output.append(new Uint8Array(2), 0, 2);
        arena.free(handle);
        output.flush(true);
        assert.equal(output.gatheredBytes, 0);
        output.append(new Uint8Array(7), 0, 7);
        assert.equal(output.gatheredBytes, 7);
        assert.equal(arena.usedBytes, 0);
      }
    });

    it("copies at most 256 KiB at a time for a transport without bodies, and the rest later", () => {
      const arena = new BodyArena();
      const transport = new LateTransport(() => false);
      const output = new Output(transport, { isLogged: () => true }, IN_PLACE_BYTES_MIN);
      const body = new Uint8Array(2 * MIB + 5).map((_, at) => at * 31 + (at >> 8));
      const handle = store(arena, body);
      output.appendBody(arena, handle, 0, body.length);
      arena.free(handle);
      let sends = 0;
      for (; output.gatheredBytes > 0; sends++) {
        output.flush(false);
        assert.ok(transport.pendingBytes <= 256 * 1024);
        transport.read();
      }
      assert.equal(sends, 9);
      assert.equal(Buffer.compare(transport.received, body), 0);
      assert.equal(arena.usedBytes, 0);
    });
  });
});
