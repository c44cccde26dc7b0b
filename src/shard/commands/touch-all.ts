// `touch-all`: renews the TTR of every job that the session holds.

import { RequestFlag } from "../../message/request.ts";
import { TouchMany } from "../slices/touch-many.ts";
import type { ShardCommand } from "./command.ts";

/** May take several turns. */
export const touchAll: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, { flags }) => {
  const forAcceptor = (flags & RequestFlag.AckOnly) !== 0;
  slicedCommands.start(session, new TouchMany(engine, replies, session, forAcceptor), nowMs);
};
