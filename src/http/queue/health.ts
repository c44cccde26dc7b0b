// Liveness and readiness of the server, for probes, people and metrics.

import { GROUP_ROLES, GroupFigure } from "../../message/group.ts";
import { ControlWord } from "../../message/topology.ts";
import { Lease } from "../../ring/lease-word.ts";
import { SILENT_MS_MAX } from "./liveness.ts";
import type { Service } from "./service.ts";

export interface Verdict {
  readonly ok: boolean;
  /** "ok", or a code for programs. */
  readonly status: string;
  readonly detail: string;
}

const NO_MEMORY = "new jobs are refused: jobs have all the memory that max-memory gives them";

/** A certificate that expires within this time is reported. */
const CERTIFICATE_WARNED_MS = 14 * 86_400_000;

const OK: Verdict = { ok: true, status: "ok", detail: "ok" };

const no = (status: string, detail: string): Verdict => ({ ok: false, status, detail });

/** Fails only if a restart would help: never for a replay, a full disk, draining or load. */
export function livenessOf(service: Service): Verdict {
  const { silent } = service.liveness;
  // A frozen server is alive: its shards answer once it may serve. That applies to a standby, and
  // to a primary that can't reach the shared log.
  if (silent.length === 0 || isFrozen(service)) return OK;
  return no("silent", `shard ${silent.join(", ")} has not answered for ${SILENT_MS_MAX / 1000} s`);
}

/** Tells whether the server accepts commands. */
export function readinessOf(service: Service): Verdict {
  const { state, topology } = service;
  if (state.phase === "serving")
    return isFrozen(service) ? no("frozen", "the shared log of the group does not answer") : OK;
  if (state.phase === "stopping") return no("stopping", "the server is stopping");
  if (topology.binlog?.group !== undefined && follows(topology.binlog.group.figures))
    return no("standby", "another server of the group has the lead");
  return no("starting", `the log is replayed: ${Math.floor(state.replayed * 100)} %`);
}

/** A follower reads its own log before it follows, but it is not about to serve. */
function follows(figures: SharedArrayBuffer): boolean {
  const role = GROUP_ROLES[new Float64Array(figures)[GroupFigure.Role]!];
  return role === "starting" || role === "standby";
}

/** Tells whether the server belongs to a group and may not serve now. */
export function isFrozen({ topology, words, nowMs, wallMs }: Service): boolean {
  if (topology.binlog?.group === undefined) return false;
  return new Lease(words.words, ControlWord.ServeUntil, ControlWord.ServeUntilWall, wallMs).isOver(nowMs());
}

/** Tells whether the server accepts puts. */
export function putReadinessOf(service: Service): Verdict {
  const ready = readinessOf(service);
  if (!ready.ok) return ready;
  const { words } = service;
  if (words.isSet(ControlWord.Draining))
    return no("draining", "new jobs are refused: the server is draining");
  if (words.isSet(ControlWord.SharedLogFull))
    return no("shared-log-full", "new jobs are refused: the shared log of the group is nearly full");
  if (words.isSet(ControlWord.BinlogFull))
    return no("disk-full", "new jobs are refused: the disk of the log is full");
  if (service.memory.isFull) return no("memory-full", NO_MEMORY);
  return OK;
}

/** Describes the certificates that expire soon or have expired; "" if there are none. */
function certificatesThatEnd({ state, wallMs }: Service): string {
  return state.certificates
    .filter(({ endsAtMs }) => endsAtMs - wallMs() <= CERTIFICATE_WARNED_MS)
    .map(
      ({ name, endsAtMs }) =>
        `the certificate of ${name} expires on ${new Date(endsAtMs).toISOString().slice(0, 10)}`,
    )
    .join(", ");
}

/** Returns all checks by name. */
export function checksOf(
  service: Service,
): Record<"live" | "ready" | "puts" | "log" | "certificates" | "memory" | "draining", Verdict> {
  const { words } = service;
  const check = (isBad: boolean, status: string, detail: string): Verdict =>
    isBad ? no(status, detail) : OK;
  const late = certificatesThatEnd(service);
  return {
    live: livenessOf(service),
    ready: readinessOf(service),
    puts: putReadinessOf(service),
    log: check(
      words.isSet(ControlWord.BinlogFull) || words.isSet(ControlWord.BinlogEnded),
      "full",
      "the log has no room: free some on its disk",
    ),
    certificates: check(late !== "", "certificate-ends", late),
    memory: check(service.memory.isFull, "memory-full", NO_MEMORY),
    draining: check(
      words.isSet(ControlWord.Draining),
      "draining",
      "the server is draining (SIGUSR1): it accepts no new jobs",
    ),
  };
}
