// Followers with planted bugs.

import type { ChainPlace, LogBatchHeader } from "../../src/message/log-batch.ts";
import { FollowerCore } from "../../src/replica/follower-core.ts";
import type { LogEnds } from "../../src/replica/shared-log.ts";
import type { Bug } from "./planted-bugs.ts";

class UnchainedFollower extends FollowerCore {
  protected override isValid(place: ChainPlace, header: LogBatchHeader): boolean {
    return header.epoch >= place.epoch && header.n > place.n;
  }
}

class SkippingFollower extends FollowerCore {
  override answered(ends: LogEnds, readBefore: number, nowMs: number): void {
    if (this.next > 0 && this.next < ends.first) this.next = ends.first;
    super.answered(ends, readBefore, nowMs);
  }

  protected override isValid(place: ChainPlace, header: LogBatchHeader): boolean {
    return super.isValid(place, header) || (header.epoch === place.epoch && header.n > place.n + 1);
  }
}

class OvertakenFollower extends FollowerCore {
  override answered(ends: LogEnds, _readBefore: number, nowMs: number): void {
    super.answered(ends, this.lastRead, nowMs);
  }
}

class CuttingFollower extends FollowerCore {
  protected override mayAppendTail(): boolean {
    return false;
  }
}

export const FOLLOWERS: Partial<Record<Bug, typeof FollowerCore>> = {
  "no chain": UnchainedFollower,
  "holes are skipped": SkippingFollower,
  "an overtaken answer is taken for stale": OvertakenFollower,
  "a tail is cut although nobody has led since": CuttingFollower,
};
