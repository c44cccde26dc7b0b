// Model of the server, as simple as possible: one list of jobs, one list of waits, no heaps, no
// rings.
//
// The model follows the engines call by call: each call says which command took effect where and
// when, and the model says what must follow. Where the contract leaves the order open (timers due
// at the same moment on different tubes or sessions), the model tries one order after another until
// one yields the engine's effects.

import { BatchEnds } from "./flows/batch-ends.ts";
import { ModelFlows } from "./flows/model-flows.ts";
import { ModelCommands } from "./model-commands.ts";
import { ModelDeaths } from "./model-deaths.ts";
import { ModelDuplicates } from "./model-duplicates.ts";
import { ModelKeys } from "./model-keys.ts";
import { ModelLog } from "./model-log.ts";
import { ModelMoves } from "./model-moves.ts";
import { ModelQueues } from "./model-queues.ts";
import { ModelReserves } from "./model-reserves.ts";
import { ModelRestart } from "./model-restart.ts";
import { ModelState } from "./model-state.ts";
import { ModelTimers } from "./model-timers.ts";
import { ModelWaits } from "./model-waits.ts";
import { SessionRegistry } from "./session-registry.ts";
import { TubeRegistry } from "./tube-registry.ts";

export class Model extends ModelState {
  readonly restart: ModelRestart = new ModelRestart(this);
  readonly uniqueKeys: ModelKeys = new ModelKeys(this);
  readonly log: ModelLog = new ModelLog(this);
  readonly registry: TubeRegistry = new TubeRegistry(this);
  readonly connections: SessionRegistry = new SessionRegistry(this);
  readonly timers: ModelTimers = new ModelTimers(this);
  readonly waiting: ModelWaits = new ModelWaits(this);
  readonly queues: ModelQueues = new ModelQueues(this);
  readonly deaths: ModelDeaths = new ModelDeaths(this);
  readonly reserves: ModelReserves = new ModelReserves(this);
  readonly commands: ModelCommands = new ModelCommands(this);
  readonly duplicates: ModelDuplicates = new ModelDuplicates(this);
  readonly moves: ModelMoves = new ModelMoves(this);
  readonly flows: ModelFlows = new ModelFlows(this);
  readonly batchEnds: BatchEnds = new BatchEnds(this);

  constructor(shards: number, logOffsetMs = 0) {
    super(shards, logOffsetMs);
    this.registry.tube("default");
  }
}
