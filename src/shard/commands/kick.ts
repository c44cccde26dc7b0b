// `kick`: makes buried jobs of the tube in use ready, or delayed ones if there are none.

import { KickMany } from "../slices/kick-many.ts";
import type { ShardCommand } from "./command.ts";

/** May take several turns. */
export const kick: ShardCommand = ({ engine, replies, slicedCommands, nowMs }, session, { count }) => {
  engine.runDue(nowMs);
  slicedCommands.start(session, new KickMany(engine, replies, session, count), nowMs);
};
