import type { ShardCommand } from "../command.ts";

/** May take several turns. */
export const kick: ShardCommand = ({ moves, nowMs }, session, { bound }) => moves.kick(session, bound, nowMs);
