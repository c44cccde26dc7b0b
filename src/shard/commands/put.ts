// `put` and `put-in-tube`, with the whole body.

import type { ShardCommand } from "./command.ts";

/** Stores a job whose whole body is in the message. */
export const put: ShardCommand = ({ puts, nowMs }, session, request) => puts.put(session, request, nowMs);

/** Stores a job whose body is in the arena already. */
export const putStored: ShardCommand = ({ puts, nowMs }, session, request) =>
  puts.putStored(session, request, nowMs);
