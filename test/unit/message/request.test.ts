// Tests of the views of messages: each field is read as it was written, and fields that one message
// has at the same time don't overlap.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes } from "../../../src/base/bytes.ts";
import * as requests from "../../../src/message/request.ts";
import * as responses from "../../../src/message/response.ts";
import * as turns from "../../../src/message/response.ts";
import {
  DELETED_HEADER_BYTES,
  ListedJobsReader,
  packDeleted,
  packListedJobs,
} from "../../../src/message/response.ts";
import * as flow from "../../../src/message/transfer.ts";
import * as claims from "../../../src/message/transfer.ts";
import * as transfers from "../../../src/message/transfer.ts";
import { Request, Span } from "../../../src/protocol/request.ts";
import { createRing, RingReader, RingWriter } from "../../../src/ring/ring.ts";
import {
  addBatchCounts,
  type BatchCounts,
  type BatchFacts,
  BatchOutcome,
  BatchState,
  emptyBatchCounts,
} from "../../../src/schema/batch.ts";

const U32 = 2 ** 32 - 2;
const LONG = 2 ** 52 + 1;
/** Bytes before those that a view writes or reads, all of which it must leave alone. */
const BEFORE = 24;

/** Sends a request through a ring. */
function received(message: Request): Request {
  const ring = createRing(4096);
  const writer = new RingWriter(ring);
  assert.ok(requests.writeRequest(writer, message));
  writer.publish();
  const reader = new RingReader(ring);
  const got = new Request();
  requests.readRequest(reader, reader.next(), got);
  return got;
}

/** Sends a response through a ring, and returns where it is. */
function sent(begin: (port: responses.ReplyPort) => void): { reader: RingReader; offset: number } {
  const ring = createRing(4096);
  const port = new responses.ReplyPort(ring, true);
  // So that it is not at the beginning.
  port.ring.claim(8);
  begin(port);
  port.publish(0);
  const reader = new RingReader(ring);
  reader.next();
  return { reader, offset: reader.next() };
}

function spanOf(bytes: Uint8Array, start = 0): Span {
  const span = new Span();
  span.set(bytes, start, bytes.length);
  return span;
}

