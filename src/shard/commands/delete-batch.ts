// `delete-batch`: removes jobs by their ids.

import { assert } from "../../base/assert.ts";
import { RequestFlag } from "../../message/request.ts";
import { DeleteMany } from "../slices/delete-many.ts";
import type { ShardCommand } from "./command.ts";

export const deleteBatch: ShardCommand = (shard, session, { ids, count, flags }) => {
  assert(count > 0, "a delete-batch names a job");
  const { engine, replies, slicedCommands, nowMs } = shard;
  const forAcceptor = (flags & RequestFlag.AckOnly) !== 0;
  slicedCommands.start(session, new DeleteMany(engine, replies, session, ids, count, forAcceptor), nowMs);
};
