// Tests of the sink of diagnostics: its reader is slow, stuck or gone, or its disk is full.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LineSink } from "../../../../src/server/options/log.ts";

const failure = (code: string): Error => Object.assign(new Error(code), { code });

/** A descriptor that takes `room` bytes and then fails with `code`. */
class Descriptor {
  room = Number.POSITIVE_INFINITY;
  code = "EAGAIN";
  taken = "";
  calls = 0;

  readonly write = (bytes: Uint8Array): number => {
    this.calls++;
    if (this.room === 0) throw failure(this.code);
    const count = Math.min(this.room, bytes.length);
    this.taken += Buffer.from(bytes.subarray(0, count)).toString();
    this.room -= count;
    return count;
  };
}

const sinkOn = (descriptor: Descriptor): LineSink =>
  new LineSink(descriptor.write, (count) => `${count} dropped\n`);

describe("LineSink", () => {
  it("writes before it returns if there is room", () => {
    const descriptor = new Descriptor();
    sinkOn(descriptor).write("a line\n");
    assert.equal(descriptor.taken, "a line\n");
  });

  it("keeps lines in order, the first from its cut, until there is room", async () => {
    const descriptor = new Descriptor();
    const sink = sinkOn(descriptor);
    descriptor.room = 4;
    for (const line of ["first\n", "second\n", "third\n"]) sink.write(line);
    assert.equal(descriptor.taken, "firs");
    descriptor.room = Number.POSITIVE_INFINITY;
    await sink.drained(10_000);
    assert.equal(descriptor.taken, "first\nsecond\nthird\n");
  });

  it("keeps a bounded number of lines and bytes, and reports how many it dropped", async () => {
    for (const line of ["x\n", `${"x".repeat(100_000)}\n`]) {
      const descriptor = new Descriptor();
      const sink = sinkOn(descriptor);
      descriptor.room = 0;
      for (let i = 0; i < 5000; i++) sink.write(line);
      descriptor.room = Number.POSITIVE_INFINITY;
      await sink.drained(10_000);
      const lines = descriptor.taken.split("\n");
      const kept = lines.filter((each) => each.startsWith("x")).length;
      assert.ok(kept > 0 && kept <= 1001, `${kept} lines`);
      assert.ok(descriptor.taken.length <= (1 << 20) + 2 * line.length, `${descriptor.taken.length} bytes`);
      assert.equal(lines.at(-2), `${5000 - kept} dropped`);
    }
  });

  for (const code of ["ENOSPC", "EPIPE", "EBADF", "EIO"]) {
    it(`drops lines that fail with ${code}, counts them, and reports them when it can write again`, () => {
      const descriptor = new Descriptor();
      const sink = sinkOn(descriptor);
      descriptor.code = code;
      descriptor.room = 0;
      for (let i = 0; i < 3; i++) sink.write("lost\n");
      assert.equal(descriptor.taken, "");
      descriptor.room = Number.POSITIVE_INFINITY;
      sink.write("after\n");
      sink.write("more\n");
      assert.equal(descriptor.taken, "3 dropped\nafter\nmore\n");
    });
  }

  it("starts a new line after one that a full disk cut", () => {
    const descriptor = new Descriptor();
    const sink = sinkOn(descriptor);
    descriptor.code = "ENOSPC";
    descriptor.room = 3;
    sink.write("a long line\n");
    descriptor.room = Number.POSITIVE_INFINITY;
    sink.write("after\n");
    assert.equal(descriptor.taken, "a l\n1 dropped\nafter\n");
  });

  it("is awaited no longer than its limit", async () => {
    const descriptor = new Descriptor();
    const sink = sinkOn(descriptor);
    descriptor.room = 0;
    sink.write("never\n");
    await sink.drained(1);
    assert.equal(descriptor.taken, "");
    descriptor.room = Number.POSITIVE_INFINITY;
    await sink.drained(10_000);
    assert.equal(descriptor.taken, "never\n");
  });
});
