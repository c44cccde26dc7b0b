// Tests of a delete-batch that one shard has begun and another one ends: what its reply waits for.

import assert from "node:assert/strict";
import { it } from "node:test";
import { DeleteBatch } from "../../../../src/acceptor/fanout/delete-batch.ts";
import { JobPlaces } from "../../../../src/acceptor/state/job-places.ts";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { Deleted } from "../../../../src/message/deleted.ts";
import { ResponseFlag, ResponseKind } from "../../../../src/message/response.ts";
import { createTopology } from "../../../../src/message/topology.ts";
import { Span } from "../../../../src/protocol/request.ts";
import { JobDirectory } from "../../../../src/ring/job-directory.ts";
import { NotingHost, signalOf } from "../../../support/in-process/noting-host.ts";

function spanOf(bytes: Uint8Array): Span {
  const span = new Span();
  span.set(bytes, 0, bytes.length);
  return span;
}

it("DELETED_BATCH waits for the deletes of the shard that began, whether or not the other one has any", () => {
  for (const isThere of [false, true]) {
    const topology = createTopology({ shards: 2, acceptors: 1, jobBytesMax: 65_535, ringBytes: 1 << 16 });
    const directory = new JobDirectory(topology.directory);
    for (const id of [5, 6]) directory.set(id, id - 5);
    const host = new NotingHost((shard, { ids }) => `${ids.text} at ${shard}`);
    const results = Uint8Array.of(Deleted.Yes, Deleted.Elsewhere);
    const begun = { shard: 0, recordNumber: 3, results };
    const batch = new DeleteBatch(host, new JobPlaces(topology), spanOf(asciiBytes("5 6")), begun);
    batch.begin();
    assert.deepEqual(host.did, ["6 at 1"]);
    const payload = spanOf(Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, isThere ? Deleted.Yes : Deleted.No));
    const durable = isThere ? { flags: ResponseFlag.Durable, recordNumber: 4 } : {};
    batch.onSignal(signalOf(1, ResponseKind.Ack, { payload, ...durable }));
    assert.deepEqual(host.did, [
      "behind record 3 of 0",
      ...(isThere ? ["behind record 4 of 1", "DELETED_BATCH 2 0"] : ["DELETED_BATCH 1 1 6"]),
    ]);
  }
});
