// Tests of the ring that takes batches to the group's thread, also while it has no room.

import assert from "node:assert/strict";
import { it } from "node:test";
import { BatchRing } from "../../../src/binlog/binlog-loop.ts";
import { LOG_BATCH_HEADER_BYTES } from "../../../src/message/log-batch.ts";
import { binlogGroup, ControlWord, createTopology, groupBell } from "../../../src/message/topology.ts";
import { DoorbellOwner } from "../../../src/ring/doorbell.ts";
import { EMPTY, RingReader } from "../../../src/ring/ring.ts";
import { BatchWord, LogWord } from "../../../src/ring/shared-words.ts";
import { SAMPLE_SEGMENT_BYTES } from "../../binlog/sample/sample-log.ts";

/** The last batch before the first one that is sent. */
const LAST = 2 ** 32 + 4;

function scene() {
  const topology = createTopology({
    shards: 2,
    acceptors: 1,
    jobBytesMax: 65_535,
    ringBytes: 4096,
    binlog: {
      repliesWaitFor: LogWord.Synced,
      segmentBytes: SAMPLE_SEGMENT_BYTES,
      group: { repliesWait: true },
    },
  });
  const words = new Int32Array(topology.control);
  return {
    batches: new BatchRing(topology, LAST),
    reader: new RingReader(binlogGroup(topology).ring),
    bell: new DoorbellOwner(new Int32Array(topology.doorbells), groupBell(topology)),
    acknowledged: new BatchWord(words, ControlWord.AcknowledgedBatch),
    message: new BatchWord(words, ControlWord.AcknowledgedMessage),
  };
}

/** Bytes of a batch in which its number is everywhere. */
const batchOf = (number: number, bytes: number): Uint8Array => new Uint8Array(bytes).fill(number);

/** Takes a batch as the group's thread does. */
function readOne(reader: RingReader): { numbers: number[]; bytes: Uint8Array } | undefined {
  const offset = reader.next();
  if (offset === EMPTY) return undefined;
  const length = reader.uint32[(offset >> 2) + 1]!;
  const numbers = [...reader.float64.subarray((offset >> 3) + 1, (offset >> 3) + 3)];
  const bytes = reader.bytes.slice(offset + 24, offset + 24 + length);
  return { numbers, bytes };
}

it("batches come with the numbers of the shards, and those that found no room come later, in order", () => {
  const { batches, reader } = scene();
  assert.ok(batches.hasRoom);
  const sent: { numbers: number[]; bytes: Uint8Array }[] = [];
  const take = (bytes: number): void => {
    const number = sent.length + 1;
    const batch = batchOf(number, bytes);
    const numbers = Float64Array.of(number, 100 + number);
    batches.take(batch, numbers);
    sent.push({ numbers: [...numbers], bytes: batch.slice() });
    // The log uses its memory again.
    batch.fill(0);
    numbers.fill(0);
  };
  while (batches.hasRoom) take(50_001);
  const fitted = sent.length;
  assert.ok(fitted > 2, `${fitted} batches`);
  // There is room for neither the first, nor, before it has gone, for the small one behind it.
  while (sent.length < fitted + 40) take(50_001);
  take(LOG_BATCH_HEADER_BYTES);
  assert.equal(batches.hasRoom, false);
  const found: { numbers: number[]; bytes: Uint8Array }[] = [];
  while (found.length < sent.length) {
    const one = readOne(reader);
    assert.ok(one !== undefined, `batch ${found.length + 1} of ${sent.length} has come`);
    found.push(one);
    reader.release();
    // Asking for room sends what is kept.
    batches.wantRoom();
  }
  assert.deepEqual(found, sent);
  assert.equal(readOne(reader), undefined);
  assert.equal(batches.hasRoom, true);
});

it("the reader is asked to ring only while there is no room", () => {
  const { batches, reader } = scene();
  batches.take(batchOf(1, LOG_BATCH_HEADER_BYTES), Float64Array.of(1, 1));
  batches.wantRoom();
  readOne(reader);
  assert.equal(reader.release(), false);
  while (batches.hasRoom) batches.take(batchOf(2, 50_000), Float64Array.of(2, 2));
  batches.wantRoom();
  while (readOne(reader) !== undefined);
  assert.equal(reader.release(), true);
});

it("a batch wakes the group's thread", () => {
  const { batches, bell } = scene();
  bell.prepare();
  assert.equal(bell.isRung, false);
  batches.take(batchOf(1, LOG_BATCH_HEADER_BYTES), Float64Array.of(1, 1));
  assert.equal(bell.isRung, true);
});

it("what the group has acknowledged is a number up to the last batch sent", () => {
  const { batches, acknowledged, message } = scene();
  acknowledged.publish(LAST);
  assert.equal(batches.acknowledged, LAST);
  for (const number of [1, 2]) batches.take(batchOf(number, LOG_BATCH_HEADER_BYTES), Float64Array.of(1, 1));
  acknowledged.publish(LAST + 2);
  assert.equal(batches.acknowledged, LAST + 2);
  acknowledged.publish(LAST + 1);
  assert.equal(batches.acknowledged, LAST + 1);
  message.publish(2 ** 32 + 7);
  assert.equal(batches.acknowledgedMessage, 7);
});