describe("the views of a request", () => {
  it("read what they wrote, behind a ring", () => {
    const message = new Request().begin(200);
    requests.CarriedView.fill(message, 63, transfers.TransferMessage.Landed, LONG);
    let got = received(message);
    assert.equal(requests.CarriedView.fromShard(got), 63);
    assert.equal(requests.CarriedView.transferMessage(got), transfers.TransferMessage.Landed);
    assert.equal(requests.CarriedView.transfer(got), LONG);

    Object.assign(message.begin(200), { slot: 5 });
    requests.BarrierAckView.fill(message, LONG);
    got = received(message);
    assert.deepEqual([got.slot, requests.BarrierAckView.barrier(got)], [0, LONG]);

    requests.MigrationView.fill(message.begin(200), 131_071, LONG);
    got = received(message);
    assert.deepEqual([got.slot, requests.MigrationView.move(got)], [131_071, LONG]);

    Object.assign(message.begin(200), { slot: 5 });
    requests.ControlView.fill(message, LONG);
    got = received(message);
    assert.deepEqual([got.slot, requests.ControlView.question(got)], [0, LONG]);

    requests.ListPartView.limitText(message.begin(200), U32);
    assert.equal(requests.ListPartView.textBytesMax(received(message)), U32);
    requests.SetPartView.fill(message.begin(200), LONG);
    assert.equal(requests.SetPartView.change(received(message)), LONG);
    requests.OpenBatchView.fill(message.begin(200), LONG);
    assert.equal(requests.OpenBatchView.number(received(message)), LONG);
  });

  it("of one message leave each other alone", () => {
    const message = new Request().begin(200);
    requests.WaitView.fill(message, U32, 12_345.5);
    turns.FloorView.fill(message, 0.25);
    let got = received(message);
    assert.deepEqual(
      [got.waitNumber, requests.WaitView.timeoutAtMs(got), turns.FloorView.floor(got)],
      [U32, 12_345.5, 0.25],
    );

    requests.BatchView.limitJobs(message.begin(200), 1000);
    requests.BatchView.limitBytes(message, U32);
    requests.BatchView.setNumber(message, 7);
    turns.FloorView.fill(message, 0.5);
    got = received(message);
    const { jobsMax, bytesMax, number } = requests.BatchView;
    assert.deepEqual(
      [jobsMax(got), bytesMax(got), number(got), turns.FloorView.floor(got)],
      [1000, U32, 7, 0.5],
    );

    Object.assign(message.begin(200), { id: LONG, pri: U32 });
    turns.FloorView.fill(message, 1.5);
    turns.PlaceView.fill(message, 2.5);
    got = received(message);
    assert.deepEqual(
      [got.id, got.pri, turns.FloorView.floor(got), turns.PlaceView.place(got)],
      [LONG, U32, 1.5, 2.5],
    );

    requests.WatchView.fill(message.begin(200), U32);
    requests.WeightView.fill(message, 1000);
    got = received(message);
    assert.deepEqual([requests.WatchView.watchedTubes(got), requests.WeightView.weight(got)], [U32, 1000]);
  });

  it("list jobs of a batch one after the other", () => {
    const view = new DataView(new ArrayBuffer(3 * requests.LISTED_BYTES));
    const jobs = [0, 1, 2].map((index) => [LONG - index, U32 - index, 100 + index] as const);
    const { write, id, pri, bodyBytes } = requests.ListedView;
    for (const [index, job] of jobs.entries()) write(view, index, ...job);
    const read = jobs.map((_, index) => [id(view, index), pri(view, index), bodyBytes(view, index)]);
    assert.deepEqual(read, jobs);
  });

  it("carry the handle of a body, whatever its bytes", () => {
    for (const handle of [0, 1, 0x0102_0304, 0xfedc_ba98, 2 ** 32 - 1]) {
      const message = new Request().begin(200);
      new requests.HandleBytes().put(handle, message.body);
      assert.equal(requests.handleOf(received(message).body), handle);
    }
  });

  it("fit into a ring up to the largest payload, and take no room if there is none", () => {
    const ring = createRing(4096);
    const writer = new RingWriter(ring);
    const most = requests.requestPayloadBytesMax(writer);
    const message = new Request().begin(200);
    message.body.set(new Uint8Array(most), 0, most);
    let count = 0;
    while (requests.writeRequest(writer, message)) count++;
    assert.equal(count, 4);
    writer.publish();
    const reader = new RingReader(ring);
    for (let read = 0; read < count; read++) assert.equal(requests.requestOp(reader, reader.next()), 200);
    assert.ok(!reader.hasMessage);
    message.body.set(new Uint8Array(most + 8), 0, most + 8);
    reader.release();
    assert.throws(() => requests.writeRequest(writer, message), /fits in a quarter/);
  });
});

