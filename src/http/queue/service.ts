// All that routes and metrics work with: the ways to the shards, and what is known of the server.

import type { ShownCertificate } from "../../acceptor/admission/listener-policy.ts";
import type { AcceptorCore } from "../../acceptor/connection/acceptor-core.ts";
import type { GroupMembers } from "../../message/group.ts";
import type { Topology } from "../../message/topology.ts";
import type { ControlWords } from "../../ring/control-words.ts";
import type { MemoryWords } from "../../ring/memory-words.ts";
import type { Bodies } from "../link/bodies.ts";
import type { ControlClient } from "../link/control-client.ts";
import type { PutLanes } from "../link/put-lanes.ts";
import type { WireClients } from "../link/wire-clients.ts";
import type { AuditLog } from "../state/audit-log.ts";
import type { IdempotencyKeys } from "../state/idempotency.ts";
import type { LeaseTable } from "../state/lease-table.ts";
import type { StatsHistory } from "../state/stats-history.ts";
import type { SyncHistory } from "../state/sync-history.ts";
import type { TaskRegistry } from "../state/task-registry.ts";
import type { TubeCache } from "../state/tube-cache.ts";
import type { TubeHistory } from "../state/tube-history.ts";
import type { ConnectionClient } from "./connection-client.ts";
import type { GiveBacks } from "./give-backs.ts";
import type { Liveness } from "./liveness.ts";
import type { Reservations } from "./reservations.ts";

/** What does not change while the server runs. */
export interface ServerFacts {
  readonly version: string;
  /** 16 hex digits, drawn at start. */
  readonly instanceId: string;
  readonly hostname: string;
  readonly pid: number;
  /** Wall clock, ms. */
  readonly startedAtMs: number;
  readonly startedAtMonotonicMs: number;
  readonly descriptorsMax: number;
  /** Where the beanstalkd protocol is spoken, in words; empty before the server listens. */
  readonly options: Readonly<Record<string, string | number | boolean | null>>;
}

/** What changes, as the main thread tells it. */
export interface ServerState {
  phase: "starting" | "serving" | "stopping";
  /** How much of the log has been replayed, 0 to 1. */
  replayed: number;
  /** Where the beanstalkd protocol is spoken. */
  listeners: readonly string[];
  /** In a group, once its thread has asked who is there; and when that was told, monotonic ms. */
  group: (GroupMembers & { readonly atMs: number }) | undefined;
  /** What moves the bytes of connections there. */
  transport: string;
  certificates: readonly ShownCertificate[];
  /** Whether the configuration was taken when it was read last, and when it was taken last, Unix time in seconds. */
  reload: { readonly successful: boolean; readonly successAt: number };
  /** Wrong tokens that came over HTTP. */
  wrongTokens: number;
  /** Connections over HTTP that were too many. */
  connectionsRefused: number;
  /** Views that are sent again each second. */
  streams: number;
}

export interface MetricsRules {
  /** Tubes that have series of their own, at most. */
  readonly tubesMax: number;
  /** Globs of tubes that come first. */
  readonly tubes: readonly string[];
}

export interface Service {
  readonly topology: Topology;
  readonly facts: ServerFacts;
  readonly state: ServerState;
  readonly core: AcceptorCore;
  readonly control: ControlClient;
  readonly tubes: TubeCache;
  readonly tubeHistory: TubeHistory;
  readonly totals: StatsHistory;
  /** Empty without a log. */
  readonly syncs: SyncHistory;
  readonly liveness: Liveness;
  readonly wire: WireClients;
  readonly bodies: Bodies;
  readonly puts: PutLanes;
  readonly reservations: Reservations;
  readonly leases: LeaseTable;
  readonly giveBacks: GiveBacks;
  readonly keys: IdempotencyKeys;
  readonly tasks: TaskRegistry;
  readonly connections: ConnectionClient;
  readonly words: ControlWords;
  /** What jobs have of memory, and may have. */
  readonly memory: MemoryWords;
  readonly audit: AuditLog;
  readonly metrics: MetricsRules;
  /** Monotonic clock, ms. */
  readonly nowMs: () => number;
  /** Wall clock, ms. */
  readonly wallMs: () => number;
}
