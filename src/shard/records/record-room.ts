// Waits, in the middle of a command, for room in a shard's ring to the log.
//
// A record is never dropped, and a command is never half executed. The thread therefore sleeps
// where it stands, deep inside the engine. This is the one wait that is not a point of its loop.

import { assert } from "../../base/assert.ts";
import type { ColocatedLogRole } from "../../loop/role.ts";
import { ROOM_SLEEP_MS } from "../../loop/waiting-policy.ts";
import type { Doorbell, DoorbellOwner } from "../../ring/doorbell.ts";
import { isLent, type LentIds } from "../../ring/job-ids.ts";
import type { RecordLog } from "./record-log.ts";

/**
 * A log in the shard's own thread. `log` is undefined until it is open, and nothing waits for it
 * before that.
 */
export interface OwnLog {
  log: ColocatedLogRole | undefined;
}

export interface RecordRoomOptions {
  /** The doorbell of this thread. */
  readonly doorbell: DoorbellOwner;
  readonly binlog: Doorbell;
  /** Sleeps until the doorbell is rung, or for a while. The sleep was announced before. */
  readonly sleep: () => void;
}

/**
 * Returns when the binlog may have made room. The binlog never waits for a shard, so this wait
 * ends.
 */
export function waitForRecordRoom(records: RecordLog, { doorbell, binlog, sleep }: RecordRoomOptions): void {
  const { ring } = records;
  if (records.publish()) binlog.ring();
  doorbell.prepare();
  ring.wantRoom();
  if (ring.hasRoom(ring.messageBytesMax)) doorbell.cancel();
  else sleep();
}

/**
 * Returns when the log may have lent `id` or has no room for it. The log itself checks whether ids
 * have to be lent.
 */
export function waitForLend(
  records: RecordLog,
  { doorbell, binlog, sleep }: RecordRoomOptions,
  lent: LentIds,
  id: number,
): void {
  assert(id > 0, "an id is positive");
  records.publish();
  binlog.ring();
  doorbell.prepare();
  if (isLent(lent.low, id) || !records.roomForPut()) doorbell.cancel();
  else sleep();
}

/**
 * Runs the log as the `sleep` of a shard that shares its thread with the log, since no other thread
 * would run it.
 */
export function turnLog({ log }: OwnLog, doorbell: DoorbellOwner, nowMs: number): void {
  if (log?.turn(nowMs)) doorbell.cancel();
  else doorbell.sleep(Math.max(0, Math.min(ROOM_SLEEP_MS, (log?.nextDueAtMs ?? nowMs) - nowMs)));
}