describe("the views of a response", () => {
  it("read what the port wrote, behind a ring", () => {
    const { BatchIdle } = transfers.TransferMessage;
    const carry = sent((port) => port.beginCarry(BatchIdle, 63, U32, 8, true, 2 ** 32 + 7));
    const { toShard, transferMessage, transfer } = responses.CarryView;
    assert.deepEqual(
      [toShard, transferMessage, transfer].map((read) => read(carry.reader, carry.offset)),
      [63, BatchIdle, U32],
    );
    const word = carry.offset >> 2;
    const { Carry } = responses.ResponseKind;
    const { Durable } = responses.ResponseFlag;
    assert.equal(carry.reader.uint32[word + 1], Carry | (Durable << 16));
    assert.equal(carry.reader.uint32[word + 3], 8, "bytes of the payload");
    assert.equal(carry.reader.uint32[word + 7], 7, "number of the record");

    const answer = sent((port) => port.beginControl(0xabcd, LONG, 8, U32));
    assert.equal(answer.reader.uint32[(answer.offset >> 2) + 1]! >>> 16, 0xabcd, "the flags");
    assert.equal(responses.AnswerView.question(answer.reader, answer.offset), LONG);

    const part = { handle: LONG, offset: U32, length: 3, isLast: true, headBytes: 8 };
    const stored = sent((port) => port.beginStored(0, 5, U32, part));
    assert.equal(responses.StoredView.handle(stored.reader, stored.offset), LONG);
    assert.equal(responses.StoredView.offset(stored.reader, stored.offset), U32);
    assert.equal(stored.reader.int32[(stored.offset >> 2) + 2], 5, "the slot");

    const barrier = sent((port) => port.beginSignal(responses.ResponseKind.Barrier, 0, 0, 0, LONG));
    assert.equal(responses.BarrierView.barrier(barrier.reader, barrier.offset), LONG);
  });

  it("name candidates with the size of their bodies and whether they were lost", () => {
    const { write, id, pri, bodyBytes, isLost } = responses.CandidatesView;
    const entry = turns.TURNS_ENTRY_BYTES;
    const view = new DataView(new ArrayBuffer(4 * entry));
    const jobs: readonly [id: number, pri: number, bodyBytes: number, isLost: boolean][] = [
      [LONG, U32, 0, false],
      [1, 2, 3, true],
      [4, 5, 2 ** 30, false],
      [6, 7, 2 ** 30, true],
    ];
    for (const [index, job] of jobs.entries()) {
      write(view, index * entry, ...job);
      turns.TurnsView.writeEntryPlace(view, index * entry, index + 0.5);
    }
    for (const [index, job] of jobs.entries()) {
      const at = index * entry;
      assert.deepEqual([id(view, at), pri(view, at), bodyBytes(view, at), isLost(view, at)], job);
      assert.equal(turns.TurnsView.entryPlace(view, at), index + 0.5);
    }
    const signal = { value: LONG, pri: U32 };
    for (const isCut of [true, false]) {
      const counted = { ...signal, pri: responses.CandidatesView.word(isCut, 2 ** 31 - 1) };
      assert.equal(responses.CandidatesView.isCut(counted), isCut);
      assert.equal(responses.CandidatesView.ready(counted), 2 ** 31 - 1);
      assert.equal(responses.CandidatesView.lingerEndsAtMs(counted), LONG);
    }
    for (const { id: idOf, pri: priOf } of [responses.CandidateView, responses.RedirectedView])
      assert.deepEqual([idOf(signal), priOf(signal)], [LONG, U32]);
    assert.equal(responses.TouchedView.jobs(signal), LONG);
    assert.equal(responses.WaitDueView.waitNumber(signal), LONG);
  });

  it("carry the turns of a connection that picks by weight", () => {
    const bytes = new Uint8Array(BEFORE + turns.TURNS_CANDIDATE_BYTES);
    const view = new DataView(bytes.buffer, BEFORE);
    view.setFloat64(0, 99, true);
    turns.TurnsView.write(view, 0.25, 0.5);
    turns.TurnsView.writePlace(view, 0.75);
    const payload = spanOf(bytes, BEFORE);
    const { floor, earliest, place } = turns.TurnsView;
    assert.deepEqual([floor(payload), earliest(payload), place(payload)], [0.25, 0.5, 0.75]);
    assert.equal(view.getFloat64(0, true), 99, "the deadline before them stays");
  });
});

