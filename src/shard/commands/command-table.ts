// The function that executes each op, one per line. The functions are in commands/.

import { RequestOp } from "../../message/request.ts";
import { Op } from "../../protocol/commands.ts";
import { bury } from "./bury.ts";
import { clearTube } from "./clear-tube.ts";
import type { ShardCommand } from "./command.ts";
import { attach, close, credit, detach, echo, halfClose } from "./connection.ts";
import { deleteJob } from "./delete.ts";
import { deleteBatch } from "./delete-batch.ts";
import { ignore } from "./ignore.ts";
import { inspectJob } from "./inspect-job.ts";
import { inspectTube } from "./inspect-tube.ts";
import { kick } from "./kick.ts";
import { kickJob } from "./kick-job.ts";
import { listJobs } from "./list-jobs.ts";
import { listTubes } from "./list-tubes.ts";
import { moveJobs } from "./move-jobs.ts";
import { pauseTube } from "./pause-tube.ts";
import { peek } from "./peek.ts";
import { peekBuried, peekDelayed, peekReady } from "./peek-queue.ts";
import { put, putStored } from "./put.ts";
import { putData, putEnd, putOpen } from "./put-in-pieces.ts";
import { goOn, locate } from "./redirected.ts";
import { release } from "./release.ts";
import { reserve } from "./reserve.ts";
import { abort, collectBatch, reserveBatch, takeBatch } from "./reserve-batch.ts";
import { reserveJob } from "./reserve-job.ts";
import { setTube } from "./set-tube.ts";
import { collect, lookFirst, recheck, stopWait, take, waitShared } from "./shared-reserve.ts";
import { stats } from "./stats.ts";
import { statsJob } from "./stats-job.ts";
import { statsTube } from "./stats-tube.ts";
import { touch } from "./touch.ts";
import { touchAll } from "./touch-all.ts";
import { updateJob } from "./update-job.ts";
import { unuse, use } from "./use.ts";
import { watch } from "./watch.ts";

const BY_OP: Readonly<Record<number, ShardCommand>> = {
  [Op.Put]: put,
  [Op.PutInTube]: put,
  [Op.SetTube]: setTube,
  [Op.MoveJobs]: moveJobs,
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
  [Op.InspectJob]: inspectJob,
  [Op.InspectTube]: inspectTube,
  [Op.UpdateJob]: updateJob,
  [Op.ListJobs]: listJobs,
  [Op.ClearTube]: clearTube,
  [Op.ReserveBatch]: reserveBatch,
  [Op.DeleteBatch]: deleteBatch,
  [Op.TouchAll]: touchAll,
  [RequestOp.Attach]: attach,
  [RequestOp.Close]: close,
  [RequestOp.Detach]: detach,
  [RequestOp.HalfClose]: halfClose,
  [RequestOp.Echo]: echo,
  [RequestOp.PutOpen]: putOpen,
  [RequestOp.PutStored]: putStored,
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
  [RequestOp.CollectBatch]: collectBatch,
  [RequestOp.TakeBatch]: takeBatch,
  [RequestOp.Abort]: abort,
  [RequestOp.Locate]: locate,
  [RequestOp.GoOn]: goOn,
};

function unknown(): never {
  throw new Error("broken invariant: a request has a known op");
}

/** A function for every op, including unknown ones. */
export const SHARD_COMMANDS: readonly ShardCommand[] = Array.from(
  { length: 256 },
  (_, op) => BY_OP[op] ?? unknown,
);
