// Witness of every engine call and every claim of a wait, which the model must follow and confirm.
//
// Commands take effect at these calls, so the order of concurrent commands need not be guessed: the
// model follows the actual order, and must reach the same outcome, effect by effect.

import type { Engine } from "../../../src/engine/engine.ts";
import { checkInvariants } from "../../support/in-process/engine-invariants.ts";
import type { Model } from "../model/model.ts";
import type { CommandSink } from "./command-sink.ts";
import { type Askers, type EffectsHost, EngineCalls } from "./engine-calls.ts";
import { EngineComparison } from "./engine-comparison.ts";
import { FlowWitness } from "./flow-witness.ts";
import { JobWitness } from "./job-witness.ts";
import { MoveWitness } from "./move-witness.ts";
import { ReserveWitness } from "./reserve-witness.ts";
import { ScheduleWitness } from "./schedule-witness.ts";
import { SessionWitness } from "./session-witness.ts";

export class EngineWitness extends EngineCalls {
  readonly sessions: SessionWitness = new SessionWitness(this);
  readonly reserves: ReserveWitness = new ReserveWitness(this);
  readonly jobs: JobWitness = new JobWitness(this);
  readonly moves: MoveWitness = new MoveWitness(this);
  readonly flows: FlowWitness = new FlowWitness(this);
  readonly schedules: ScheduleWitness = new ScheduleWitness(this);
  readonly comparison: EngineComparison = new EngineComparison(this);

  /** `askers` is shared by all shards. */
  constructor(
    engine: Engine,
    host: EffectsHost,
    shard: number,
    model: Model,
    sink: CommandSink,
    askers: Askers = new Map(),
  ) {
    super(engine, host, shard, model, sink, askers);
    this.sessions.watchSessions();
    this.reserves.watchReserves();
    this.reserves.watchBatches();
    this.reserves.watchTurns();
    this.jobs.watchJobs();
    this.moves.watchMovesOfJobs();
    this.flows.watchFlows();
    this.schedules.watchSchedules();
  }

  /** Checks the engine's invariants, and that it holds what the model holds. */
  check(): void {
    if (!this.touched) return;
    this.touched = false;
    const sessions = [...this.model.sessions.keys(), ...this.model.moved.keys(), ...this.detached];
    checkInvariants(this.engine, sessions, (session) => this.host.stillWaiting(session));
    this.comparison.compareJobs();
    this.comparison.compareTubes();
    this.comparison.compareWaits();
    this.comparison.compareFinished();
    this.flows.checkOrder();
  }
}
