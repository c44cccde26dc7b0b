// Tests of `delete-batch` over several shards, played by the test: how many ids a message takes,
// which ids are asked for again, which records the reply waits for, and what it says.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type BegunBatch, DeleteBatch } from "../../../../src/acceptor/fanout/delete-batch.ts";
import { JobPlaces } from "../../../../src/acceptor/state/shard-links.ts";
import { asciiBytes, latin1 } from "../../../../src/base/bytes.ts";
import { RequestFlag } from "../../../../src/message/request.ts";
import { Deleted, ResponseFlag, ResponseKind } from "../../../../src/message/response.ts";
import { createTopology } from "../../../../src/message/topology.ts";
import { Span } from "../../../../src/protocol/request.ts";
import { JobDirectory } from "../../../../src/ring/shared-words.ts";
import { NotingHost, signalOf } from "../../../support/in-process/noting-host.ts";

const { No, Yes, Elsewhere } = Deleted;
const SHARDS = 3;
/** The results in an Ack follow the soonest deadline. */
const RESULTS_AT = 8;

interface Scene {
  readonly batch: DeleteBatch;
  readonly host: NotingHost;
  readonly directory: JobDirectory;
  /** A shard answers with a result for each id, perhaps with a record of its own. */
  readonly answer: (shard: number, results: readonly number[], recordNumber?: number) => void;
}

/** A batch of these ids, whose shards the directory knows by the id. */
function scene(ids: readonly number[], shardOf: (id: number) => number, begun?: BegunBatch): Scene {
  const topology = createTopology({ shards: SHARDS, acceptors: 1, jobBytesMax: 65_535, ringBytes: 1 << 16 });
  const directory = new JobDirectory(topology.directory);
  for (const id of ids) if (shardOf(id) >= 0) directory.set(id, shardOf(id));
  const host = new NotingHost((shard, { ids: { bytes, start, end }, count, flags }) => {
    assert.equal(flags, RequestFlag.AckOnly | RequestFlag.Probe);
    const text = latin1(bytes, start, end);
    assert.equal(text.split(" ").length, count);
    return `${shard}: ${text}`;
  });
  const span = new Span();
  const text = asciiBytes(ids.join(" "));
  span.set(text, 0, text.length);
  const batch = new DeleteBatch(host, new JobPlaces(topology), span, begun);
  const answer = (shard: number, results: readonly number[], recordNumber = 0): void => {
    const payload = new Span();
    payload.set(
      Uint8Array.from([...new Array<number>(RESULTS_AT).fill(0), ...results]),
      0,
      RESULTS_AT + results.length,
    );
    const flags = recordNumber === 0 ? 0 : ResponseFlag.Durable;
    batch.onSignal(signalOf(shard, ResponseKind.Ack, { flags, recordNumber, payload }));
  };
  return { batch, host, directory, answer };
}

const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, n) => from + n);

describe("a message takes the ids that fit into it", () => {
  // An id of nine digits and a space are a hundredth of a message.
  for (const count of [1, 99, 100, 101, 201])
    for (const payloadBytesMax of [999, 1000, 1001])
      it(`of ${count}, into ${payloadBytesMax} bytes`, () => {
        const ids = range(100_000_000, count);
        const { batch, host, answer } = scene(ids, () => 1);
        host.payloadBytesMax = payloadBytesMax;
        const room = Math.floor(payloadBytesMax / 10);
        batch.begin();
        for (let at = 0; at < count; at += room) {
          const asked = ids.slice(at, at + room);
          assert.deepEqual(host.did, [`1: ${asked.join(" ")}`]);
          answer(
            1,
            asked.map(() => Yes),
          );
        }
        assert.deepEqual(host.did, [`DELETED_BATCH ${count} 0`]);
      });

  it("together with those of other shards", () => {
    const ids = range(100_000_000, 5);
    const { batch, host, answer } = scene(ids, (id) => id % SHARDS);
    host.payloadBytesMax = 40;
    batch.begin();
    assert.deepEqual(host.did, ["1: 100000000 100000003", "2: 100000001", "0: 100000002"]);
    answer(0, [Yes]);
    answer(1, [Yes, No]);
    assert.deepEqual(host.did, [], "the rest is asked for when all have answered");
    answer(2, [Yes]);
    assert.deepEqual(host.did, ["2: 100000004"]);
    answer(2, [No]);
    assert.deepEqual(host.did, ["DELETED_BATCH 3 2 100000003 100000004"]);
  });
});

