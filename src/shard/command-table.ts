// What a shard does for each op: a line here, a function in commands/.

import { RequestOp } from "../message/request.ts";
import { Op } from "../protocol/commands.ts";
import type { ShardCommand } from "./command.ts";
import { bury } from "./commands/bury.ts";
import { attach, close, credit, echo, halfClose } from "./commands/connection.ts";
import { deleteJob } from "./commands/delete.ts";
import { ignore } from "./commands/ignore.ts";
import { kick } from "./commands/kick.ts";
import { kickJob } from "./commands/kick-job.ts";
import { listTubes } from "./commands/list-tubes.ts";
import { pauseTube } from "./commands/pause-tube.ts";
import { peek } from "./commands/peek.ts";
import { peekBuried, peekDelayed, peekReady } from "./commands/peek-queue.ts";
import { put } from "./commands/put.ts";
import { putData, putEnd, putOpen } from "./commands/put-in-pieces.ts";
import { release } from "./commands/release.ts";
import { reserve } from "./commands/reserve.ts";
import { reserveJob } from "./commands/reserve-job.ts";
import { collect, lookFirst, recheck, stopWait, take, waitShared } from "./commands/shared-reserve.ts";
import { stats } from "./commands/stats.ts";
import { statsJob } from "./commands/stats-job.ts";
import { statsTube } from "./commands/stats-tube.ts";
import { touch } from "./commands/touch.ts";
import { unuse, use } from "./commands/use.ts";
import { watch } from "./commands/watch.ts";

const BY_OP: Readonly<Record<number, ShardCommand>> = {
  [Op.Put]: put,
  [Op.Peek]: peek,
  [Op.PeekReady]: peekReady,
  [Op.PeekDelayed]: peekDelayed,
  [Op.PeekBuried]: peekBuried,
  [Op.Reserve]: reserve,
  [Op.ReserveJob]: reserveJob,
  [Op.Delete]: deleteJob,
  [Op.Release]: release,
  [Op.Bury]: bury,
  [Op.Touch]: touch,
  [Op.Kick]: kick,
  [Op.KickJob]: kickJob,
  [Op.Use]: use,
  [Op.Watch]: watch,
  [Op.Ignore]: ignore,
  [Op.Stats]: stats,
  [Op.StatsJob]: statsJob,
  [Op.StatsTube]: statsTube,
  [Op.PauseTube]: pauseTube,
  [Op.ListTubes]: listTubes,
  [RequestOp.Attach]: attach,
  [RequestOp.Close]: close,
  [RequestOp.HalfClose]: halfClose,
  [RequestOp.Echo]: echo,
  [RequestOp.PutOpen]: putOpen,
  [RequestOp.PutData]: putData,
  [RequestOp.PutEnd]: putEnd,
  [RequestOp.Credit]: credit,
  [RequestOp.Collect]: collect,
  [RequestOp.Take]: take,
  [RequestOp.WaitShared]: waitShared,
  [RequestOp.StopWait]: stopWait,
  [RequestOp.Recheck]: recheck,
  [RequestOp.Unuse]: unuse,
  [RequestOp.LookFirst]: lookFirst,
};

function unknown(): never {
  throw new Error("broken invariant: a request has a known op");
}

/** For each op, also those that are none, a function. */
export const SHARD_COMMANDS: readonly ShardCommand[] = Array.from(
  { length: 256 },
  (_, op) => BY_OP[op] ?? unknown,
);
