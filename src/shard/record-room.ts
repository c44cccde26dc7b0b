// How a shard in the middle of a command waits for room in its ring to the log.
//
// A record is never dropped and a command never half done, so the thread sleeps where it stands, deep in the
// engine: the one wait that is no point of its loop.

import type { ColocatedLogRole } from "../loop/role.ts";
import { ROOM_SLEEP_MS } from "../loop/waiting-policy.ts";
import type { Doorbell, DoorbellOwner } from "../ring/doorbell.ts";
import { isLent, type LentIds } from "../ring/lent-ids.ts";
import type { RecordLog } from "./records/record-log.ts";

/** A log that lives in the shard's own thread: undefined before it is open, and then nothing waits for it. */
export interface OwnLog {
  log: ColocatedLogRole | undefined;
}

export interface RecordRoomOptions {
  /** The thread's own. */
  readonly doorbell: DoorbellOwner;
  readonly binlog: Doorbell;
  /** Sleeps until the doorbell is rung, or for a while. The sleep has been announced. */
  readonly sleep: () => void;
}

/** Returns when the binlog may have made room. It never waits for a shard, so this wait ends. */
export function waitForRecordRoom(records: RecordLog, { doorbell, binlog, sleep }: RecordRoomOptions): void {
  const { ring } = records;
  if (records.publish()) binlog.ring();
  doorbell.prepare();
  ring.wantRoom();
  if (ring.hasRoom(ring.messageBytesMax)) doorbell.cancel();
  else sleep();
}

/** Returns when the log may have lent `id` or has no room for it; it looks by itself whether ids have to be lent. */
export function waitForLend(
  records: RecordLog,
  { doorbell, binlog, sleep }: RecordRoomOptions,
  lent: LentIds,
  id: number,
): void {
  records.publish();
  binlog.ring();
  doorbell.prepare();
  if (isLent(lent.low, id) || !records.roomForPut()) doorbell.cancel();
  else sleep();
}

/** `sleep` of a shard whose thread is the log's, too: nobody else would do what it waits for. */
export function turnLog({ log }: OwnLog, doorbell: DoorbellOwner, nowMs: number): void {
  if (log?.turn(nowMs)) doorbell.cancel();
  else doorbell.sleep(Math.max(0, Math.min(ROOM_SLEEP_MS, (log?.nextDueAtMs ?? nowMs) - nowMs)));
}
