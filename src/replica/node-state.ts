// State of a group's node that both of its roles share, and its connections to the log's thread and
// the main thread.

import { assert } from "../base/assert.ts";
import {
  GROUP_FIGURES,
  GroupFigure,
  type GroupMembers,
  type GroupNews,
  type GroupOrder,
  type GroupRoleName,
} from "../message/group.ts";
import type { ChainPlace } from "../message/log-batch.ts";
import { binlogGroup, type Topology } from "../message/topology.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import type { FollowEnd } from "./follower-core.ts";
import type { GroupUrl } from "./group-url.ts";
import type { JetStreamLog } from "./jetstream-log.ts";
import type { LeadEnd } from "./primary-core.ts";
import { type LogEnds, LogError } from "./shared-log.ts";
import { SharedWords } from "./shared-words.ts";

/** Interval at which a standby queries the log, and a primary checks the time. */
export const LOOK_MS = 100;
/** Interval at which a node queries the other members, and a primary the fill level of the log. */
export const LOOK_AROUND_MS = 2000;
/** A hole that remains after this many attempts is real. */
const HOLES_MAX = 5;

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The port to the log's thread. */
export interface OrderPort {
  on(event: "message", listener: (news: GroupNews) => void): unknown;
  postMessage(order: GroupOrder): void;
}

export interface GroupNodeOptions {
  url: GroupUrl;
  /** The address at which other nodes see this node accept clients. */
  address: string;
  leaseMs: number;
  /** Whether a reply also waits until a standby has its change on disk. */
  waitsForStandby: boolean;
  version: string;
  /** The version of the log's format. */
  logVersion: number;
}

export type GroupEnd = LeadEnd | FollowEnd | "log-missing" | "log-refused";

/** Messages from the group's thread to the main thread. */
export type NodeNews =
  | { news: "log"; level: "info" | "warn" | "error"; message: string }
  /** This node has the lead, and may serve after the given delay. */
  | { news: "leads"; epoch: number; mayServeInMs: number }
  | { news: "ended"; how: GroupEnd; why: string; folder?: string }
  /** Everything taken so far is acknowledged. */
  | { news: "drained" }
  /** An operator wants another node to lead. */
  | { news: "yield-asked" }
  | ({ news: "members" } & GroupMembers);

export class NodeState {
  readonly options: GroupNodeOptions;
  readonly words: SharedWords;
  /** See GroupFigure. */
  readonly figures: Float64Array;
  readonly tell: (news: NodeNews) => void;
  readonly #port: OrderPort;
  /** The shared log, once the node is connected to it. */
  log!: JetStreamLog;
  role: GroupRoleName = "starting";
  /** The last batch that the node knows: applied by a standby, acknowledged for a primary. */
  place: ChainPlace = { epoch: 0, n: 0, tag: 0 };
  /** The last batch that is durable in the local log; may be known before the node follows. */
  kept: ChainPlace = this.place;
  ended = false;
  /** Attempts in a row that found a hole in the shared log. */
  #holes = 0;
  /**
   * Lead of the wall clock over the monotonic one. Taken at the start, so that a new primary
   * notices if the machine was suspended after it sent its LEAD.
   */
  wallAheadMs: number = Date.now() - monotonicMs();
  /** Why the node ended. */
  why = "";

  constructor(
    options: GroupNodeOptions,
    topology: Topology,
    port: OrderPort,
    tell: (news: NodeNews) => void,
  ) {
    this.options = options;
    this.words = new SharedWords(topology);
    this.figures = new Float64Array(binlogGroup(topology).figures);
    assert(this.figures.length === GROUP_FIGURES, "each figure has its word");
    this.tell = tell;
    this.#port = port;
  }

  get isFollowing(): boolean {
    return this.role === "standby" && !this.ended;
  }

  say(level: "info" | "warn" | "error", message: string): void {
    this.tell({ news: "log", level, message });
  }

  order(order: GroupOrder): void {
    this.#port.postMessage(order);
  }

  end(how: GroupEnd, why: string): void {
    if (this.ended) return;
    this.ended = true;
    this.why = why;
    if (how === "start-anew") this.order({ order: "set-aside" });
    else this.tell({ news: "ended", how, why });
  }

  /** All messages that were asked for were read. */
  hasRead(): void {
    this.#holes = 0;
  }

  readFailed(error: unknown): void {
    if (!(error instanceof LogError)) throw error;
    if (error.kind === "missing") this.end("log-missing", "the stream is missing");
    else if (error.kind === "hole") this.#holes++;
    if (this.#holes > HOLES_MAX) this.end("hole", error.message);
  }

  noteEnds({ bytes, limitBytes }: LogEnds): void {
    this.figures[GroupFigure.LogBytes] = bytes;
    this.figures[GroupFigure.LogLimitBytes] = limitBytes;
  }
}
