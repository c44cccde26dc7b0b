// The function that executes each op, and traits of messages that are not commands.

import { RequestOp } from "../../message/request.ts";
import { Op } from "../../protocol/commands.ts";
import { cancelBatch, commitBatch, inspectBatch, listBatches, openBatch } from "./batches.ts";
import type { ShardCommand } from "./command.ts";
import {
  attach,
  close,
  credit,
  detach,
  echo,
  halfClose,
  ignore,
  reserveOrder,
  stats,
  unuse,
  use,
  watch,
} from "./connection.ts";
import { finishedJobs } from "./finished-jobs.ts";
import {
  bury,
  cancelJob,
  deleteBatch,
  deleteJob,
  goOn,
  inspectJob,
  kick,
  kickJob,
  locate,
  peek,
  peekBuried,
  peekDelayed,
  peekReady,
  release,
  statsJob,
  touch,
  touchAll,
  touchJob,
  updateJob,
} from "./job-commands.ts";
import { listJobs } from "./list-jobs.ts";
import { put, putData, putEnd, putOpen, putStored } from "./put.ts";
import {
  abort,
  awaitBarrier,
  collect,
  collectBatch,
  inOrder,
  recheck,
  reserve,
  reserveBatch,
  reserveJob,
  stopWait,
  take,
  takeBatch,
  waitShared,
} from "./reserve.ts";
import {
  deleteSchedule,
  inspectSchedule,
  listSchedules,
  locateSchedule,
  pauseSchedule,
  resumeSchedule,
  runSchedule,
} from "./schedules.ts";
import {
  clearTube,
  inspectTube,
  listTubes,
  moveJobs,
  pauseTube,
  setTube,
  statsTube,
} from "./tube-commands.ts";

const COMMANDS: Readonly<Record<number, ShardCommand>> = {
  [Op.Put]: put,
  [Op.PutInTube]: put,
  [Op.SetTube]: setTube,
  [Op.MoveJobs]: moveJobs,
  [Op.Peek]: peek,
  [Op.PeekReady]: peekReady,
  [Op.PeekDelayed]: peekDelayed,
  [Op.PeekBuried]: peekBuried,
  [Op.Reserve]: inOrder(reserve),
  [Op.ReserveJob]: reserveJob,
  [Op.ReserveOrder]: reserveOrder,
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
  [Op.TouchJob]: touchJob,
  [Op.CancelJob]: cancelJob,
  [Op.ListJobs]: listJobs,
  [Op.FinishedJobs]: finishedJobs,
  [Op.ClearTube]: clearTube,
  [Op.ReserveBatch]: inOrder(reserveBatch),
  [Op.DeleteBatch]: deleteBatch,
  [Op.TouchAll]: touchAll,
  [Op.SetSchedule]: put,
  [Op.DeleteSchedule]: deleteSchedule,
  [Op.PauseSchedule]: pauseSchedule,
  [Op.ResumeSchedule]: resumeSchedule,
  [Op.RunSchedule]: runSchedule,
  [Op.InspectSchedule]: inspectSchedule,
  [Op.ListSchedules]: listSchedules,
  [Op.OpenBatch]: openBatch,
  [Op.CommitBatch]: commitBatch,
  [Op.CancelBatch]: cancelBatch,
  [Op.InspectBatch]: inspectBatch,
  [Op.ListBatches]: listBatches,
};

/** Properties that only a few messages have, as bits. */
export const Trait = {
  /** Is never deferred, because it concerns a command in progress or ends the session. */
  Overtakes: 1,
  /** May come after the end of its session. */
  MayBeLate: 2,
  /** Belongs to no connection, so the shard itself handles it. */
  Connectionless: 4,
} as const;

interface Message {
  readonly run: ShardCommand;
  readonly traits?: number;
}

const MESSAGES: Readonly<Record<number, Message>> = {
  [RequestOp.Attach]: { run: attach },
  [RequestOp.Close]: { run: close, traits: Trait.Overtakes | Trait.MayBeLate },
  // A connection moves only with nothing in flight, and its new acceptor waits for this.
  [RequestOp.Detach]: { run: detach, traits: Trait.Overtakes },
  [RequestOp.HalfClose]: { run: halfClose, traits: Trait.Overtakes },
  [RequestOp.Echo]: { run: echo },
  [RequestOp.PutOpen]: { run: putOpen },
  [RequestOp.PutStored]: { run: putStored },
  [RequestOp.PutData]: { run: putData },
  [RequestOp.PutEnd]: { run: putEnd },
  [RequestOp.Credit]: { run: credit, traits: Trait.Overtakes | Trait.MayBeLate },
  [RequestOp.Collect]: { run: inOrder(collect) },
  [RequestOp.Take]: { run: take },
  [RequestOp.WaitShared]: { run: waitShared },
  [RequestOp.StopWait]: { run: stopWait },
  [RequestOp.Recheck]: { run: recheck },
  [RequestOp.Unuse]: { run: unuse },
  [RequestOp.AwaitBarrier]: { run: awaitBarrier },
  [RequestOp.CollectBatch]: { run: inOrder(collectBatch) },
  [RequestOp.TakeBatch]: { run: takeBatch },
  [RequestOp.Abort]: { run: abort, traits: Trait.Overtakes },
  [RequestOp.Locate]: { run: locate },
  [RequestOp.LocateSchedule]: { run: locateSchedule },
  [RequestOp.GoOn]: { run: goOn, traits: Trait.Overtakes | Trait.MayBeLate },
};

function unknown(): never {
  throw new Error("broken invariant: a request has a known op");
}

const OPS = 256;

/** A function for every op, including unknown ones. */
export const SHARD_COMMANDS: readonly ShardCommand[] = Array.from(
  { length: OPS },
  (_, op) => COMMANDS[op] ?? MESSAGES[op]?.run ?? unknown,
);

const OTHER_TRAITS: Readonly<Record<number, number>> = {
  // Only for the part of a set-tube that all shards get: see ShardCore.#takeSpecial.
  [Op.SetTube]: Trait.Overtakes,
  [RequestOp.BarrierAck]: Trait.Connectionless,
  [RequestOp.Adopt]: Trait.Connectionless,
  [RequestOp.Carried]: Trait.Connectionless,
  [RequestOp.Control]: Trait.Connectionless,
};

/** The traits of every op. Nearly all ops have none. */
export const TRAITS: Uint8Array = Uint8Array.from(
  { length: OPS },
  (_, op) => MESSAGES[op]?.traits ?? OTHER_TRAITS[op] ?? 0,
);
