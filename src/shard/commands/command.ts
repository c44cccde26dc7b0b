// The interface of a command to its shard. Each kind of message is a function beside its kin in
// commands/.

import type { Engine } from "../../engine/engine.ts";
import type { Request } from "../../protocol/request.ts";
import type { RecordLog } from "../records/record-log.ts";
import type { ShardSchedules } from "../schedules/shard-schedules.ts";
import type { ReplyWriter } from "../sessions/replies.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommands } from "../sessions/sliced-commands.ts";
import type { TubeLists } from "../sessions/tube-lists.ts";
import type { TubeSetter } from "../sessions/tube-setter.ts";
import type { TransferSender } from "../transfer/transfer-sender.ts";
import type { BatchHomes } from "./batch-homes.ts";

/** Progress of the acceptors at the end of a read barrier: see read-barrier.ts. */
export const BarrierRounds = {
  /**
   * They have read their sockets: the shard has the Close of every connection whose end they found.
   */
  Read: 1,
  /** They have also taken the Closed: none of their gauges counts those connections. */
  Uncounted: 2,
} as const;
export type BarrierRounds = (typeof BarrierRounds)[keyof typeof BarrierRounds];

/** The parts of the shard that a command may use. */
export interface CommandShard {
  readonly engine: Engine;
  readonly replies: ReplyWriter;
  readonly slicedCommands: SlicedCommands;
  /** Jobs in transit to other shards. */
  readonly transferSender: TransferSender;
  /** The batches that this shard decides on. */
  readonly homes: BatchHomes;
  readonly lists: TubeLists;
  readonly tubeSetter: TubeSetter;
  readonly schedules: ShardSchedules;
  /** Undefined without a log. */
  readonly records: RecordLog | undefined;
  /** Flags that all threads share. */
  readonly controlWords: { isSet(word: number): boolean };
  /** Whether stats-job and stats-tube quote names. */
  readonly quoteNames: boolean;
  /** The time of the current turn, in monotonic ms. */
  readonly nowMs: number;
  /** Sessions whose wait over several shards is counted on this shard. */
  readonly leadWaits: Set<ShardSession>;

  /**
   * Starts a read barrier if the session would get no job and other acceptors may know of a
   * disconnect. Returns whether it did: see read-barrier.ts.
   */
  beginBarrier(session: ShardSession): boolean;
  /**
   * Runs a command after a read barrier, or at once without other acceptors: see
   * read-barrier.ts.
   */
  afterReading(session: ShardSession, request: Request, rounds: BarrierRounds, command: ShardCommand): void;
  /** Executes a reserve on this shard alone. `timeoutMs` is 0 if it does not wait. */
  reserve(session: ShardSession, timeoutMs: number): void;
  /**
   * Answers RESERVED with the job in `slot`, or as the session's command requires. `flags` are
   * ResponseFlag bits.
   */
  giveJob(session: ShardSession, slot: number, flags: number): void;
  /** Ends the session's command, so that deferred messages may run. */
  resume(session: ShardSession): void;
  /** Notes how many bytes of its replies the client has read: see message/response.ts. */
  read(session: ShardSession, bytes: number): void;
  /**
   * Detaches the session of a connection that moves to another acceptor. It is kept under this
   * number until that acceptor adopts it.
   */
  detach(session: ShardSession, number: number): void;
  /** Ends the session of a connection that is gone. */
  end(session: ShardSession): void;
  /** Returns the name of the connection with this session, for display. */
  holderName(session: number): string;
  /**
   * Returns the name or the address of the client that holds a job in this session, in Latin-1. For
   * a lease over HTTP, the name is its token's.
   */
  workerText(session: number, job: number): string;
  /** Updates the gauges that `stats` adds up. */
  updateGauges(): void;
}

/** Executes a message and answers it now or later. The message is valid only during the call. */
export type ShardCommand = (shard: CommandShard, session: ShardSession, request: Request) => void;
