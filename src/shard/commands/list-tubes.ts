// `list-tubes`: the tubes of this shard, for the acceptor that puts the lists of all together.

import type { ShardCommand } from "./command.ts";

/** This shard's part, sent in several turns. */
export const listTubes: ShardCommand = ({ lists }, session) => lists.begin(session);
