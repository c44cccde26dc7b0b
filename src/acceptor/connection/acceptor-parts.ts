// The parts of an acceptor that its connections use.

import type { BodyArena } from "../../engine/jobs/body-arena.ts";
import type { Origin } from "../../message/origins.ts";
import type { Topology } from "../../message/topology.ts";
import type { CommandParser } from "../../protocol/command-parser.ts";
import type { ClaimWords } from "../../ring/claim-word.ts";
import type { GatherBudget } from "../fanout/batch/gather-budget.ts";
import type { ListReplies } from "../fanout/lists/list-replies.ts";
import type { TubeListings } from "../fanout/lists/tube-listings.ts";
import type { ConnectionMigrator } from "../migration/connection-migrator.ts";
import type { CommandSampler } from "../replies/command-sampler.ts";
import type { ClosedConnections } from "../state/closed-connections.ts";
import type { PendingReplies } from "../state/in-flight.ts";
import type { JobPlaces } from "../state/job-places.ts";
import type { LogProgress } from "../state/log-progress.ts";
import type { ManualChanges } from "../state/manual-changes.ts";
import type { RunQueues } from "../state/run-queues.ts";
import type { SerialQueue } from "../state/serial-queue.ts";
import type { ShardLinks } from "../state/shard-links.ts";
import type { TubeRef } from "../state/tube-ref.ts";
import type { WaitingInput } from "../state/waiting-input.ts";

export interface AcceptorParts {
  readonly topology: Topology;
  readonly shards: number;
  /**
   * Whether an acceptor may know of the end of a connection that has not reached the shards, or
   * find one when it reads its sockets: another one, or this one if it reads ends late.
   */
  readonly barrierHelps: boolean;
  readonly links: ShardLinks;
  readonly places: JobPlaces;
  readonly log: LogProgress;
  /** Counters of this thread, indexed by Counter. */
  readonly counters: Float64Array;
  readonly runQueues: RunQueues;
  readonly pendingReplies: PendingReplies;
  readonly waitingInput: WaitingInput;
  readonly sampler: CommandSampler;
  readonly claims: ClaimWords;
  readonly slots: { nameWorker(slot: number, name: string): void };
  /** The arenas of shards that run in the acceptor's thread. */
  readonly arenas: readonly (BodyArena | undefined)[];
  readonly parser: CommandParser;
  readonly defaultTube: TubeRef;
  readonly listReplies: ListReplies;
  readonly tubeListings: TubeListings;
  readonly gatherBudget: GatherBudget;
  /** Serialises lists of jobs that span all shards. */
  readonly listQueue: SerialQueue;
  /** Moves connections to other acceptors, if migration is on. */
  readonly changes: ManualChanges | undefined;
  readonly migrator: ConnectionMigrator | undefined;
  /** Records closed connections, if something asks for them. */
  readonly closed: ClosedConnections | undefined;
  /** Receives a line for each command and reply (-VV). */
  readonly trace: ((line: string) => void) | undefined;
  readonly nowMs: () => number;
  /** The time of the current turn, in monotonic ms. */
  readonly turnAtMs: number;
  /** Returns the text of `stats`, after every shard has updated its counters. */
  readonly statsText: () => string;
  /** The servers whose job ids are valid here; known when the log is loaded, before any client. */
  readonly origins: readonly Origin[];
}
