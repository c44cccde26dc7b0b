// Totals and tables, with a fallback to the last known ones. In a frozen group, shards answer no
// questions, and with a full disk they may not answer for long. Monitoring must still get data
// about the server itself.

import { asciiBytes } from "../../base/bytes.ts";
import { shardOfTube } from "../../base/tube-hash.ts";
import type { BatchSign, FlowSigns, ScheduleTrouble, ShardTotals, TubeTimes } from "../../message/control.ts";
import type { TubeEntry } from "../state/tube-cache.ts";
import { isFrozen } from "./health.ts";
import type { Service } from "./service.ts";

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
