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
import {
  binlogBell,
  binlogGroup,
  binlogRole,
  ControlWord,
  Counter,
  countersOf,
  httpBell,
  type Topology,
} from "../message/topology.ts";
import { Doorbell } from "../ring/doorbell.ts";
import { Lease, monotonicMs } from "../ring/monotonic-clock.ts";
import { BatchWord, ControlWords, LentIds, LogWord, LogWords, RestateWords } from "../ring/shared-words.ts";
import type { FollowEnd } from "./follower-core.ts";
import type { GroupUrl } from "./group-url.ts";
import type { JetStreamLog } from "./jetstream-log.ts";
import type { LeadEnd } from "./primary-core.ts";
import { type LogEnds, LogError } from "./shared-log.ts";

// Shared memory in which the group's thread publishes to all others: the progress of the shared
// log, the end of the lease, and the lent ids.

class SharedWords {
  readonly #topology: Topology;
  readonly #control: ControlWords;
  readonly #restate: RestateWords;
  readonly #progress: LogWords;
  readonly #lease: Lease;
  readonly #lent: LentIds;
  readonly #batch: BatchWord;
  readonly #message: BatchWord;
  readonly #threads: readonly Doorbell[];
  readonly #binlog: Doorbell;
  #serveUntilMs = 0;
  #idsLent = 0;
  #batchN = 0;

  constructor(topology: Topology) {
    this.#topology = topology;
    this.#control = new ControlWords(topology.control);
    this.#restate = new RestateWords(topology.binlog!.restate, topology.shards);
    const { words } = this.#control;
    this.#progress = new LogWords(binlogGroup(topology).progress, LogWord.Written);
    this.#lease = new Lease(words, ControlWord.ServeUntil, ControlWord.ServeUntilWall);
    this.#lent = new LentIds(words, ControlWord.IdsLent);
    this.#batch = new BatchWord(words, ControlWord.AcknowledgedBatch);
    this.#message = new BatchWord(words, ControlWord.AcknowledgedMessage);
    const bells = new Int32Array(topology.doorbells);
    const serving = [...topology.threads.keys(), httpBell(topology)];
    this.#threads = serving.map((bell) => new Doorbell(bells, bell));
    this.#binlog = new Doorbell(bells, binlogBell(topology));
  }

  get damagedBelow(): number {
    return this.#restate.rewriteBelow;
  }

  /** Asks the log to rewrite segments that are damaged on a standby, whose answer is untrusted. */
  rewriteBelow(segment: number): void {
    const current = countersOf(this.#topology, binlogRole(this.#topology))[Counter.BinlogCurrent]!;
    if (!(segment > this.damagedBelow) || segment > current) return;
    this.#restate.rewrite(Math.floor(segment) - 1);
    this.#binlog.ring();
  }

  /** Publishes that each shard's records up to these numbers are acknowledged. */
  publishAcknowledged(numbers: Float64Array, idsLent: number): void {
    assert(numbers.length === this.#topology.shards, "each shard has a number");
    for (let shard = 0; shard < this.#topology.shards; shard++)
      this.#progress.publish(shard, numbers[shard]!);
    if (idsLent !== this.#idsLent) this.#lent.publish(idsLent);
    this.#idsLent = idsLent;
  }

  /**
   * Publishes that batch `n` and all before it are in the shared log; batch `n` is in message
   * `sequence`.
   */
  publishBatch(n: number, sequence: number): void {
    assert(sequence > 0, "an acknowledged batch is in a message");
    assert(n > this.#batchN, "batches are acknowledged in order");
    this.#batchN = n;
    this.#message.publish(sequence);
    this.#batch.publish(n);
  }

  /**
   * Returns whether an expired lease is valid again, which ends a freeze. `wallAheadMs` is the lead
   * of the wall clock over the monotonic one.
   */
  publishLease(untilMs: number, nowMs: number, wallAheadMs: number): boolean {
    assert(!Number.isNaN(untilMs), "the end of a lease is a number");
    assert(!Number.isNaN(wallAheadMs), "the lead of the wall clock is a number");
    const wasOver = this.#serveUntilMs <= nowMs;
    if (untilMs === this.#serveUntilMs) return false;
    this.#serveUntilMs = untilMs;
    this.#lease.publish(untilMs, untilMs + wallAheadMs);
    return wasOver && untilMs > nowMs;
  }

  publishFull(isFull: boolean): void {
    if (isFull === this.#control.isSet(ControlWord.SharedLogFull)) return;
    if (isFull) this.#control.set(ControlWord.SharedLogFull);
    else this.#control.clear(ControlWord.SharedLogFull);
  }

  /** Makes acceptors and shards check again. */
  ringAll(): void {
    for (const thread of this.#threads) thread.ring();
  }

  ringBinlog(): void {
    this.#binlog.ring();
  }
}

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
