// Tests of the messages by which the end of the local log goes to the shared log.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Memory } from "../../../src/base/bytes.ts";
import {
  encodeLogBatchHeader,
  LOG_BATCH_BYTES_MAX,
  LOG_BATCH_HEADER_BYTES,
  LogBatchKind,
  logBatchesOf,
  sealLogBatch,
} from "../../../src/message/log-batch.ts";
import { appendTail, joined } from "../../../src/replica/standby-node.ts";

/** Batch `n` of a segment, of so many bytes. */
function batch(n: number, segment: number, bytes = LOG_BATCH_HEADER_BYTES): Uint8Array {
  const memory = Memory.ofSize(bytes);
  encodeLogBatchHeader(memory, 0, {
    ...{ kind: LogBatchKind.data, epoch: 1, segment, n, previousTag: n - 1, tag: n, sequence: n, idsLent: 0 },
    ...{
      frames: 0,
      bodyBytes: bytes - LOG_BATCH_HEADER_BYTES,
      node: 1,
      oldest: 1,
      unacknowledged: 0,
      message: 0,
    },
  });
  sealLogBatch(memory, 0);
  return memory.bytes;
}

/** The numbers of the batches in each message. */
const numbersOf = (batches: readonly Uint8Array[]): number[][] =>
  [...joined(batches)].map((message) => logBatchesOf(message)!.map(({ header }) => header.n));

it("joins batches of one segment alone", () => {
  assert.deepEqual(numbersOf([batch(1, 1), batch(2, 1), batch(3, 2), batch(4, 2), batch(5, 3)]), [
    [1, 2],
    [3, 4],
    [5],
  ]);
  assert.deepEqual(numbersOf([]), []);
});

it("fills each message up to its limit, the first like those behind it", () => {
  const half = LOG_BATCH_BYTES_MAX / 2;
  const sizes = [half, half, half, half, half, half + 1, LOG_BATCH_BYTES_MAX, 100, 100];
  assert.deepEqual(numbersOf(sizes.map((bytes, at) => batch(at + 1, 1, bytes))), [
    [1, 2],
    [3, 4],
    [5],
    [6],
    [7],
    [8, 9],
  ]);
});

it("appends each message behind the one before", async () => {
  const behind: number[] = [];
  const log = {
    append: (_message: Uint8Array, last: number): Promise<number> => {
      behind.push(last);
      return Promise.resolve(last + 3);
    },
  };
  await appendTail(log, [batch(1, 1), batch(2, 2), batch(3, 3)], 10);
  assert.deepEqual(behind, [10, 13, 16]);
});
