// Tests of transfers to other shards: how many jobs and bytes one takes, when a job goes in pieces,
// how many are in flight, and what becomes of the jobs when they land.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Outcome } from "../../../../src/engine/jobs/ends.ts";
import { JobState } from "../../../../src/engine/jobs/job-table.ts";
import { Travel } from "../../../../src/engine/transfers.ts";
import { RECORD_FIXED_BYTES } from "../../../../src/message/record.ts";
import {
  TRANSFER_BYTES_MAX,
  TRANSFER_HEADER_BYTES,
  TRANSFER_JOB_HEADER_BYTES,
  TRANSFER_JOBS_MAX,
  TransferFlag,
  TransferMessage,
  TransferView,
} from "../../../../src/message/transfer.ts";
import type { ReplyPort } from "../../../../src/shard/sessions/reply-port.ts";
import { type Transfer, TransferSender } from "../../../../src/shard/transfer/transfer-sender.ts";
import { EngineBench } from "../../engine/engine-bench.ts";

const TUBE = "far";
const TRANSFERS_MAX = 8;
const PIECES_MAX = 4;
/** Bytes of a transfer besides the bodies: its own, and those of each job. */
const OWN_BYTES = TRANSFER_HEADER_BYTES + TUBE.length;
const JOB_BYTES = TRANSFER_JOB_HEADER_BYTES + RECORD_FIXED_BYTES;

/** A sender whose messages are kept; the payload of one has at most `payloadBytesMax`. */
class Scene extends EngineBench {
  readonly said: { readonly kind: number; readonly bytes: Uint8Array }[] = [];
  readonly landed: string[] = [];
  readonly sender: TransferSender;
  #lastId = 1000;

  constructor(payloadBytesMax = 1 << 20) {
    super();
    const port = {
      at: 0,
      target: new Uint8Array(0),
      payloadBytesMax,
      blocked: false,
      ring: { hasRoom: () => true, messageBytesMax: payloadBytesMax },
      beginCarry: (kind: number, _to: number, _number: number, length: number): void => {
        port.target = new Uint8Array(length);
        this.said.push({ kind, bytes: port.target });
      },
    };
    this.sender = new TransferSender({
      ...{ engine: this.engine, port: port as unknown as ReplyPort, records: undefined, shardOf: () => 1 },
      onBegin: () => {},
      onLanded: (id) => void this.landed.push(`job ${id}`),
    });
  }

  /** Stores a job with so many bytes; returns its slot. */
  job(bodyBytes: number): number {
    const id = ++this.#lastId;
    const body = this.engine.bodies.allocate(bodyBytes);
    this.engine.bodies.write(body, 0, new Uint8Array(bodyBytes).fill(id % 256), 0, bodyBytes);
    const times = { delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, atMs: 0 };
    this.engine.put(this.engine.session(0), { id, pri: 0, bodyBytes, ...times }, body, 0, "here");
    return this.engine.find(id);
  }

  begin(): Transfer {
    return this.sender.begin(TUBE, Travel.Move, {
      landed: (_, taken, refusal) => void this.landed.push(`${taken}, refusal ${refusal}`),
    });
  }

  /** Sends a job alone. */
  send(bodyBytes: number): Transfer {
    const transfer = this.begin();
    this.sender.add(transfer, this.job(bodyBytes), 0);
    this.sender.send(transfer);
    return transfer;
  }
}

describe("a transfer has room", () => {
  it(`for ${TRANSFER_JOBS_MAX} jobs`, () => {
    const scene = new Scene();
    const { sender } = scene;
    const transfer = scene.begin();
    for (let jobs = 0; jobs < TRANSFER_JOBS_MAX; jobs++) {
      const slot = scene.job(0);
      assert.ok(sender.hasRoom(transfer, slot), `${jobs} jobs`);
      sender.add(transfer, slot, 0);
    }
    assert.equal(sender.hasRoom(transfer, scene.job(0)), false);
    assert.ok(sender.hasRoom(scene.begin(), scene.job(0)), "the next one has");
  });

  for (const [more, hasRoom] of [
    [-1, true],
    [0, true],
    [1, false],
    [TRANSFER_BYTES_MAX, false],
  ] as const)
    it(`for its bytes: ${more} more than it may have${hasRoom ? "" : " are too many"}`, () => {
      const scene = new Scene();
      const transfer = scene.begin();
      scene.sender.add(transfer, scene.job(1000), 0);
      assert.equal(transfer.bytes, OWN_BYTES + JOB_BYTES + 1000);
      const left = TRANSFER_BYTES_MAX - transfer.bytes - JOB_BYTES;
      assert.equal(scene.sender.hasRoom(transfer, scene.job(left + more)), hasRoom);
      assert.ok(scene.sender.hasRoom(scene.begin(), scene.job(left + more)), "the first job always fits");
    });
});

