// The schedules of a shard: connects those of its engine to clocks, the log and other shards.

import type { Engine } from "../../engine/engine.ts";
import type { NewJob } from "../../engine/jobs/new-job.ts";
import type { Span } from "../../protocol/request.ts";
import type { RecordLog } from "../records/record-log.ts";
import type { Replies } from "../replies/replies.ts";
import type { ReplyPort } from "../replies/reply-port.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommands } from "../slices/sliced-commands.ts";
import { CronTimes } from "./cron-times.ts";
import { ScheduleClaims } from "./schedule-claims.ts";
import { ScheduleSetter } from "./schedule-setter.ts";
import { ScheduleTurns } from "./schedule-turns.ts";

interface ShardSchedulesOptions {
  readonly engine: Engine;
  readonly replies: Replies;
  readonly slicedCommands: SlicedCommands;
  readonly records: RecordLog | undefined;
  readonly shard: number;
  readonly shards: number;
  /** The port to the acceptor that relays. */
  readonly port: ReplyPort;
  readonly clock: () => number;
  readonly nowMs: () => number;
  /** Returns wall clock minus monotonic clock now, in ms. */
  readonly wallOffsetMs: () => number;
  readonly isDraining: () => boolean;
  /** Takes the id of a job on this shard. */
  readonly takeJobId: () => number;
  /** Returns a number greater than all before it on any shard, even before the last restart. */
  readonly nextNumber: () => number;
  /** Called before other shards forget a schedule that has moved here. */
  readonly onMove: () => void;
}

export class ShardSchedules {
  readonly turns: ScheduleTurns;
  readonly claims: ScheduleClaims;
  readonly #setter: ScheduleSetter;
  readonly #nowMs: () => number;

  constructor(options: ShardSchedulesOptions) {
    const { engine, records, clock, nowMs, wallOffsetMs, isDraining, takeJobId, slicedCommands } = options;
    const { schedules } = engine;
    schedules.next = new CronTimes().next;
    schedules.isDraining = isDraining;
    schedules.takeJobId = takeJobId;
    if (records !== undefined) schedules.sink = records.schedules;
    this.#nowMs = nowMs;
    const mayLog = (): boolean => records?.hasRoom !== false;
    this.turns = new ScheduleTurns({ schedules, wallOffsetMs, clock, mayLog });
    this.claims = new ScheduleClaims({
      ...options,
      schedules,
      lastRecord: () => records?.lastNumber ?? 0,
      wallMs: () => this.wallMs(),
      onSettled: (id) => slicedCommands.settled(id),
    });
    this.#setter = new ScheduleSetter({ ...options, claims: this.claims, wallMs: () => this.wallMs() });
  }

  /** Returns the time of the wall clock, in ms. */
  wallMs(): number {
    return this.turns.wallMs(this.#nowMs());
  }

  /** Sets a schedule: see ScheduleSetter. */
  set(session: ShardSession, job: NewJob, body: number, tube: string, options: Span): void {
    this.#setter.set(session, job, body, tube, options);
  }
}
