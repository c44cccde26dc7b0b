// The loop of a shard: one turn after another, each with its publications. Its thread sleeps
// between turns (loop/).

import { assert } from "../base/assert.ts";
import { Point, type Surroundings } from "../loop/point.ts";
import type { ResidentShard } from "../loop/role.ts";
import { ControlWord } from "../message/topology.ts";
import type { TurnCounters } from "../message/turn-counters.ts";
import type { ControlWords } from "../ring/control-words.ts";
import type { Doorbell } from "../ring/doorbell.ts";
import type { Lease } from "../ring/lease-word.ts";
import type { RecordLog } from "./records/record-log.ts";
import type { ShardCore } from "./shard-core.ts";

/**
 * The next step. Replies are published before the records that they wait for, so that the binlog
 * may ring for both: see ReplyPort.publish.
 */
const Action = {
  Step: 0,
  Release: 1,
  PublishReplies: 2,
  RingAcceptor: 3,
  PublishRecords: 4,
  RingLog: 5,
} as const;
type Action = (typeof Action)[keyof typeof Action];

interface ShardLoopOptions {
  readonly core: ShardCore;
  readonly records: RecordLog | undefined;
  readonly control: ControlWords;
  /** The doorbell of each acceptor. */
  readonly acceptors: readonly Doorbell[];
  readonly binlog: Doorbell;
  readonly counters: TurnCounters;
  readonly surroundings: Surroundings;
  /**
   * In a group: the lease that permits serving. After its end no message is taken and no timer
   * expires. Its renewal rings the doorbell.
   */
  readonly lease?: Lease | undefined;
}

export class ShardLoop implements ResidentShard {
  begunAtMs = 0;
  taken = 0;
  hasMore = false;
  readonly #options: ShardLoopOptions;
  #action: Action = Action.Step;
  /** The acceptor whose turn it is. */
  #acceptor = 0;
  /** Whether that acceptor waits for the room that was released. */
  #waits = false;

  constructor(options: ShardLoopOptions) {
    this.#options = options;
  }

  get isInTurn(): boolean {
    return this.#action !== Action.Step;
  }

  get hasWork(): boolean {
    return this.#options.core.hasWork && !this.#isFrozen();
  }

  get hasCommands(): boolean {
    return this.#options.core.hasCommands && !this.#isFrozen();
  }

  get nextDueAtMs(): number {
    return this.#isFrozen() ? Number.POSITIVE_INFINITY : this.#options.core.nextDueAtMs;
  }

  #isFrozen(): boolean {
    const { lease, surroundings } = this.#options;
    return lease?.isOver(surroundings.nowMs()) ?? false;
  }

  wantRoom(): void {
    this.#options.core.wantRoom();
  }

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a method for each action costs 7 to 20 ns a turn
  next(): Point {
    const { core, records, control, acceptors, binlog, counters, surroundings, lease } = this.#options;
    for (;;) {
      switch (this.#action) {
        case Action.Step:
          // Changes made now would be lost: the process is about to end.
          if (control.isSet(ControlWord.BinlogEnded)) return Point.Ended;
          this.begunAtMs = surroundings.nowMs();
          if (lease?.isOver(this.begunAtMs)) return this.#turnedFrozen();
          counters.begin();
          this.taken = core.step(this.begunAtMs);
          counters.end(this.taken);
          this.#acceptor = 0;
          this.#action = Action.Release;
          break;
        case Action.Release:
          this.#waits = core.requests[this.#acceptor]!.release();
          this.#action = Action.PublishReplies;
          break;
        case Action.PublishReplies: {
          const answered = core.ports[this.#acceptor]!.publish(records?.shownNumber ?? 0);
          this.#action = Action.RingAcceptor;
          if (this.#waits || answered) break;
          if (this.#nextAcceptor()) continue;
          break;
        }
        case Action.RingAcceptor:
          counters.rang(acceptors[this.#acceptor]!.ring());
          if (this.#nextAcceptor()) continue;
          break;
        case Action.PublishRecords:
          if (!records?.publish()) return this.#turned();
          this.#action = Action.RingLog;
          break;
        case Action.RingLog:
          counters.rang(binlog.ring());
          return this.#turned();
      }
      if (surroundings.isHeldUp()) return Point.HeldUp;
    }
  }

  /** Advances to the next acceptor. Returns false after the last. */
  #nextAcceptor(): boolean {
    const isLast = ++this.#acceptor === this.#options.acceptors.length;
    assert(this.#acceptor <= this.#options.acceptors.length, "a turn visits each acceptor once");
    this.#action = isLast ? Action.PublishRecords : Action.Release;
    return !isLast;
  }

  #turnedFrozen(): Point {
    assert(this.#action === Action.Step, "a lease ends between two turns");
    this.taken = 0;
    this.hasMore = false;
    return Point.Turned;
  }

  #turned(): Point {
    assert(this.#acceptor === this.#options.acceptors.length, "a turn ends after a visit to each acceptor");
    this.hasMore = this.taken > 0 || this.#options.core.hasWork;
    this.#action = Action.Step;
    return Point.Turned;
  }
}
