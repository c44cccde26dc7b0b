// Files that take turns in `npm test`: whole runs play all, and so do runs that name them.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { drawnSeed } from "../seeded-random.ts";
import { hasTurn } from "../whole.ts";
import { isOneOf } from "./files.ts";

/**
 * Each run plays one group of each row. The groups of a row are of one kind, and take about as much
 * processor time as each other. A row has two or three, so each file is in every third run at
 * least.
 */
export const ROWS: readonly (readonly (readonly string[])[])[] = [
  // Campaigns in their small size, and the harnesses of others.
  [
    ["stress/stress", "scale/scale", "micro/micro"],
    ["fuzz/fuzz", "watch/watch", "case/flow-cases"],
    ["mutation/mutation", "attacks/attacks", "fuzz/guided", "histories/histories"],
  ],
  // The pages of the dashboard, each kind from another side.
  [
    ["dashboard-sizes"],
    ["dashboard-hostile", "dashboard-actions", "dashboard-roles"],
    ["dashboard-flows", "dashboard-operations", "dashboard-silence"],
  ],
  [
    ["dashboard-on-call"],
    ["dashboard-flow-pages", "dashboard-story"],
    ["dashboard-changes", "dashboard-group"],
  ],
  // The simulated server with something besides; simulation/simulation is in every run.
  [
    ["simulation/faults", "simulation/guarded-run"],
    ["simulation/schedules/schedules", "schedules/contended-names", "batches/batches"],
    ["simulation/end-before-question", "simulation/http-simulation", "simulation/durable-policies"],
  ],
  // A log that is damaged, or a change of it that is interrupted, at each place.
  [
    ["binlog/damage", "binlog/making-room"],
    ["binlog/holes", "binlog/interrupted-rewrite"],
  ],
  // Kills under load, of other clients each.
  [
    ["process/kill", "http-kill"],
    ["moves-kill", "batch-ends-kill"],
    ["batches-kill", "binlog/interrupted-start"],
  ],
  [["replica/failures"], ["replica/partitions", "replica/flows"]],
  // What a restart keeps.
  [
    ["policies-restart", "keys-restart"],
    ["due-at-start", "restart-keeps", "resident-log"],
  ],
  // One client's load, and what it costs others.
  [
    ["server/fairness"],
    ["server/pinned-memory", "server/tube-lists"],
    ["server/migration", "server/stream-writes"],
  ],
  // Clients and servers that break the protocol.
  [
    ["http-hostile", "server/connection-end"],
    ["server/hostile", "tools/cli-strangers"],
  ],
  // The command line over each way.
  [["cli-http"], ["cli-batches", "cli-schedules", "cli-failures"]],
  // What is built and installed.
  [["packaging/bundle"], ["client-package", "packaging/debian"], ["client-tracing", "packaging/release"]],
  // An end at any place of a protocol, and long plays of an engine against a model.
  [
    ["api/given-back-at-any-step"],
    ["acceptor/end-at-any-turn", "acceptor/end-behind-migration"],
    ["waiting/ready-order", "engine/engine-many"],
  ],
  [["reserve/shares-by-jobs"], ["reserve/shares-by-time"]],
];

/**
 * Divisible by how many take turns anywhere, times how many of the file's own tests do, so that
 * each is as likely as the others.
 */
export const TURNS = 360;

const rowOf = (file: string): (typeof ROWS)[number] | undefined =>
  ROWS.find((row) => isOneOf(row.flat(), file));

/** Returns whether a file has its turn in the run of that number. */
export function fileHasTurn(file: string, turn: number): boolean {
  const row = rowOf(file) ?? [];
  const index = row.findIndex((group) => isOneOf(group, file));
  return index < 0 || hasTurn(index, row.length, turn);
}

/**
 * Number of the run for the tests of a file that take turns: it counts only runs that play the
 * file, or some of its tests would never meet their turn.
 */
export const turnIn = (file: string, turn: number): number => Math.floor(turn / (rowOf(file)?.length ?? 1));

/**
 * The number kept in `place`; the first is drawn. Each run that passes counts on, so everything is
 * played within a few.
 */
export const nextTurn = (place: string): number => (lastTurn(place) ?? drawnSeed()) % TURNS;

/** Keeps the number of the next run: the same again after a failure, with the files that failed. */
export function noteTurn(place: string, turn: number): void {
  try {
    mkdirSync(dirname(place), { recursive: true });
    writeFileSync(place, `${turn % TURNS}`);
  } catch {
    // Where that is not permitted, each run draws its number.
  }
}

function lastTurn(place: string): number | undefined {
  try {
    const turn = Number.parseInt(readFileSync(place, "utf8"), 10);
    return Number.isSafeInteger(turn) && turn >= 0 ? turn : undefined;
  } catch {
    return undefined;
  }
}
