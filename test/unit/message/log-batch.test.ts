// Tests of a batch of a group's log: every field of its header is read as it was written, and a
// message with any other byte is none.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Memory } from "../../../src/base/bytes.ts";
import {
  encodeLogBatchHeader,
  hasLogBatches,
  LOG_BATCH_HEADER_BYTES,
  type LogBatchHeader,
  LogBatchKind,
  logBatchesOf,
  sealLogBatch,
} from "../../../src/message/log-batch.ts";

const FRAMES = 16;
const headerWith = (kind: LogBatchKind, number: number): LogBatchHeader => ({
  ...{ kind, epoch: number + 1, segment: number + 2, n: 2 ** 50 + number, previousTag: 2 ** 51 + number },
  ...{ tag: 2 ** 52 + number, sequence: 2 ** 49 + number, idsLent: 2 ** 48 + number, frames: number + 3 },
  ...{ bodyBytes: FRAMES, node: 2 ** 32 - 1 - number, oldest: number + 4, unacknowledged: number + 5 },
  message: 2 ** 32 - 2 - number,
});

const HEADERS = Object.values(LogBatchKind).map((kind, at) => headerWith(kind, 10 * at));
const BYTES = LOG_BATCH_HEADER_BYTES + FRAMES;

function messageOf(headers: readonly LogBatchHeader[]): Uint8Array {
  const memory = Memory.ofSize(headers.length * BYTES);
  memory.bytes.fill(0x55);
  for (const [at, header] of headers.entries()) {
    encodeLogBatchHeader(memory, at * BYTES, header);
    sealLogBatch(memory, at * BYTES);
  }
  return memory.bytes;
}

it("batches of a message are read as they were written, one after the other", () => {
  const message = messageOf(HEADERS);
  assert.ok(hasLogBatches(message));
  const batches = logBatchesOf(message)!;
  assert.deepEqual(
    batches.map(({ header }) => header),
    HEADERS,
  );
  for (const [at, { bytes }] of batches.entries())
    assert.deepEqual(bytes, message.subarray(at * BYTES, (at + 1) * BYTES));
});

it("numbers that don't fit are cut as the header says", () => {
  const header = { ...HEADERS[0]!, unacknowledged: 2 ** 40, message: 2 ** 32 + 7 };
  const [batch] = logBatchesOf(messageOf([header]))!;
  assert.deepEqual([batch!.header.unacknowledged, batch!.header.message], [2 ** 32 - 1, 7]);
});

it("a message with another byte, or that is cut, has no batches", () => {
  const message = messageOf(HEADERS.slice(0, 2));
  for (let at = 0; at < message.length; at++) {
    const changed = message.slice();
    changed[at] = changed[at]! ^ 0x10;
    assert.equal(logBatchesOf(changed), undefined, `byte ${at}`);
    if (at % BYTES !== 0) assert.equal(logBatchesOf(message.subarray(0, at)), undefined, `cut at ${at}`);
  }
  assert.equal(logBatchesOf(new Uint8Array(0)), undefined);
  assert.ok(!hasLogBatches(message.subarray(0, LOG_BATCH_HEADER_BYTES - 1)));
  assert.ok(hasLogBatches(message.subarray(0, LOG_BATCH_HEADER_BYTES)));
  assert.ok(!hasLogBatches(Uint8Array.from(message, (byte) => byte ^ 1)));
});
