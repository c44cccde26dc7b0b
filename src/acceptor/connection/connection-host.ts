// The interface between a connection and its acceptor.

import type { BodyArena } from "../../engine/jobs/body-arena.ts";
import type { CommandParser } from "../../protocol/command-parser.ts";
import type { Request } from "../../protocol/request.ts";
import type { ClaimWords } from "../../ring/claim-word.ts";
import type { GatherBudget } from "../fanout/batch/gather-budget.ts";
import type { ListReplies } from "../fanout/lists/list-replies.ts";
import type { TubeListings } from "../fanout/lists/tube-listings.ts";
import type { MoveChooser } from "../migration/moved-connection.ts";
import type { CommandSampler } from "../replies/command-sampler.ts";
import type { LogProgress } from "../replies/outbox.ts";
import type { ClosedConnections } from "../state/closed-connections.ts";
import type { PendingReplies, PendingReply } from "../state/pending-replies.ts";
import type { RunQueues } from "../state/run-queues.ts";
import type { SerialQueue } from "../state/serial-queue.ts";
import type { ShardSet } from "../state/shard-set.ts";
import type { TubeRef } from "../state/tube-ref.ts";
import type { WaitingInput } from "../state/waiting-input.ts";

/** A connection that its acceptor is closing. */
export interface Closing extends PendingReply {
  /** No more replies reach the client. */
  readonly isDeaf: boolean;
  /** Shards that know the connection. */
  readonly touched: ShardSet;
  /** Closed messages still to come. */
  closesLeft: number;
  message(op: number): Request;
  post(shard: number, message: Request): void;
}

export interface ConnectionHost extends LogProgress {
  readonly shards: number;
  /**
   * Whether other acceptors exist, which may have read the end of a connection but not yet passed
   * it on.
   */
  readonly hasOtherAcceptors: boolean;
  /** Whether a job may have moved to another shard, or may be about to. */
  readonly jobsMove: boolean;
  /** Records that a command arrived which may move a job. */
  noteMove(): void;
  /** Moves connections to other acceptors, if migration is on. */
  readonly moves: MoveChooser | undefined;
  /** Records closed connections, if something asks for them. */
  readonly closed: ClosedConnections | undefined;
  readonly parser: CommandParser;
  readonly defaultTube: TubeRef;
  readonly runQueues: RunQueues;
  readonly pendingReplies: PendingReplies;
  readonly waitingInput: WaitingInput;
  /** Counters of this thread, indexed by Counter. */
  readonly counters: Float64Array;
  readonly sampler: CommandSampler;
  readonly claims: ClaimWords;
  readonly listReplies: ListReplies;
  readonly tubeListings: TubeListings;
  readonly gatherBudget: GatherBudget;
  /** Serialises lists of jobs that span all shards. */
  readonly listQueue: SerialQueue;
  /** Returns the arena of a shard that runs in the acceptor's thread, otherwise undefined. */
  arenaOf(shard: number): BodyArena | undefined;
  /** Bodies of at least this size are written to the arena directly. */
  readonly storedBytesMin: number;
  /** Runs of at least this many body bytes are received into and sent from the arena directly. */
  readonly inPlaceBytesMin: number;
  /** The largest payload of one message to a shard. */
  readonly payloadBytesMax: number;
  /** Receives a line for each command and reply (-VV). */
  readonly trace: ((line: string) => void) | undefined;
  readonly nowMs: () => number;
  /** The time of the current turn, in monotonic ms. */
  readonly turnAtMs: number;
  readonly statsText: () => string;
  readonly extensionsText: () => string;

  /** Returns the acceptor's only message object, reset. Send it before asking for the next one. */
  message(op: number): Request;
  /**
   * Writes a message if the ring has room and no posted message has to go first. If it returns
   * false, the connection has to wait.
   */
  write(shard: number, message: Request): boolean;
  /** Writes a message now or, if the ring is full, queues it ahead of everything else. */
  post(shard: number, message: Request): void;
  /** Notes that a command waits for room in the ring to the shard. */
  noteFull(shard: number): void;
  /** Counts a command that no shard counts. */
  count(op: number): void;
  producerCount(change: number): void;
  workerCount(change: number): void;
  tubeRef(bytes: Uint8Array, start: number, end: number): TubeRef;
  /** Takes the next job id, for a job on `shard`. */
  takeJobId(shard: number): number;
  /** Returns a number greater than all taken before it, on any acceptor. */
  takeSequence(): number;
  /** Returns the shard of a job, or UNKNOWN_SHARD if every shard has to be asked. */
  shardOfJob(id: number): number;
  /** Returns the job's entry in the directory: see FindJob. */
  jobEntry(id: number): number;
  /**
   * Stops a connection from issuing commands. Every shard that knows it releases what it holds and
   * forgets it.
   */
  close(connection: Closing): void;
}
