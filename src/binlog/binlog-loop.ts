// The loop of the log: takes what the shards append, writes and syncs it, and tells how far it is. Its thread
// sleeps in between.

import { Point, type Points, type Surroundings } from "../loop/point.ts";
import type { Role } from "../loop/role.ts";
import { ControlWord } from "../message/topology.ts";
import type { TurnCounters } from "../message/turn-counters.ts";
import type { ControlWords } from "../ring/control-words.ts";
import type { Doorbell } from "../ring/doorbell.ts";
import type { BinlogCore } from "./binlog-core.ts";
import type { BinlogError } from "./disk/binlog-error.ts";
import type { Storage } from "./live/storage.ts";

export interface BinlogLoopOptions {
  readonly core: BinlogCore;
  readonly storage: Storage;
  readonly control: ControlWords;
  /** The bells of all shards and of all acceptors. */
  readonly shards: readonly Doorbell[];
  readonly acceptors: readonly Doorbell[];
  readonly counters: TurnCounters;
  readonly surroundings: Surroundings;
}

export class BinlogLoop implements Role {
  /** Ends when the log is to stop and all is taken, or when it has failed; then `close` follows. */
  readonly points: Points;
  begunAtMs = 0;
  taken = 0;
  hasMore = false;
  readonly #options: BinlogLoopOptions;

  constructor(options: BinlogLoopOptions) {
    this.#options = options;
    this.points = this.#run();
  }

  get hasWork(): boolean {
    const { core, storage } = this.#options;
    // A log that waits for room takes nothing before its time, however many rings are full.
    return (core.hasRecords && !storage.waiting) || core.stopping;
  }

  get nextDueAtMs(): number {
    return this.#options.storage.nextDeadline();
  }

  /** It publishes nothing that could find no room. */
  wantRoom(): void {}

  /**
   * No reply may leave from here on: connections that are still there are about to be cut. Returns why the
   * log failed, if it did.
   */
  close(): BinlogError | undefined {
    const { storage, control, surroundings } = this.#options;
    control.set(ControlWord.BinlogEnded);
    if (storage.failure === undefined) storage.close(surroundings.nowMs());
    return storage.failure;
  }

  // Most of the complexity is points. A part in a function of its own would be a generator made at each turn.
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: that would cost 50 to 100 ns, and garbage
  *#run(): Points {
    const { core, storage, shards, acceptors, counters, surroundings } = this.#options;
    const onWriterWaits = (shard: number): void => counters.rang(shards[shard]!.ring());
    for (;;) {
      const { stopping } = core;
      this.begunAtMs = surroundings.nowMs();
      counters.begin();
      this.taken = core.takeRecords(storage, onWriterWaits);
      counters.end(this.taken);
      if (storage.failure !== undefined) break;
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      storage.flush(surroundings.nowMs());
      if (storage.failure !== undefined) break;
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      if (core.publishProgress(storage)) {
        if (surroundings.isHeldUp()) yield Point.HeldUp;
        for (const acceptor of acceptors) counters.rang(acceptor.ring());
      }
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      // Room and compaction are for the next start; what the rings still hold finds room without them, or
      // makes it.
      const more = !stopping && storage.work(surroundings.nowMs());
      if (storage.failure !== undefined) break;
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      // Work may have written and synced as well.
      if (core.publishProgress(storage)) {
        if (surroundings.isHeldUp()) yield Point.HeldUp;
        for (const acceptor of acceptors) counters.rang(acceptor.ring());
      }
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      // Cleared first, then the bell: a shard that goes to sleep in between looks at the word once more
      // before it does.
      if (core.publishState(storage)) {
        if (surroundings.isHeldUp()) yield Point.HeldUp;
        for (const shard of shards) counters.rang(shard.ring());
      }
      this.hasMore = this.taken > 0 || more;
      if (stopping && !this.hasMore) {
        if (!storage.waiting) break;
        // What is in the rings has been acknowledged, or will be: it is taken, or the log has failed.
        storage.endWait(surroundings.nowMs());
        if (storage.failure !== undefined) break;
        this.hasMore = true;
      }
      yield Point.Turned;
    }
    for (;;) yield Point.Ended;
  }
}
