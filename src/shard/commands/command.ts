// What a shard does for one kind of message: a function in a file of its own under commands/.

import type { Engine } from "../../engine/engine.ts";
import type { Request } from "../../protocol/request.ts";
import type { PutIntake } from "../intake/put-intake.ts";
import type { RecordLog } from "../records/record-log.ts";
import type { Replies } from "../replies/replies.ts";
import type { TubeLists } from "../replies/tube-lists.ts";
import type { TubeSetter } from "../replies/tube-setter.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommands } from "../slices/sliced-commands.ts";
import type { TransferSender } from "../transfer/transfer-sender.ts";

/** What a command may use of its shard. */
export interface CommandShard {
  readonly engine: Engine;
  readonly replies: Replies;
  readonly puts: PutIntake;
  readonly moves: SlicedCommands;
  /** Jobs on their way to other shards. */
  readonly departures: TransferSender;
  readonly lists: TubeLists;
  readonly tubeSetter: TubeSetter;
  /** Undefined without a log. */
  readonly records: RecordLog | undefined;
  /** stats-job and stats-tube quote names. */
  readonly quoteNames: boolean;
  /** Time of the present turn, monotonic ms. */
  readonly nowMs: number;
  /** Connections whose wait over several shards is counted here. */
  readonly leadWaits: Set<ShardSession>;

  /**
   * Whether the session has no job to get, but other acceptors are asked to look for one first: see looks.ts.
   */
  looksFirst(session: ShardSession): boolean;
  /** A reserve of this shard alone; `timeoutMs` 0 for one that does not wait. */
  reserve(session: ShardSession, timeoutMs: number): void;
  /** RESERVED with the job in `slot`, or what its command wants instead; `flags` are ResponseFlags. */
  giveJob(session: ShardSession, slot: number, flags: number): void;
  /** The command of the session has ended: what waits behind it may go on. */
  resume(session: ShardSession): void;
  /** The client has read so many bytes of its replies: see message/reply-credit.ts. */
  read(session: ShardSession, bytes: number): void;
  /** The connection moves to another acceptor: its session is kept by this number until that adopts it. */
  detach(session: ShardSession, number: number): void;
  /** The connection is gone. */
  end(session: ShardSession): void;
  /** The connection with this session, as people are told of it. */
  holderName(session: number): string;
  /** Updates the gauges that `stats` adds up. */
  updateGauges(): void;
}

/** Executes a message, which is valid during the call, and answers it now or later. */
export type ShardCommand = (shard: CommandShard, session: ShardSession, request: Request) => void;
