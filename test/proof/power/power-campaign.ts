// Losses of power under load, one after the other on the same disk, each followed by a start that
// must find everything that was promised.

import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../../support/eventually.ts";
import { SchedulingDelay } from "../../support/machine/scheduling-delay.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { KillLedger } from "../../support/server/kill-ledger.ts";
import { type ServerKind, type ServerProcess, startServer } from "../../support/server/server-process.ts";
import { WireClient } from "../../support/server/wire-client.ts";
import { LazyDisk, type Loss } from "./lazy-disk.ts";

interface PowerMode {
  readonly name: string;
  readonly kind: ServerKind;
  readonly flags: readonly string[];
  /** Ms before the loss whose changes may be lost: 0 for none, Infinity for all. */
  readonly mayLoseMs: number;
  /**
   * How often each loss is drawn. With -f 0 nearly every write is followed by a sync, so there is
   * hardly ever a sequence to tear.
   */
  readonly losses: Readonly<Record<Loss, number>>;
}

const SYNCED = { between: 3, "torn write": 4, "torn sequence": 1 };
const UNSYNCED = { between: 1, "torn write": 1, "torn sequence": 1 };
/** Its recovery refuses a body of just the limit, and with it all that follows in the file. */
const LARGER_JOBS = ["-z", "70000"];
const SMALL_SEGMENTS = ["-s", "2000000"];

export const POWER_MODES: readonly PowerMode[] = [
  { name: "-f 0", kind: "ours", flags: ["-f", "0", ...SMALL_SEGMENTS], mayLoseMs: 0, losses: SYNCED },
  { name: "-f 50", kind: "ours", flags: ["-f", "50", ...SMALL_SEGMENTS], mayLoseMs: 50, losses: UNSYNCED },
  {
    name: "-F",
    kind: "ours",
    flags: ["-F", ...SMALL_SEGMENTS],
    mayLoseMs: Number.POSITIVE_INFINITY,
    losses: UNSYNCED,
  },
  {
    name: "beanstalkd -f 0",
    kind: "beanstalkd-1.12",
    flags: ["-f", "0", ...LARGER_JOBS, ...SMALL_SEGMENTS],
    mayLoseMs: 0,
    losses: SYNCED,
  },
];

export interface PowerReport {
  rounds: number;
  readonly losses: Record<Loss, number>;
  acknowledgedPuts: number;
  /** Changes that were lost and might be. */
  undone: number;
  /** The oldest of them: ms before its loss of power. */
  oldestMs: number;
  /** Longest time that the machine left a thread waiting for a core, in ms. */
  lateMs: number;
  /** Losses after which a promise was found broken. */
  brokenRounds: number;
  readonly wrong: string[];
}

const CLIENTS = 8;
const LOAD_MS = 250;

export async function losePowerAgain(mode: PowerMode, rounds: number, seed: number): Promise<PowerReport> {
  const random = new SeededRandom(seed);
  const disk = new LazyDisk();
  const ledger = new KillLedger();
  const report: PowerReport = {
    rounds: 0,
    losses: { between: 0, "torn write": 0, "torn sequence": 0 },
    acknowledgedPuts: 0,
    undone: 0,
    oldestMs: 0,
    lateMs: 0,
    brokenRounds: 0,
    wrong: [],
  };
  let untilMs = Number.POSITIVE_INFINITY;
  let lostAtMs = 0;
  try {
    for (; ; report.rounds++) {
      await disk.powerOn();
      const server = await startOn(disk, mode, random);
      try {
        const checker = await WireClient.connect(server.address);
        ledger.oldestUndoneMs = Number.POSITIVE_INFINITY;
        const wrong = await ledger.check(checker, { untilMs });
        if (wrong.length > 0) report.brokenRounds++;
        report.wrong.push(...wrong.map((what) => `after loss ${report.rounds}: ${what}`));
        report.oldestMs = Math.max(report.oldestMs, lostAtMs - ledger.oldestUndoneMs);
        if (report.rounds === rounds) break;
        const loss = random.weighted(mode.losses);
        report.losses[loss]++;
        const late = new SchedulingDelay();
        let lateMs = 0;
        try {
          lostAtMs = await loseUnderLoad(server, disk, ledger, loss, random);
        } finally {
          lateMs = (await late.stop())(100);
        }
        report.lateMs = Math.max(report.lateMs, lateMs);
        untilMs = promisedUntil(mode, lostAtMs, lateMs);
        // beanstalkd goes on without a disk: its answers from then on say nothing.
        if (mode.kind !== "ours") ledger.surprises.length = 0;
      } finally {
        await server.kill();
      }
    }
  } finally {
    await disk.remove();
  }
  report.acknowledgedPuts = ledger.acknowledgedPuts;
  report.undone = ledger.undone;
  return report;
}

/** Ours answers nothing that is not synced, also when the disk is gone; beanstalkd does. */
function promisedUntil({ kind, mayLoseMs }: PowerMode, lostAtMs: number, lateMs: number): number {
  if (mayLoseMs === 0) return kind === "ours" ? Number.POSITIVE_INFINITY : lostAtMs;
  return lostAtMs - mayLoseMs - lateMs;
}

async function startOn(
  disk: LazyDisk,
  { kind, flags }: PowerMode,
  random: SeededRandom,
): Promise<ServerProcess> {
  // Another number of shards each time: the log doesn't depend on it.
  const sizes = ["--shards", `${random.between(1, 3)}`, "--acceptors", "1"];
  return await startServer({ kind, flags: ["-b", disk.path, ...flags, ...(kind === "ours" ? sizes : [])] });
}

/** Returns when the power went. */
async function loseUnderLoad(
  server: ServerProcess,
  disk: LazyDisk,
  ledger: KillLedger,
  loss: Loss,
  random: SeededRandom,
): Promise<number> {
  const clients = await Promise.all(
    Array.from({ length: CLIENTS }, () => WireClient.connect(server.address)),
  );
  const work = clients.map((client) => ledger.work(client, random.between(0, 2 ** 31 - 1)));
  const before = ledger.acknowledgedPuts;
  await sleep(random.between(LOAD_MS, 2 * LOAD_MS));
  await eventually("the clients have put jobs", () => ledger.acknowledgedPuts > before + CLIENTS);
  const lostAtMs = await disk.losePower(loss, random);
  await server.kill();
  await Promise.all(work);
  return lostAtMs;
}
