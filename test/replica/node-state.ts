// State of a simulated node, and what it needs of its group.

import type { FollowLog } from "../../src/binlog/follow-log.ts";
import type { Storage } from "../../src/binlog/live/storage.ts";
import type { OpenOptions } from "../../src/binlog/recovery/open-options.ts";
import type { FollowerCore } from "../../src/replica/follower-core.ts";
import type { PrimaryCore } from "../../src/replica/primary-core.ts";
import { VirtualDisk } from "../binlog/virtual-disk.ts";
import type { SeededRandom } from "../support/seeded-random.ts";
import { type FaultyLog, LogConnection } from "./faulty-log.ts";
import type { Bug } from "./planted-bugs.ts";
import type { VirtualTime } from "./virtual-time.ts";

export const LEASE_MS = 3000;

const SEGMENT_BYTES = 16_384;

const LENT_IDS = 16;

/** Record of everything that the group has told its clients, and of all that happened to it. */
export interface Witness {
  log(what: string): void;
  /** A number that no body had. */
  nextBody(): number;
  /** Commands that were sent: a put of a job with this id, or its deletion. */
  put(node: NodeState, id: number, body: string): void;
  deleting(id: number): void;
  inserted(id: number): void;
  deleted(id: number): void;
  leads(node: NodeState, epoch: number): void;
  serves(node: NodeState, epoch: number): void;
  /** After a power cut one node is the first. */
  mayStart(node: NodeState): boolean;
  fail(what: string): never;
}

interface Group {
  time: VirtualTime;
  random: SeededRandom;
  log: FaultyLog;
  witness: Witness;
  bug: Bug | undefined;
  nodes: NodeState[];
}

export abstract class NodeState {
  readonly number: number;
  readonly disk = new VirtualDisk();
  isUp = false;
  role: "off" | "follows" | "opens" | "leads" = "off";
  life = 0;
  epoch = 0;
  readonly connection: LogConnection;
  readonly group: Group;
  follower: FollowerCore | undefined;
  followLog: FollowLog | undefined;
  primary: PrimaryCore | undefined;
  storage: Storage | undefined;
  /** Jobs as the engine has them: id to body. */
  jobs = new Map<number, string>();

  replies: { n: number; tell: () => void }[] = [];

  compactions = 0;
  cuts = 0;
  tails = 0;
  restarts = 0;
  startsAnew = 0;

  abstract start(): Promise<void>;

  constructor(group: Group, number: number) {
    this.group = group;
    this.number = number;
    this.connection = new LogConnection(group.log);
  }

  get options(): OpenOptions {
    const { random, time } = this.group;
    return {
      disk: this.disk,
      shards: 1,
      segmentBytes: SEGMENT_BYTES,
      syncEvery: 50,
      salvage: false,
      parallel: false,
      smallSegments: true,
      lentIds: LENT_IDS,
      randomSalt: () => random.bits(),
      wallMs: () => time.nowMs,
      clockMs: () => time.nowMs,
      notice: () => {},
      progress: () => {},
    };
  }

  alive(life: number): boolean {
    return this.isUp && this.life === life;
  }

  /** The process ends in some order; its disk stays. */
  stop(): void {
    this.isUp = false;
    this.role = "off";
    this.life++;
    this.disk.kill();
    this.connection.break();
    this.replies = [];
  }

  leadSentAtMs = 0;
}
