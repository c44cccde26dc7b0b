// Tests of transfers to other shards: how many jobs and bytes one takes, when a job goes in pieces,
// how many are in flight, and what becomes of the jobs when they land.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Engine } from "../../../../src/engine/engine.ts";
import { Outcome } from "../../../../src/engine/jobs/ends.ts";
import { JobState } from "../../../../src/engine/jobs/job-table.ts";
import { Travel } from "../../../../src/engine/transfers.ts";
import { RECORD_FIXED_BYTES } from "../../../../src/message/record.ts";
import type { ReplyPort } from "../../../../src/message/response.ts";
import {
  TRANSFER_BYTES_MAX,
  TRANSFER_HEADER_BYTES,
  TRANSFER_JOB_HEADER_BYTES,
  TRANSFER_JOBS_MAX,
  TransferFlag,
  TransferMessage,
  TransferView,
} from "../../../../src/message/transfer.ts";
import { DeadLetters } from "../../../../src/shard/transfer/far-moves.ts";
import { type Sender, Transfer, TransferSender } from "../../../../src/shard/transfer/transfer-sender.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { tubeOn } from "../../../support/tube-on.ts";
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

// Tests of the rounds in which dead jobs leave for other shards: how many a turn looks at and a
// round takes, and what is left for later.

describe("dead letter rounds", () => {
  /** An engine whose dead jobs leave, and a sender that keeps their transfers. */
  class Scene {
    readonly letters: DeadLetters;
    /** Ids of jobs that needn't leave any more. */
    readonly stale: Set<number> = new Set();
    looks = 0;
    readonly #sent: Transfer[] = [];
    #leaving: number[] = [];
    #last = 0;

    constructor() {
      const scene = this;
      const deaths = {
        get someLeave(): boolean {
          return scene.#leaving.length > 0;
        },
        takeLeaving: () => this.#leaving.splice(0),
      };
      const engine = {
        policies: { deaths },
        transfers: {
          leavesFor: (id: number) => {
            this.looks++;
            return this.stale.has(id) ? "" : "dead";
          },
        },
        find: (id: number) => id,
      };
      const sender: Partial<TransferSender> = {
        begin: (tube: string, travel: Travel, by: Sender) => new Transfer(++this.#last, tube, travel, by),
        hasRoom: () => true,
        add: (transfer: Transfer, slot: number) => {
          transfer.ids.push(slot);
          transfer.bytes++;
        },
        send: (transfer: Transfer) => void this.#sent.push(transfer),
      };
      this.letters = new DeadLetters(engine as unknown as Engine, sender as TransferSender);
    }

    /** So many more jobs die, with ids from `from` on. */
    die(from: number, count: number): void {
      for (let id = from; id < from + count; id++) this.#leaving.push(id);
    }

    /** The ids under way, which arrive. */
    land(): number[] {
      return this.#sent.splice(0).flatMap((transfer) => {
        transfer.sender.landed(transfer, transfer.ids.length, Outcome.Done);
        return transfer.ids;
      });
    }
  }

  const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, n) => from + n);
  const SIZES = [
    1,
    TRANSFER_JOBS_MAX - 1,
    TRANSFER_JOBS_MAX,
    TRANSFER_JOBS_MAX + 1,
    2 * TRANSFER_JOBS_MAX + 1,
  ];

  describe("a round", () => {
    for (const jobs of SIZES)
      it(`takes at most ${TRANSFER_JOBS_MAX} jobs, of ${jobs}; the next one waits until they have landed`, () => {
        const scene = new Scene();
        const { letters } = scene;
        assert.equal(letters.hasWork, false);
        scene.die(1, jobs);
        for (let at = 0; at < jobs; at += TRANSFER_JOBS_MAX) {
          assert.equal(letters.hasWork, true);
          letters.step(0);
          const count = Math.min(TRANSFER_JOBS_MAX, jobs - at);
          const isLeft = at + count < jobs;
          assert.deepEqual([letters.isUnderWay, letters.hasWork], [isLeft, false]);
          letters.step(0);
          assert.equal(scene.looks, at + count, "nothing more is sent meanwhile");
          assert.deepEqual(scene.land(), range(1 + at, count));
          assert.deepEqual([letters.isUnderWay, letters.hasWork], [isLeft, isLeft]);
        }
      });

    it("takes those that die later after those of before, in the same round if it has room", () => {
      const scene = new Scene();
      const { letters } = scene;
      scene.die(1, TRANSFER_JOBS_MAX + 1);
      letters.step(0);
      scene.die(1001, 2);
      assert.deepEqual([letters.isUnderWay, letters.hasWork], [true, false]);
      assert.equal(scene.land().length, TRANSFER_JOBS_MAX);
      letters.step(0);
      assert.deepEqual([letters.isUnderWay, scene.land()], [false, [TRANSFER_JOBS_MAX + 1, 1001, 1002]]);
      assert.equal(letters.hasWork, false);
    });
  });

  describe("a turn looks at", () => {
    for (const jobs of SIZES)
      it(`at most ${TRANSFER_JOBS_MAX} jobs that stay, of ${jobs}`, () => {
        const scene = new Scene();
        const { letters, stale } = scene;
        for (const id of range(1, jobs)) stale.add(id);
        scene.die(1, jobs + 1);
        for (let turn = 1; letters.hasWork; turn++) {
          letters.step(0);
          const looks = Math.min(jobs + 1, turn * TRANSFER_JOBS_MAX);
          assert.deepEqual([scene.looks, letters.isUnderWay], [looks, looks <= jobs]);
        }
        assert.deepEqual(scene.land(), [jobs + 1]);
        assert.deepEqual([letters.isUnderWay, letters.hasWork], [false, false]);
      });
  });
});

// Tests of dead jobs that needn't leave for another shard any more, just as they are about to.

const [MAILS, DEAD] = [tubeOn(0, 2), tubeOn(1, 2)];

describe("the release of a job that dies is answered, though another client", () => {
  for (const [what, command, reply] of [
    ["deletes the job", "delete 1", "DELETED"],
    ["kicks the job", "kick-job 1", "KICKED"],
    ["takes the tube's dead-letter tube away", `set-tube ${MAILS} dead-letter=`, "SET"],
    ["changes nothing", "peek 1", "FOUND 1 1\r\nx"],
  ] as const)
    it(what, () => {
      const server = new HandDrivenServer(2);
      const [worker, other] = [server.connect(true), server.connect(true)];
      worker.say(`set-tube ${MAILS} max-attempts=1 dead-letter=${DEAD}\r\nuse ${MAILS}\r\n`);
      worker.say(`put 0 0 60 1\r\nx\r\nreserve-job 1\r\n`);
      server.settle();
      worker.take();
      worker.say("release 1 0 0\r\n");
      other.say(`${command}\r\n`);
      server.settle();
      assert.deepEqual([worker.take(), other.take()], ["RELEASED\r\n", `${reply}\r\n`]);
    });
});
