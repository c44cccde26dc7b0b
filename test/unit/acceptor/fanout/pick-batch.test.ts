// Tests of batches over several shards, played by the test: which jobs are chosen, which shards are
// asked, and how the reply is combined.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ListReplies } from "../../../../src/acceptor/fanout/list-reply.ts";
import { GatherBudget, PickBatch } from "../../../../src/acceptor/fanout/pick-batch.ts";
import { Next } from "../../../../src/acceptor/fanout/shared-reserve.ts";
import { BatchView, LISTED_BYTES, RequestFlag, RequestOp } from "../../../../src/message/request.ts";
import { CANDIDATE_LOST, ResponseFlag, ResponseKind } from "../../../../src/message/response.ts";
import { BATCH_BYTES_MAX } from "../../../../src/protocol/limits.ts";
import { type Request, Span } from "../../../../src/protocol/request.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { NotingHost, signalOf } from "../../../support/in-process/noting-host.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { tubeOn } from "../../../support/tube-on.ts";

interface Job {
  readonly shard: number;
  readonly pri: number;
  readonly id: number;
  readonly bytes: number;
  readonly lost: boolean;
}

interface Share {
  readonly ids: number[];
  readonly flags: number;
  readonly jobsMax: number;
  readonly bytesMax: number;
}

