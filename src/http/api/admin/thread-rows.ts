// Recent load of the threads: CPU of each thread, and turns and messages of its rings. Several
// clients may ask at the same time, so the rows change at most once a second.

import type { Static, TObject } from "typebox";
import type { Topology } from "../../../message/topology.ts";
import { type TurnCounts, turnCountsOf } from "../../../message/turn-counters.ts";
import { threadCpu } from "../../metrics/process-files.ts";
import type { Load } from "../schemas.ts";

const FRESH_MS = 900;

type LoadView = Static<TObject<typeof Load>>;

interface Looked {
  readonly atMs: number;
  readonly cpuSeconds: ReadonlyMap<string, number>;
  readonly turns: ReadonlyMap<string, TurnCounts>;
}

let last: Looked | undefined;
let lastRows: LoadView = { load: [], rings: [] };

export function threadRows(topology: Topology, nowMs: number): LoadView {
  if (last !== undefined && nowMs - last.atMs < FRESH_MS) return lastRows;
  const now: Looked = {
    atMs: nowMs,
    cpuSeconds: new Map(threadCpu().map((each) => [each.thread, each.userSeconds + each.systemSeconds])),
    turns: new Map(turnCountsOf(topology).map((each) => [each.thread, each])),
  };
  const before = last ?? now;
  const seconds = Math.max(FRESH_MS, nowMs - before.atMs) / 1000;
  lastRows = {
    load: [...now.cpuSeconds].map(([name, total]) => ({
      name,
      cpu: Math.max(0, total - (before.cpuSeconds.get(name) ?? total)) / seconds,
    })),
    rings: [...now.turns.values()].map((each) =>
      ringRow(each, before.turns.get(each.thread) ?? each, seconds),
    ),
  };
  last = now;
  return lastRows;
}

function ringRow(now: TurnCounts, before: TurnCounts, seconds: number): LoadView["rings"][0] {
  const busyTurns = now.busyTurns - before.busyTurns;
  const filled = now.ringFillMean * now.busyTurns - before.ringFillMean * before.busyTurns;
  return {
    name: now.thread,
    turns: (now.turns - before.turns) / seconds,
    messages: (now.messages - before.messages) / seconds,
    fill: busyTurns <= 0 ? 0 : Math.min(1, Math.max(0, filled / busyTurns)),
    fillMax: now.ringFillMax,
  };
}
