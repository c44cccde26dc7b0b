// What the thread of a group and the log's thread say to each other: orders and news while the node follows, then batches in a ring.
//
//   offset  0  int32    length of the message (set by the ring)
//   offset  4  uint32   bytes of the batch
//   offset  8  float64  of each shard the number of its last record that is in the batch or an earlier one
//   then       the batch (batch.ts)

import type { ChainPlace } from "./batch.ts";

/** From the thread of the group. Orders are done one after the other. */
export type GroupOrder =
  /** The group that the shared log is of: the directory is opened. */
  | { order: "follow"; groupId: string }
  /** Valid batches, each behind the one before. */
  | { order: "apply"; batches: Uint8Array[] }
  | { order: "cut"; n: number }
  /** The batches of the own log behind batch `after` are wanted. */
  | { order: "tail"; after: number }
  /** The LEAD with which the node would take the lead is wanted. */
  | { order: "lead-batch"; tag: number; expectedLast: number }
  /** The node has the lead: the log is opened, and goes on in the chain. */
  | { order: "lead"; place: ChainPlace }
  /** Another server has the same name: the directory is a copy, and gets a name of its own. */
  | { order: "rename" }
  /** The directory is of no use any more. */
  | { order: "set-aside" };

/** A batch that a directory holds. */
export interface KnownBatch {
  n: number;
  tag: number;
  epoch: number;
  node: number;
  unacknowledged: number;
  /** As in its header: the last message that was known to be valid then. */
  message: number;
}

/** From the log's thread. */
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

/** A server of a group, as it says of itself. */
export interface GroupMember {
  node: number;
  role: GroupRoleName;
  /** Where its clients connect, if it has the lead: "host:port". */
  address: string;
  epoch: number;
  /** The last batch in its log. */
  n: number;
  /** Of a primary: whether it may serve, and what is not acknowledged. */
  mayServe: boolean;
  pendingBatches: number;
  /** Of a standby: whether its log has all that counts, and how many messages it is behind. */
  isComplete: boolean;
  behind: number;
  pid: number;
  version: string;
}

/** Who is in the group, as the thread of the group heard it last. */
export interface GroupMembers {
  group: string;
  /** This server's own number, as in its report. */
  node: number;
  members: readonly GroupMember[];
}

/** What the thread of a group tells metrics: float64 words that it alone writes. */
export const GroupFigure = {
  /** As in GROUP_ROLES. */
  Role: 0,
  Epoch: 1,
  Batch: 2,
  /** Written and not acknowledged; messages of them under way. */
  PendingBatches: 3,
  MessagesUnderWay: 4,
  /** How often it had to read what became of a message. */
  Doubts: 5,
  /** Batches in the shared log that did not count. */
  Ignored: 6,
  /** Of a standby: messages that it has not read. */
  Behind: 7,
  LogBytes: 8,
  LogLimitBytes: 9,
  Standbys: 10,
  /** Appends that were acknowledged, and how long they took all together, ms. */
  Appends: 11,
  AppendMs: 12,
  /** How often it could not serve because the shared log did not answer. */
  Freezes: 13,
} as const;
export const GROUP_FIGURES = 16;