describe("the messages between shards", () => {
  it("carry every field of a transfer", () => {
    const bytes = new Uint8Array(BEFORE + 64);
    const view = new DataView(bytes.buffer, BEFORE);
    const { write, travel, flags, tubeBytes, jobs, delayMs } = transfers.TransferView;
    write(view, 3, 7, 200, U32, 12.5);
    assert.deepEqual(
      [travel, flags, tubeBytes, jobs, delayMs].map((read) => read(view)),
      [3, 7, 200, U32, 12.5],
    );
    const job = transfers.TransferJobView;
    job.write(view, transfers.TRANSFER_HEADER_BYTES, U32, 9);
    job.write(view, transfers.TRANSFER_HEADER_BYTES + transfers.TRANSFER_JOB_HEADER_BYTES, 8, U32);
    const files = [0, transfers.TRANSFER_JOB_HEADER_BYTES].map((more) => {
      const at = transfers.TRANSFER_HEADER_BYTES + more;
      return [job.recordBytes(view, at), job.file(view, at)];
    });
    assert.deepEqual(files, [
      [U32, 9],
      [8, U32],
    ]);
    assert.deepEqual([jobs(view), delayMs(view)], [U32, 12.5], "the header stays");
    transfers.LandedView.write(view, 8, U32, 5);
    assert.deepEqual([transfers.LandedView.taken(view, 8), transfers.LandedView.refusal(view, 8)], [U32, 5]);
  });

  it("carry every fact of a batch, and its counts", () => {
    const batch: BatchFacts = {
      ...{ number: LONG, name: "nightly-\xff", state: BatchState.Complete, outcome: BatchOutcome.Failure },
      ...{ keepMs: 1.5, openedAtMs: 2.5, completeAtMs: 3.5, allDone: 4, allFailed: 5 },
    };
    const bytes = new Uint8Array(BEFORE + flow.BATCH_STATE_BYTES + batch.name.length + 3).fill(7);
    const view = new DataView(bytes.buffer, BEFORE);
    flow.writeBatchState(view, batch);
    assert.deepEqual(flow.readBatchState(view), batch);
    assert.equal(flow.batchNumberOf(view), LONG);
    const counts: BatchCounts = {
      ...{ open: 1, dead: 2, moving: 3, done: 4, failed: 5, buried: 6, waitingJobs: 7, arrivals: 8 },
    };
    assert.deepEqual(Object.keys(emptyBatchCounts()).sort(), Object.keys(counts).sort());
    const report = new DataView(new ArrayBuffer(BEFORE + flow.BATCH_REPORT_BYTES), BEFORE);
    flow.writeBatchReport(report, LONG, counts);
    assert.equal(flow.batchNumberOf(report), LONG);
    const sum = emptyBatchCounts();
    assert.deepEqual(new Set(Object.values(sum)), new Set([0]));
    assert.equal(flow.addBatchReport(report, sum), 8);
    assert.deepEqual(sum, counts);
    addBatchCounts(counts, sum);
    const twice = Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, 2 * count]));
    assert.deepEqual(sum, twice);
    flow.writeBatchReport(report, 3);
    assert.equal(flow.addBatchReport(report, sum), 0, "a shard that doesn't know it counts nothing");
    assert.deepEqual(sum, twice);
  });

  it("carry claims of names", () => {
    const name = "nightly";
    const claimBytes = new Uint8Array(BEFORE + claims.CLAIM_HEADER_BYTES + name.length);
    new DataView(claimBytes.buffer, BEFORE).setFloat64(0, LONG, true);
    claimBytes.set(asciiBytes(name), BEFORE + claims.CLAIM_HEADER_BYTES);
    const claim = spanOf(claimBytes, BEFORE);
    assert.deepEqual([claims.ClaimView.claim(claim), claims.ClaimView.name(claim)], [LONG, name]);
    const yieldBytes = new Uint8Array(BEFORE + claims.YIELD_HEADER_BYTES);
    new DataView(yieldBytes.buffer, BEFORE).setFloat64(0, LONG, true);
    new DataView(yieldBytes.buffer, BEFORE).setFloat64(8, 5.5, true);
    const yielded = spanOf(yieldBytes, BEFORE);
    assert.deepEqual([claims.YieldView.id(yielded), claims.YieldView.nextMs(yielded)], [LONG, 5.5]);
    const endBytes = new Uint8Array(BEFORE + claims.END_CLAIM_HEADER_BYTES + name.length);
    new DataView(endBytes.buffer, BEFORE).setFloat64(0, LONG, true);
    endBytes.set(asciiBytes(name), BEFORE + claims.END_CLAIM_HEADER_BYTES);
    const end = spanOf(endBytes, BEFORE);
    const { EndClaimView } = claims;
    assert.deepEqual([EndClaimView.version(end), EndClaimView.name(end)], [LONG, name]);
  });
});

describe("lists of several shards", () => {
  it("of jobs are read line by line, each with its id, until Infinity", () => {
    const jobs = [
      { id: 1, line: "- a" },
      { id: 2, line: "" },
      { id: LONG, line: "- the last one" },
    ];
    for (const some of [jobs, []]) {
      const packed = packListedJobs(LONG, some);
      const bytes = new Uint8Array(BEFORE + packed.length);
      bytes.set(packed, BEFORE);
      const reader = new ListedJobsReader(bytes.subarray(BEFORE));
      assert.equal(reader.next, LONG);
      for (const { id, line } of some) {
        assert.deepEqual([reader.id, Buffer.from(reader.line).toString("latin1")], [id, line]);
        reader.shift();
      }
      assert.equal(reader.id, Number.POSITIVE_INFINITY);
    }
  });

  it("of deleted jobs have the record that the reply waits for, the results and the ids", () => {
    const packed = packDeleted(Uint8Array.of(1, 0, 2), "7 8 9", U32);
    const view = new DataView(packed.buffer);
    assert.deepEqual([view.getUint32(0, true), view.getUint32(4, true)], [U32, 3]);
    assert.deepEqual([...packed.subarray(DELETED_HEADER_BYTES, DELETED_HEADER_BYTES + 3)], [1, 0, 2]);
    assert.equal(Buffer.from(packed.subarray(DELETED_HEADER_BYTES + 3)).toString(), "7 8 9");
  });
});
