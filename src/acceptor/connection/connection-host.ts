// What a connection needs of its acceptor.

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

/** A connection that ends, as its acceptor closes it. */
export interface Closing extends PendingReply {
  /** Nothing that shards say reaches the client any more. */
  readonly isDeaf: boolean;
  /** Shards that know it. */
  readonly touched: ShardSet;
  /** Closed messages still to come. */
  closesLeft: number;
  message(op: number): Request;
  post(shard: number, message: Request): void;
}

export interface ConnectionHost extends LogProgress {
  readonly shards: number;
  /** Whether ends of connections may be on their way at other acceptors. */
  readonly hasOtherAcceptors: boolean;
  /** Whether a job may have gone to another shard, or be about to. */
  readonly jobsMove: boolean;
  /** A command comes that may send one there. */
  noteMove(): void;
  /** Takes connections to other acceptors, where that is done. */
  readonly moves: MoveChooser | undefined;
  /** Keeps the ends of connections, where somebody may ask for them. */
  readonly closed: ClosedConnections | undefined;
  readonly parser: CommandParser;
  readonly defaultTube: TubeRef;
  readonly agenda: RunQueues;
  readonly expected: PendingReplies;
  readonly waitingInput: WaitingInput;
  /** What is counted in this thread, by Counter. */
  readonly counters: Float64Array;
  readonly sampler: CommandSampler;
  readonly claims: ClaimWords;
  readonly listReplies: ListReplies;
  readonly tubeListings: TubeListings;
  readonly gatherBudget: GatherBudget;
  /** For lists of jobs over all shards. */
  readonly listTurnstile: SerialQueue;
  /** The arena of a shard that lives in the thread of the acceptor, if it does. */
  arenaOf(shard: number): BodyArena | undefined;
  /** A body of at least so many bytes goes right there. */
  readonly storedBytesMin: number;
  /** So many bytes of it are received and sent right there. */
  readonly inPlaceBytesMin: number;
  /** Largest payload of one message to a shard. */
  readonly payloadBytesMax: number;
  /** Takes a line for each command and reply (-VV). */
  readonly trace: ((line: string) => void) | undefined;
  readonly nowMs: () => number;
  /** The time of the present turn, monotonic ms. */
  readonly turnAtMs: number;
  readonly statsText: () => string;
  readonly extensionsText: () => string;

  /** The message of this acceptor, begun anew: to be sent before the next one is asked for. */
  message(op: number): Request;
  /**
   * Writes a message if there is room and nothing posted has to go first; if not, its connection has to wait.
   */
  write(shard: number, message: Request): boolean;
  /** Writes a message now or, when the ring is full, before anything else later. */
  post(shard: number, message: Request): void;
  /** A command waits for room in the ring to the shard. */
  noteFull(shard: number): void;
  /** Counts a command that no shard counts. */
  count(op: number): void;
  producerCount(change: number): void;
  workerCount(change: number): void;
  tubeRef(bytes: Uint8Array, start: number, end: number): TubeRef;
  /** Takes the next job id, for a job on `shard`. */
  takeJobId(shard: number): number;
  /** A number greater than all that were taken before it, on any acceptor. */
  takeSequence(): number;
  /** The shard of a job, or UNKNOWN_SHARD when all have to be asked. */
  shardOfJob(id: number): number;
  /** Its entry of the directory: see FindJob. */
  jobEntry(id: number): number;
  /**
   * The connection takes no more commands: every shard that knows it gives back what it holds and forgets it.
   */
  close(connection: Closing): void;
}