describe("a job goes whole", () => {
  const whole = TRANSFER_BYTES_MAX - OWN_BYTES - JOB_BYTES;
  for (const [bodyBytes, isWhole] of [
    [0, true],
    [whole - 1, true],
    [whole, true],
    [whole + 1, false],
    [2 * whole + 1, false],
  ] as const)
    it(`with ${bodyBytes} bytes: ${isWhole ? "yes" : "no, in pieces"}`, () => {
      const scene = new Scene();
      scene.send(bodyBytes);
      scene.sender.step();
      const [first, ...pieces] = scene.said;
      assert.equal(first!.kind, TransferMessage.Begin);
      const flags = TransferView.flags(new DataView(first!.bytes.buffer));
      assert.equal((flags & TransferFlag.InPieces) === 0, isWhole);
      assert.deepEqual(
        new Set(pieces.map(({ kind }) => kind)),
        new Set(isWhole ? [] : [TransferMessage.Piece]),
      );
      const sent = pieces.reduce((sum, { bytes }) => sum + bytes.length, 0);
      assert.equal(sent, isWhole ? 0 : RECORD_FIXED_BYTES + bodyBytes);
    });

  for (const bodyPieces of [PIECES_MAX, PIECES_MAX + 1, 2 * PIECES_MAX + 1])
    it(`with ${bodyPieces} pieces, a few at a time ahead of the credits`, () => {
      const scene = new Scene();
      const { number } = scene.send(bodyPieces * TRANSFER_BYTES_MAX - RECORD_FIXED_BYTES);
      scene.sender.step();
      for (let credits = 0; credits <= bodyPieces - PIECES_MAX; credits++) {
        assert.equal(scene.said.length - 1, PIECES_MAX + credits);
        scene.sender.credit(number);
      }
      assert.equal(scene.said.length - 1, bodyPieces, "and no more than there are");
    });
});

describe("transfers", () => {
  for (const count of [1, TRANSFERS_MAX - 1, TRANSFERS_MAX, TRANSFERS_MAX + 1, 2 * TRANSFERS_MAX + 1])
    it(`are in flight, at most ${TRANSFERS_MAX} of ${count}`, () => {
      const scene = new Scene();
      const transfers = Array.from({ length: count }, () => scene.send(10));
      scene.sender.step();
      for (const [index, { number }] of transfers.entries()) {
        assert.equal(scene.said.length, Math.min(count, TRANSFERS_MAX + index));
        assert.equal(scene.sender.hasWork, false, "the others wait");
        scene.sender.landed(number, 1, Outcome.Done, 0);
        scene.sender.step();
      }
      assert.deepEqual([scene.engine.jobs.live, scene.engine.bodies.usedBytes], [0, 0]);
      scene.check();
    });

  for (const taken of [0, 1, 2, 3])
    it(`leave the jobs that were refused where they are, ${3 - taken} of 3`, () => {
      const scene = new Scene();
      const transfer = scene.begin();
      for (let job = 0; job < 3; job++) scene.sender.add(transfer, scene.job(10), 0);
      scene.sender.send(transfer);
      scene.sender.step();
      const refusal = taken === 3 ? Outcome.Done : Outcome.TubeFull;
      scene.sender.landed(transfer.number, taken, refusal, 0);
      assert.deepEqual(scene.landed, [`${taken}, refusal ${refusal}`, "job 1001", "job 1002", "job 1003"]);
      assert.deepEqual(
        [scene.engine.jobs.live, scene.engine.jobCounts[JobState.Ready]],
        [3 - taken, 3 - taken],
      );
      for (const [index, id] of transfer.ids.entries())
        assert.equal(scene.engine.find(id) >= 0, index >= taken, `job ${id}`);
      scene.check();
      assert.throws(() => scene.sender.landed(transfer.number, 0, refusal, 0), /a transfer lands once/);
    });
});
