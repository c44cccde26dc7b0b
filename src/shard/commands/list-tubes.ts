import type { ShardCommand } from "./command.ts";

/** This shard's part, sent in several turns. */
export const listTubes: ShardCommand = ({ lists }, session) => lists.begin(session);
