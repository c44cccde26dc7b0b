// `list-tubes`: the tubes of this shard, for the acceptor that merges the lists of all.

import type { ShardCommand } from "./command.ts";

/** Sends this shard's part, in several turns. */
export const listTubes: ShardCommand = ({ lists }, session) => lists.begin(session);
