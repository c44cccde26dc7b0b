// Everything that routes and metrics work with: access to the shards, and the state of the server.

import type { ShownCertificate } from "../../acceptor/admission/listener-policy.ts";
import type { AcceptorCore } from "../../acceptor/connection/acceptor-core.ts";
import type { GroupMembers } from "../../message/group.ts";
import type { ScrubReport } from "../../message/log-figures.ts";
import type { ManualChange } from "../../message/manual-change.ts";
import type { Topology } from "../../message/topology.ts";
import type { ControlWords, MemoryWords } from "../../ring/shared-words.ts";
import type { ControlClient, Liveness } from "../link/control-client.ts";
import type { PutPool } from "../link/put-pool.ts";
import type { Bodies, WireClients } from "../link/wire-connection.ts";
import type { IdempotencyKeys } from "../state/idempotency.ts";
import type { LeaseTable } from "../state/lease-table.ts";
import type { StatsHistory, SyncHistory } from "../state/stats-history.ts";
import type { TaskRegistry } from "../state/task-registry.ts";
import type { MeasuredTubes, MetricsRules } from "../state/time-series.ts";
import type { TubeCache } from "../state/tube-cache.ts";
import type { TubeHistory } from "../state/tube-history.ts";
import type { Backups } from "./backups.ts";
import type { ConnectionClient } from "./connection-client.ts";
import type { GiveBacks } from "./lease-changes.ts";
import type { Reservations } from "./reservations.ts";

// Audit log in memory: the last changes by hand. The server's log has all of them, except during a
// flood.

const CHANGES_MAX = 500;

export class AuditLog {
  readonly #changes: ManualChange[] = [];

  note(change: ManualChange): void {
    this.#changes.push(change);
    if (this.#changes.length > CHANGES_MAX) this.#changes.shift();
  }

  /** Returns the changes, newest first. */
  get latest(): readonly ManualChange[] {
    return this.#changes.toReversed();
  }
}

/** Facts that stay the same while the server runs. */
export interface ServerFacts {
  readonly version: string;
  /** 16 hex digits, drawn at the start. */
  readonly instanceId: string;
  readonly hostname: string;
  readonly pid: number;
  /** Wall clock, ms. */
  readonly startedAtMs: number;
  readonly startedAtMonotonicMs: number;
  readonly descriptorsMax: number;
  /** Options of the server by name. */
  readonly options: Readonly<Record<string, string | number | boolean | null>>;
}

export interface OpenListener {
  /** Its address, with " (TLS)" if it has that. */
  readonly where: string;
  /** What a client must show. */
  readonly auth: "none" | "token" | "certificate";
}

/** State that changes, as the main thread reports it. */
export interface ServerState {
  phase: "starting" | "serving" | "stopping";
  /** Progress of the replay, 0 to 1. */
  replayed: number;
  /** The beanstalkd listeners; empty before the server listens. */
  listeners: readonly OpenListener[];
  /** URLs of the HTTP side, and whether it requires tokens. */
  httpUrls: readonly string[];
  httpTokens: boolean;
  /**
   * Members of the group, once its thread has asked for them, and the time of that report on the
   * monotonic clock, ms.
   */
  group: (GroupMembers & { readonly atMs: number }) | undefined;
  /** What the scrub of the log has found; undefined before its first report. */
  scrub: ScrubReport | undefined;
  /** Transport of the listeners' connections. */
  transport: string;
  certificates: readonly ShownCertificate[];
  /** Whether the last reload succeeded, and the time of the last success, Unix seconds. */
  reload: { readonly successful: boolean; readonly successAt: number };
  /** Wrong tokens received over HTTP. */
  wrongTokens: number;
  /** Changes over HTTP that are at /v1/audit and not in the log: too many came at once. */
  changesNotLogged: number;
  /** HTTP connections and requests refused by the connection limit. */
  connectionsRefused: number;
  /** HTTP connections of refused clients that were open at the limit of their lingering close. */
  connectionsCutOff: number;
  /** Open event streams. */
  streams: number;
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
  readonly puts: PutPool;
  readonly reservations: Reservations;
  readonly leases: LeaseTable;
  readonly giveBacks: GiveBacks;
  readonly keys: IdempotencyKeys;
  readonly tasks: TaskRegistry;
  readonly connections: ConnectionClient;
  readonly words: ControlWords;
  /** Memory that jobs use, and its limit. */
  readonly memory: MemoryWords;
  readonly audit: AuditLog;
  /** Undefined without a log. */
  readonly backups: Backups | undefined;
  /** Asks for a check of the whole log now, or pauses checks. */
  readonly scrub: (pauses: boolean) => void;
  readonly metrics: MetricsRules;
  readonly measured: MeasuredTubes;
  /** Monotonic clock, ms. */
  readonly nowMs: () => number;
  /** Wall clock, ms. */
  readonly wallMs: () => number;
}
