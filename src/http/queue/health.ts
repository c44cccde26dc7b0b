// Liveness and readiness of the server, for probes, people and metrics.

import { asciiBytes, shardOfTube } from "../../base/bytes.ts";
import type { BatchSign, FlowSigns, ScheduleTrouble, ShardTotals, TubeTimes } from "../../message/control.ts";
import { GROUP_ROLES, GroupFigure } from "../../message/group.ts";
import { ControlWord } from "../../message/topology.ts";
import { Lease } from "../../ring/monotonic-clock.ts";
import { SILENT_MS_MAX } from "../link/control-client.ts";
import type { TubeEntry } from "../state/tube-cache.ts";
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
      words.isSet(ControlWord.BinlogFull) || words.isSet(ControlWord.NoMoreReplies),
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

// Totals and tables, with a fallback to the last known ones. In a frozen group, shards answer no
// questions, and with a full disk they may not answer for long. Monitoring must still get data
// about the server itself.

/** Interval at which the freeze is checked, and maximum wait for an answer, ms. */
const LOOK_MS = 100;
const ANSWER_MS_MAX = 2000;

/**
 * Returns the totals of all shards, or the last known ones if the shards don't answer; undefined
 * before their first answer.
 */
export async function knownTotals(service: Service): Promise<ShardTotals | undefined> {
  if (service.state.phase !== "serving") return undefined;
  const { totals } = service;
  return await answerOr(
    service,
    () => totals.ask(),
    () => totals.last,
  );
}

/** Returns the table of tubes, or the last known one. */
export async function knownTubes(service: Service): Promise<ReadonlyMap<string, TubeEntry>> {
  const { tubes } = service;
  return await answerOr(
    service,
    () => tubes.fresh(),
    () => tubes.tubes,
  );
}

/** Problems that need an operator's attention, over all shards; each batch with its sums. */
export interface KnownSigns {
  readonly batches: readonly BatchSign[];
  readonly schedules: NonNullable<FlowSigns["schedules"]>;
}

const NO_SCHEDULES = { count: 0, first: [] };
export const NO_SIGNS: KnownSigns = {
  batches: [],
  schedules: { paused: NO_SCHEDULES, refused: NO_SCHEDULES, missing: NO_SCHEDULES },
};

/** Returns the signs of all shards; none if the shards don't answer. */
export async function knownSigns(service: Service): Promise<KnownSigns> {
  const { control } = service;
  const ask = async (): Promise<KnownSigns> => {
    const parts: FlowSigns[] = [];
    const asked = Array.from({ length: control.shards }, (_, shard) =>
      control.askParts(shard, "flow-signs", undefined, (bytes) =>
        parts.push(control.valueOf<"flow-signs">(bytes)),
      ),
    );
    await Promise.all(asked);
    return signsOf(parts);
  };
  return await answerOr(service, ask, () => NO_SIGNS);
}

function signsOf(parts: readonly FlowSigns[]): KnownSigns {
  const batches = new Map<number, BatchSign>();
  for (const [number, name, ...counts] of parts.flatMap((part) => part.batches)) {
    const [, known = "", ...before] = batches.get(number) ?? [];
    const [failed, buried, waiting] = counts.map((count, at) => count + (before[at] ?? 0)) as [
      number,
      number,
      number,
    ];
    batches.set(number, [number, known || name, failed, buried, waiting]);
  }
  const all = (trouble: ScheduleTrouble): KnownSigns["schedules"][ScheduleTrouble] => {
    const of = parts.flatMap(({ schedules }) => (schedules === undefined ? [] : [schedules[trouble]]));
    return { count: of.reduce((sum, { count }) => sum + count, 0), first: of.flatMap(({ first }) => first) };
  };
  const schedules = { paused: all("paused"), refused: all("refused"), missing: all("missing") };
  return { batches: [...batches.values()], schedules };
}

/** Takes the times of the first tubes with series, and measures these tubes from now on. */
export async function renewTimes(service: Service): Promise<void> {
  const { series, times } = service.measured;
  const names = times.chosen(series.own().keys());
  times.renew(await knownTimes(service, names, times.last), service.nowMs());
}

/** Between two scrapes, or without any: renews the tubes with series, and their times. */
export async function measureTubes(service: Service): Promise<void> {
  const { measured, nowMs } = service;
  if (!measured.isWanted) return;
  await measured.turns.run({ destroyed: false }, async () => {
    measured.series.renew(await knownTubes(service), nowMs());
    await renewTimes(service);
  });
}

/** Returns the times of these tubes, or those known before; measures them from now on. */
async function knownTimes(
  service: Service,
  names: readonly string[],
  known: ReadonlyMap<string, TubeTimes>,
): Promise<ReadonlyMap<string, TubeTimes>> {
  const { control } = service;
  const ask = async (): Promise<ReadonlyMap<string, TubeTimes>> => {
    const times = new Map<string, TubeTimes>();
    const asked = Array.from({ length: control.shards }, (_, shard) => {
      const tubes = names.filter((name) => shardOf(name, control.shards) === shard);
      return control.askParts(shard, "tube-times", { tubes }, (bytes) => {
        for (const [name, each] of control.valueOf<"tube-times">(bytes)) times.set(name, each);
      });
    });
    await Promise.all(asked);
    return times;
  };
  return await answerOr(service, ask, () => known);
}

function shardOf(name: string, shards: number): number {
  const bytes = asciiBytes(name);
  return shardOfTube(bytes, 0, bytes.length, shards);
}

async function answerOr<T>(service: Service, ask: () => Promise<T>, known: () => T): Promise<T> {
  if (isFrozen(service)) return known();
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const untilMs = service.nowMs() + ANSWER_MS_MAX;
  const timer = setInterval(() => {
    if (isFrozen(service) || service.nowMs() > untilMs) resolve(known());
  }, LOOK_MS);
  ask().then(resolve, reject);
  try {
    return await promise;
  } finally {
    clearInterval(timer);
  }
}
