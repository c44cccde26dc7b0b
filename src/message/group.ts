// Messages between the group thread and the log thread: orders and news while the node follows,
// then batches in a ring.
//
//   offset  0  int32    length of the message (set by the ring)
//   offset  4  uint32   bytes of the batch
//   offset  8  float64  for each shard, the number of its last record up to this batch
//   then       the batch (log-batch.ts)

import type { ChainPlace } from "./log-batch.ts";

/** An order of the group thread. Orders are executed one after another. */
export type GroupOrder =
  /** Names the shared log's group: opens the directory. */
  | { order: "follow"; groupId: string }
  /** Valid batches, each the successor of the one before. */
  | { order: "apply"; batches: Uint8Array[] }
  | { order: "cut"; n: number }
  /** Asks for the batches of the node's own log after batch `after`. */
  | { order: "tail"; after: number }
  /** Asks for the LEAD batch with which the node would take the lead. */
  | { order: "lead-batch"; tag: number; expectedLast: number }
  /** The node has the lead: opens the log and continues the chain. */
  | { order: "lead"; place: ChainPlace }
  /** Another server has the same name: this directory is a copy and gets a new name. */
  | { order: "rename" }
  /** Sets the directory aside, because it is no longer of use. */
  | { order: "set-aside" };

/** A batch that a directory contains. */
export interface KnownBatch {
  n: number;
  tag: number;
  epoch: number;
  node: number;
  unacknowledged: number;
  /** As in its header: the last message known to be valid at the time. */
  message: number;
}

/** News from the log thread. */
export type GroupNews =
  | { news: "follows"; node: number; known: KnownBatch[]; hasOwnJobs: boolean; isComplete: boolean }
  | { news: "applied"; bytes: number; n: number; isComplete: boolean }
  /** Batches up to this one are durable. */
  | { news: "kept"; place: ChainPlace }
  | { news: "lead-batch"; tag: number; expectedLast: number; bytes: Uint8Array }
  | { news: "tail"; batches: Uint8Array[] }
  | { news: "set-aside"; folder: string };

/** In the order of GroupFigure.Role. */
export const GROUP_ROLES = ["starting", "standby", "opening", "primary"] as const;
export type GroupRoleName = (typeof GROUP_ROLES)[number];

/** A server of a group, as it describes itself. */
export interface GroupMember {
  node: number;
  role: GroupRoleName;
  /** The address for clients, "host:port", if it has the lead. */
  address: string;
  epoch: number;
  /** The last batch in its log. */
  n: number;
  /** Of a primary: whether it may serve, and the number of unacknowledged batches. */
  mayServe: boolean;
  pendingBatches: number;
  /** Of a standby: whether its log is complete, and how many messages it is behind. */
  isComplete: boolean;
  behind: number;
  pid: number;
  version: string;
}

/** The members of the group, as last reported to the group thread. */
export interface GroupMembers {
  group: string;
  /** This server's own number, as in its report. */
  node: number;
  members: readonly GroupMember[];
}

/** The group thread's figures for metrics: float64 words that only it writes. */
export const GroupFigure = {
  /** Index into GROUP_ROLES. */
  Role: 0,
  Epoch: 1,
  Batch: 2,
  /** Batches written and not acknowledged; messages with such batches in flight. */
  PendingBatches: 3,
  MessagesUnderWay: 4,
  /** How often it had to read the log to learn what became of a message. */
  Doubts: 5,
  /** Batches in the shared log that were not valid. */
  Ignored: 6,
  /** Of a standby: messages that it has not read. */
  Behind: 7,
  LogBytes: 8,
  LogLimitBytes: 9,
  Standbys: 10,
  /** Acknowledged appends, and their total time in ms. */
  Appends: 11,
  AppendMs: 12,
  /** How often it could not serve because the shared log did not answer. */
  Freezes: 13,
} as const;
export const GROUP_FIGURES = 16;
