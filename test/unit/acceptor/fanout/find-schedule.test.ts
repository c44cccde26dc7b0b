// Tests what NOT_FOUND waits for when several shards are asked for a schedule.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { ConversationHost, Signal } from "../../../../src/acceptor/fanout/conversation.ts";
import { FindSchedule } from "../../../../src/acceptor/fanout/find-job.ts";
import type { JobPlaces } from "../../../../src/acceptor/state/job-places.ts";
import { ResponseFlag, ResponseKind } from "../../../../src/message/response.ts";
import { Op } from "../../../../src/protocol/commands.ts";
import { Reply } from "../../../../src/protocol/reply.ts";
import { Request } from "../../../../src/protocol/request.ts";

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
