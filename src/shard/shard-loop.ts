// The loop of a shard: one turn after the other, each with its publications. Its thread sleeps between two of
// them (loop/).

import { Point, type Points, type Surroundings } from "../loop/point.ts";
import type { Role } from "../loop/role.ts";
import { ControlWord } from "../message/topology.ts";
import type { TurnCounters } from "../message/turn-counters.ts";
import type { ControlWords } from "../ring/control-words.ts";
import type { Doorbell } from "../ring/doorbell.ts";
import type { ShardCore } from "./shard-core.ts";
import type { RecordLog } from "./work/record-log.ts";

export interface ShardLoopOptions {
  readonly core: ShardCore;
  readonly records: RecordLog | undefined;
  readonly control: ControlWords;
  /** The bell of each acceptor. */
  readonly acceptors: readonly Doorbell[];
  readonly binlog: Doorbell;
  readonly counters: TurnCounters;
  readonly surroundings: Surroundings;
}

export class ShardLoop implements Role {
  readonly points: Points;
  begunAtMs = 0;
  taken = 0;
  hasMore = false;
  readonly #options: ShardLoopOptions;

  constructor(options: ShardLoopOptions) {
    this.#options = options;
    this.points = this.#run();
  }

  get hasWork(): boolean {
    return this.#options.core.hasWork;
  }

  get nextDueAtMs(): number {
    return this.#options.core.engine.nextDueAtMs;
  }

  wantRoom(): void {
    this.#options.core.wantRoom();
  }

  // Most of the complexity is points. A part in a function of its own would be a generator made at each turn.
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: that would cost 50 to 100 ns, and garbage
  *#run(): Points {
    const { core, records, control, acceptors, binlog, counters, surroundings } = this.#options;
    for (;;) {
      // Nothing that is done now would be remembered; the process is about to end.
      while (control.isSet(ControlWord.BinlogEnded)) yield Point.Ended;
      this.begunAtMs = surroundings.nowMs();
      counters.begin();
      this.taken = core.step(this.begunAtMs);
      counters.end(this.taken);
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      // Replies before the records that they wait for, so that the binlog may ring for both: see
      // ReplyPort.publish.
      const shownRecord = records?.shownNumber ?? 0;
      for (let acceptor = 0; acceptor < acceptors.length; acceptor++) {
        const waits = core.requests[acceptor]!.release();
        if (surroundings.isHeldUp()) yield Point.HeldUp;
        const answered = core.ports[acceptor]!.publish(shownRecord);
        if (!waits && !answered) continue;
        if (surroundings.isHeldUp()) yield Point.HeldUp;
        counters.rang(acceptors[acceptor]!.ring());
      }
      if (surroundings.isHeldUp()) yield Point.HeldUp;
      if (records?.publish()) {
        if (surroundings.isHeldUp()) yield Point.HeldUp;
        counters.rang(binlog.ring());
      }
      this.hasMore = this.taken > 0 || core.hasWork;
      yield Point.Turned;
    }
  }
}