/** A batch and its connection. */
class Stage {
  readonly budget = new GatherBudget();
  readonly #replies = new ListReplies();
  readonly #shares = new Map<number, Share>();
  readonly host = new NotingHost((shard, message) => this.#note(shard, message));
  readonly picker: PickBatch;

  constructor(jobsMax: number, bytesMax = BATCH_BYTES_MAX, oneGroup = 0) {
    const request = { jobsMax, bytesMax, details: 0, oneGroup };
    this.picker = new PickBatch(this.host, request, this.#replies, this.budget, undefined);
  }

  #note(shard: number, message: Request): string {
    const { op, flags, body } = message;
    assert.equal(op, RequestOp.TakeBatch);
    const { buffer } = body.bytes.slice(body.start, body.end);
    const ids = Array.from({ length: buffer.byteLength / LISTED_BYTES }, (_, index) =>
      new DataView(buffer).getFloat64(index * LISTED_BYTES, true),
    );
    const [jobsMax, bytesMax] = [BatchView.jobsMax(message), BatchView.bytesMax(message)];
    this.#shares.set(shard, { ids, flags, jobsMax, bytesMax });
    return `ask ${shard}`;
  }

  /** A shard names its jobs, best first. */
  name(shard: number, jobs: readonly Job[], isCut = false): void {
    const list = new DataView(new ArrayBuffer(8 + jobs.length * 16));
    for (const [index, { id, pri, bytes, lost }] of jobs.entries()) {
      list.setFloat64(8 + index * 16, id, true);
      list.setUint32(16 + index * 16, pri, true);
      list.setUint32(20 + index * 16, bytes + (lost ? CANDIDATE_LOST : 0), true);
    }
    const payload = new Span();
    payload.set(new Uint8Array(list.buffer), 0, list.byteLength);
    this.picker.note(signalOf(shard, ResponseKind.Candidates, { payload, pri: isCut ? 1 : 0 }));
  }

  /** Returns the request to each shard. */
  take(): Map<number, Share> {
    this.#shares.clear();
    this.picker.take();
    return new Map(this.#shares);
  }

  /** A shard gives what it was asked for, but for `gone`, in pieces of so many bytes. */
  give(shard: number, ids: readonly number[], gone: readonly number[] = [], pieceBytes = 1000): Next {
    const texts = ids.map((id) => (gone.includes(id) ? "" : textOf(id)));
    const sizes = Buffer.alloc(ids.length * 4);
    for (const [index, text] of texts.entries()) sizes.writeUInt32LE(text.length, index * 4);
    const all = Buffer.concat([sizes, Buffer.from(texts.join(""))]);
    let next: Next = Next.GoOn;
    for (let at = 0; at < all.length; at += pieceBytes) {
      const end = Math.min(all.length, at + pieceBytes);
      const piece = new Span();
      piece.set(all, at, end);
      next = this.picker.onGathered(shard, end < all.length ? ResponseFlag.More : 0, piece);
    }
    return next;
  }

  /** Writes what may be written; what the client has got of the reply. */
  write(): string {
    for (let turn = 0; turn < 50; turn++) this.#replies.turn();
    return this.host.did.filter((each) => !each.startsWith("ask ")).join("");
  }
}

const textOf = (id: number): string => `RESERVED ${id} 1\r\nx\r\n`;
const goesBefore = (a: Job, b: Job): number => a.pri - b.pri || a.id - b.id;

/** The jobs of a batch, as naively as possible. */
function naive(jobs: readonly Job[], jobsMax: number, bytesMax: number): Job[] {
  const chosen: Job[] = [];
  let bytes = 0;
  for (const job of [...jobs].sort(goesBefore)) {
    bytes += job.bytes;
    const first = chosen.length === 0;
    if (chosen.length === jobsMax || (!first && (job.lost || bytes > bytesMax))) break;
    chosen.push(job);
    if (job.lost) break;
  }
  return chosen;
}

function drawJobs(random: SeededRandom, shards: number): Job[] {
  return Array.from({ length: random.between(0, 30) }, (_, index) => ({
    shard: random.between(0, shards - 1),
    pri: random.between(0, 2),
    id: index + 1,
    bytes: random.between(0, 10),
    lost: random.chance(0.05),
  }));
}

describe("PickBatch", () => {
  it("chooses what a single queue would give, asks each shard for its part, and writes it in order", () => {
    for (let seed = 1; seed <= 300; seed++) {
      const random = new SeededRandom(seed);
      const shards = random.between(1, 7);
      const [jobsMax, bytesMax] = [random.pick([1, 3, 10, 1000]), random.pick([1, 20, 1000])];
      const jobs = drawJobs(random, shards);
      const stage = new Stage(jobsMax, bytesMax);
      const ofShard = (shard: number): Job[] => jobs.filter((job) => job.shard === shard).sort(goesBefore);
      for (let shard = 0; shard < shards; shard++) stage.name(shard, ofShard(shard).slice(0, jobsMax));
      const chosen = naive(jobs, jobsMax, bytesMax);
      const shares = stage.take();
      const where = `seed ${seed}`;
      assert.deepEqual(
        [...shares].flatMap(([shard, { ids }]) => ids.map((id) => `${shard}: ${id}`)).sort(),
        chosen.map(({ shard, id }) => `${shard}: ${id}`).sort(),
        where,
      );
      for (const { flags } of shares.values()) {
        assert.equal((flags & RequestFlag.Whole) !== 0, shares.size === 1, where);
        assert.equal((flags & RequestFlag.Single) !== 0, chosen.length === 1, where);
      }
      if (shares.size < 2) continue;
      const gone = chosen.map(({ id }) => id).filter(() => random.chance(0.2));
      const given = chosen.filter(({ id }) => !gone.includes(id));
      const nexts = [...shares]
        .reverse()
        .map(([shard, { ids }]) => stage.give(shard, ids, gone, random.pick([1, 7, 1000])));
      assert.equal(nexts.at(-1), given.length === 0 ? Next.Collect : Next.GoOn, where);
      const expected = `RESERVED_BATCH ${given.length}\r\n${given.map(({ id }) => textOf(id)).join("")}done`;
      assert.equal(stage.write(), given.length === 0 ? "" : expected, where);
      assert.equal(stage.budget.batchBytesMax, BATCH_BYTES_MAX, "its memory is given back");
    }
  });

  it("has the shard of the best job take a batch of one group", () => {
    const stage = new Stage(10, 50, RequestFlag.OneGroup);
    const question = stage.host.message(RequestOp.CollectBatch);
    stage.picker.ask(question);
    assert.equal(BatchView.jobsMax(question), 1, "the rest of a list would be of no use");
    const job = (shard: number, id: number): Job => ({ shard, id, pri: 0, bytes: 1, lost: false });
    stage.name(0, [job(0, 2)]);
    stage.name(1, [job(1, 1)], true);
    const flags = RequestFlag.Batch | RequestFlag.OneGroup | RequestFlag.Whole | RequestFlag.Single;
    assert.deepEqual([...stage.take()], [[1, { ids: [1], flags, jobsMax: 10, bytesMax: 50 }]]);
  });

  it("ends where a shard's list is truncated", () => {
    const stage = new Stage(10);
    const job = (shard: number, id: number): Job => ({ shard, id, pri: 0, bytes: 1, lost: false });
    stage.name(0, [job(0, 1), job(0, 3)], true);
    stage.name(1, [job(1, 2), job(1, 4), job(1, 5)]);
    const shares = stage.take();
    assert.deepEqual(shares.get(0)?.ids, [1, 3]);
    assert.deepEqual(shares.get(1)?.ids, [2], "4 may be behind a job of shard 0 that it has not named");
  });

  it("writes as its client reads, and frees its memory when the client leaves", () => {
    const stage = new Stage(10);
    stage.host.mayTakeMore = false;
    // Any more, and the next batches are small.
    stage.budget.count(64 * 1024 * 1024 - 1);
    const job = (shard: number, id: number): Job => ({ shard, id, pri: 0, bytes: 70_000, lost: false });
    stage.name(0, [job(0, 1)]);
    stage.name(1, [job(1, 2)]);
    for (const [shard, { ids }] of stage.take()) stage.give(shard, ids);
    assert.equal(stage.write(), "");
    assert.ok(stage.budget.batchBytesMax < BATCH_BYTES_MAX);
    stage.picker.onClosed();
    assert.equal(stage.budget.batchBytesMax, BATCH_BYTES_MAX);
    stage.host.mayTakeMore = true;
    stage.picker.onRoom();
    assert.equal(stage.write(), "");
  });

  it("is small while many large ones are unread", () => {
    const stage = new Stage(1000);
    const large = stage.budget.batchBytesMax;
    stage.budget.count(64 * 1024 * 1024);
    assert.ok(stage.budget.batchBytesMax < large / 10);
    const job = (shard: number, id: number): Job => ({ shard, id, pri: 0, bytes: 40_000, lost: false });
    stage.name(0, [job(0, 1), job(0, 3)]);
    stage.name(1, [job(1, 2)]);
    assert.deepEqual(
      [...stage.take().values()].map(({ ids }) => ids),
      [[1]],
    );
    stage.budget.count(-64 * 1024 * 1024);
    assert.equal(stage.budget.batchBytesMax, large);
  });
});

// Tests of a put that replaces the body of a job while a batch over several shards is chosen.

const SHARDS = 2;
const TURNS_MAX = 8;

/** The body of a job in the reply to `reserve-batch`, by id. */
function bodiesOf(reply: string): Map<number, string> {
  const jobs = reply.matchAll(/RESERVED (\d+) \d+\r\n(.*)\r\n/g);
  return new Map([...jobs].map(([, id, body]) => [Number(id), body!]));
}

describe("a put that replaces a body, so many turns after a batch over several shards began", () => {
  for (let turns = 0; turns < TURNS_MAX; turns++)
    for (const bytes of [1, 10, 60_000])
      it(`${turns}: by one of ${bytes} bytes`, () => {
        const server = new HandDrivenServer(SHARDS);
        const [a, b] = [tubeOn(0, SHARDS), tubeOn(1, SHARDS)];
        const producer = server.connect(true);
        const put = (tube: string, body: string): string =>
          `put-in-tube ${tube} 0 0 60 ${body.length} unique=k on-duplicate=replace\r\n${body}\r\n`;
        producer.say(put(a, "first one") + put(b, "first two"));
        server.settle();
        producer.take();
        const worker = server.connect(true);
        worker.say(`watch ${a}\r\nwatch ${b}\r\n`);
        server.settle();
        worker.take();
        worker.say("reserve-batch 10 0\r\n");
        for (let turn = 0; turn < turns; turn++) server.turn();
        const body = "r".repeat(bytes);
        producer.say(put(a, body));
        server.settle();
        const isReplaced = producer.take().includes("REPLACED 1");
        const jobs = bodiesOf(worker.take());
        assert.equal(jobs.get(2), "first two");
        if (!isReplaced) assert.equal(jobs.get(1), "first one");
        else if (jobs.has(1)) assert.equal(jobs.get(1), body);
        else {
          worker.say("reserve-batch 10 0\r\n");
          server.settle();
          assert.equal(bodiesOf(worker.take()).get(1), body);
        }
      });
});
