import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { Output } from "../../../../src/acceptor/stream/outbox.ts";
import type { Transport } from "../../../../src/acceptor/stream/transport.ts";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

/**
 * A transport that takes everything at once, or keeps the buffers as the kernel would when the
 * client does not read.
 */
function transport(
  keeps: boolean,
): Transport & { kept: { buffer: Uint8Array; length: number }[]; sends: number } {
  return {
    kept: [],
    sends: 0,
    pendingBytes: 0,
    descriptor: -1,
    send(buffer, length) {
      this.sends++;
      this.kept.push({ buffer: keeps ? buffer : Uint8Array.from(buffer), length });
      return !keeps;
    },
    pause() {},
    resume() {},
    end() {},
    destroy() {},
  };
}

const bytesOf = (kept: readonly { buffer: Uint8Array; length: number }[]): number[] =>
  kept.flatMap(({ buffer, length }) => [...buffer.subarray(0, length)]);

const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ append: fc.uint8Array({ minLength: 1, maxLength: 3000 }), to: fc.nat(1) }),
  },
  { weight: 1, arbitrary: fc.record({ flush: fc.nat(1) }) },
);

it("Output sends everything in order, also while a transport keeps buffers of an earlier flush", (t) => {
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const outputs = [new Output(), new Output()] as const;
      const transports = [transport(true), transport(false)] as const;
      const expected: [number[], number[]] = [[], []];
      const side = (n: number): 0 | 1 => (n === 0 ? 0 : 1);
      for (const each of steps) {
        if ("append" in each) {
          outputs[side(each.to)].append(each.append, 0, each.append.length);
          expected[side(each.to)].push(...each.append);
        } else {
          outputs[side(each.flush)].handOver(transports[side(each.flush)]);
          assert.equal(outputs[side(each.flush)].gatheredBytes, 0);
        }
      }
      for (const i of [0, 1] as const) {
        outputs[i].handOver(transports[i]);
        assert.deepEqual(bytesOf(transports[i].kept), expected[i]);
      }
    }),
    60,
  );
});

it("Output sends a turn's replies with one write, and nothing without replies", () => {
  const output = new Output();
  const sink = transport(false);
  output.handOver(sink);
  assert.equal(sink.sends, 0);
  for (const text of ["INSERTED 1\r\n", "x".repeat(5000), "DELETED\r\n"])
    output.append(asciiBytes(text), 0, text.length);
  output.handOver(sink);
  assert.equal(sink.sends, 1);
  assert.equal(sink.kept[0]!.length, 12 + 5000 + 9);
});

it("Output drops its bytes when it is cleared", () => {
  const output = new Output();
  const sink = transport(false);
  output.append(asciiBytes("gone"), 0, 4);
  output.clear();
  assert.equal(output.gatheredBytes, 0);
  output.append(asciiBytes("here"), 1, 3);
  output.handOver(sink);
  assert.deepEqual(bytesOf(sink.kept), [...asciiBytes("ere")]);
});
