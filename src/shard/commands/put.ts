// `put` and `put-in-tube`, with the whole body.

import type { ShardCommand } from "./command.ts";

/** A job with its whole body. */
export const put: ShardCommand = ({ puts, nowMs }, session, request) => puts.put(session, request, nowMs);

/** A job whose body is in the arena already. */
export const putStored: ShardCommand = ({ puts, nowMs }, session, request) =>
  puts.putStored(session, request, nowMs);
