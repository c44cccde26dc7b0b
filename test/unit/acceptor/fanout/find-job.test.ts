// Tests of the search for a job that the directory does not know, played by the test.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { ConversationHost, Signal } from "../../../../src/acceptor/fanout/conversation.ts";
import { FindJob, FindSchedule } from "../../../../src/acceptor/fanout/find-job.ts";
import { JobPlaces } from "../../../../src/acceptor/state/shard-links.ts";
import { RequestOp } from "../../../../src/message/request.ts";
import { ResponseFlag, ResponseKind } from "../../../../src/message/response.ts";
import { createTopology, type Topology } from "../../../../src/message/topology.ts";
import { Op } from "../../../../src/protocol/commands.ts";
import { Reply } from "../../../../src/protocol/reply.ts";
import { Request } from "../../../../src/protocol/request.ts";
import { JobDirectory } from "../../../../src/ring/shared-words.ts";
import { NotingHost, signalOf } from "../../../support/in-process/noting-host.ts";

const ID = 5;

const gone = { value: 0 };
const there = { value: 1 };

function searchOf(directory?: (topology: Topology) => void): { search: FindJob; host: NotingHost } {
  const topology = createTopology({ shards: 2, acceptors: 1, jobBytesMax: 65_535, ringBytes: 1 << 16 });
  directory?.(topology);
  const host = new NotingHost(
    (shard, { op }) => `${op === RequestOp.Locate ? "locate" : "command"} at ${shard}`,
  );
  const command = new Request().begin(Op.Bury);
  command.id = ID;
  const search = new FindJob(host, new JobPlaces(topology), command);
  search.begin();
  return { search, host };
}

it("ends with NOT_FOUND if a job goes after it was found, though the directory still names its shard", () => {
  let directory: JobDirectory | undefined;
  const { search, host } = searchOf((topology) => {
    directory = new JobDirectory(topology.directory);
  });
  assert.deepEqual(host.did, ["locate at 0", "locate at 1"]);
  search.onSignal(signalOf(0, ResponseKind.Ack, gone));
  search.onSignal(signalOf(1, ResponseKind.Ack, there));
  assert.deepEqual(host.did, ["command at 1"]);
  directory!.set(ID, 1);
  search.onSignal(signalOf(1, ResponseKind.Absent));
  assert.deepEqual(host.did, ["command at 1"], "the job may have moved and come back");
  search.onSignal(signalOf(1, ResponseKind.Absent));
  assert.deepEqual(host.did, ["locate at 0", "locate at 1"], "to know what NOT_FOUND waits for");
  search.onSignal(signalOf(1, ResponseKind.Ack, gone));
  search.onSignal(signalOf(0, ResponseKind.Ack, gone));
  assert.deepEqual(host.did, ["NOT_FOUND"]);
});

it("NOT_FOUND waits for deletes of the job that are not durable yet", () => {
  const { search, host } = searchOf((topology) => new JobDirectory(topology.directory).set(ID, 1));
  assert.deepEqual(host.did, ["command at 1"]);
  search.onSignal(signalOf(1, ResponseKind.Absent));
  assert.deepEqual(host.did, ["locate at 0", "locate at 1"]);
  const durable = { ...gone, flags: ResponseFlag.Durable, recordNumber: 7 };
  search.onSignal(signalOf(1, ResponseKind.Ack, durable));
  search.onSignal(signalOf(0, ResponseKind.Ack, gone));
  assert.deepEqual(host.did, ["behind record 7 of 1", "NOT_FOUND"]);
});

// Tests what NOT_FOUND waits for when several shards are asked for a schedule.

it("NOT_FOUND waits for deletes of the schedule that are not durable yet", () => {
  const done: unknown[] = [];
  const host = {
    message: () => new Request(),
    post: () => {},
    holdFor: (shard: number, record: number) => done.push([shard, record]),
    finishConversation: (reply: Uint8Array | undefined) => done.push(reply),
  } as unknown as ConversationHost;
  const request = new Request();
  request.op = Op.InspectSchedule;
  const search = new FindSchedule(host, { shards: 2, scheduleMoves: 0 } as JobPlaces, request);
  search.begin();
  const absent = { kind: ResponseKind.Ack, value: 0, flags: 0, recordNumber: 0 } as Signal;
  search.onSignal({ ...absent, shard: 1, flags: ResponseFlag.Durable, recordNumber: 7 });
  assert.deepEqual(done, []);
  search.onSignal({ ...absent, shard: 0 });
  assert.deepEqual(done, [[1, 7], Reply.notFound]);
});