describe("the reply waits", () => {
  it("for the last record of each shard that wrote one, whatever the round", () => {
    const { batch, host, answer } = scene(range(1, 6), (id) => id % SHARDS);
    host.payloadBytesMax = 6;
    batch.begin();
    assert.equal(host.did.length, 3);
    answer(1, [Yes], 11);
    answer(2, [No]);
    answer(0, [Yes], 13);
    assert.equal(host.did.length, 3);
    answer(0, [Yes], 23);
    answer(1, [No]);
    answer(2, [Yes], 22);
    assert.deepEqual(host.did.toSorted(), [
      "DELETED_BATCH 4 2 2 4",
      "behind record 11 of 1",
      "behind record 22 of 2",
      "behind record 23 of 0",
    ]);
  });

  it("for none if nothing was deleted", () => {
    const { batch, host, answer } = scene([1], () => 2);
    batch.begin();
    assert.deepEqual(host.did, ["2: 1"]);
    answer(2, [No]);
    assert.deepEqual(host.did, ["DELETED_BATCH 0 1 1"]);
  });

  for (const later of [0, 9])
    it(`for that of a batch that a shard had begun, and a later one of the shard: ${later}`, () => {
      const results = Uint8Array.from([Yes, Elsewhere, No, Elsewhere]);
      const { batch, host, answer } = scene(range(1, 4), (id) => (id === 4 ? 2 : 0), {
        ...{ shard: 2, recordNumber: 7, results },
      });
      batch.begin();
      assert.deepEqual(host.did, ["0: 2", "2: 4"], "only for those that were elsewhere");
      answer(0, [Yes], 5);
      answer(2, [later === 0 ? No : Yes], later);
      const [deleted, missing] = later === 0 ? [2, "2 3 4"] : [3, "1 3"];
      const last = later === 0 ? 7 : later;
      assert.deepEqual(host.did, [
        `behind record ${last} of 2`,
        "behind record 5 of 0",
        `DELETED_BATCH ${deleted} ${missing}`,
      ]);
    });
});

describe("an id that the directory doesn't know", () => {
  it("is asked for on every shard, once", () => {
    const { batch, host, answer } = scene([5, 6], () => -1);
    batch.begin();
    assert.deepEqual(host.did, ["0: 5 6", "1: 5 6", "2: 5 6"]);
    answer(1, [No, Elsewhere]);
    answer(0, [Elsewhere, Yes]);
    answer(2, [Elsewhere, Elsewhere]);
    assert.deepEqual(host.did, ["DELETED_BATCH 1 1 5"]);
  });

  it("is asked for again if its entry has changed, as long as that does", () => {
    const { batch, host, answer, directory } = scene([5, 6], () => -1);
    batch.begin();
    assert.equal(host.did.length, SHARDS);
    directory.set(5, 1);
    for (let shard = 0; shard < SHARDS; shard++) answer(shard, [Elsewhere, Elsewhere]);
    assert.deepEqual(host.did, ["1: 5"], "and the other one isn't");
    answer(1, [Elsewhere]);
    assert.deepEqual(host.did, ["1: 5"], "it may have moved on");
    directory.set(5, 2);
    answer(1, [Elsewhere]);
    assert.deepEqual(host.did, ["2: 5"]);
    answer(2, [Yes], 3);
    assert.deepEqual(host.did, ["behind record 3 of 2", "DELETED_BATCH 1 1 6"]);
  });

  it("isn't asked for again if one shard has deleted it, though its entry has changed", () => {
    const { batch, host, answer, directory } = scene([5], () => -1);
    batch.begin();
    assert.equal(host.did.length, SHARDS);
    directory.set(5, 1);
    answer(0, [Elsewhere]);
    answer(1, [Yes]);
    answer(2, [Elsewhere]);
    assert.deepEqual(host.did, ["DELETED_BATCH 1 0"]);
  });
});

it("only the first mention of an id counts as deleted, whichever found the job", () => {
  const { batch, host, answer } = scene([7, 8, 7, 7], () => 0);
  batch.begin();
  assert.deepEqual(host.did, ["0: 7 8 7 7"]);
  answer(0, [No, Yes, Yes, No]);
  assert.deepEqual(host.did, ["DELETED_BATCH 2 2 7 7"]);
});

it("a late signal of a reserve that has ended is no answer", () => {
  const { batch, host, answer } = scene([7], () => 0);
  batch.begin();
  assert.equal(host.did.length, 1);
  batch.onSignal(signalOf(0, ResponseKind.WaitDue));
  assert.deepEqual(host.did, []);
  answer(0, [Yes]);
  assert.deepEqual(host.did, ["DELETED_BATCH 1 0"]);
});
