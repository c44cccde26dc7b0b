// What a client of a history does next: a draw among the commands that make sense for it.

import type { SeededRandom } from "../../support/seeded-random.ts";
import type { Noted } from "./recording-client.ts";

/** A tube as its clients see it together. */
export interface TubeBook {
  readonly tube: string;
  /** Ids that were seen in it, dead ones too. */
  readonly ids: number[];
  /** Bodies so far. */
  bodies: number;
  /** Puts less deletes. */
  alive: number;
  readonly habit: TubeHabit;
}

/**
 * What the clients of a tube do. `kick` makes jobs ready one by one and serves those that wait in
 * between, and which of several delayed jobs come first is a question of time. So the model, in
 * which a kick is one step, fits where nobody waits or one job is kicked, and where all delayed
 * jobs are kicked or none is delayed.
 */
export interface TubeHabit {
  readonly delays: boolean;
  readonly waits: boolean;
  /** Bounds of `kick`; empty if there is none. */
  readonly kicks: readonly number[];
}

interface Drawn {
  readonly noted: Noted;
  readonly command: string;
}

const ALIVE_MAX = 12;
const PRIS = 4;
const LONG_TTR = 100;
const NO_JOB = 4_000_000_000;

export const HABITS: readonly TubeHabit[] = [
  { delays: false, waits: true, kicks: [1] },
  { delays: false, waits: false, kicks: [1, 2, 3] },
  { delays: true, waits: true, kicks: [] },
  { delays: true, waits: false, kicks: [1000] },
];

const WEIGHTS = {
  put: 26,
  reserve: 26,
  "reserve-job": 3,
  delete: 14,
  "delete-any": 3,
  release: 12,
  bury: 7,
  touch: 4,
  "touch-any": 1,
  kick: 4,
  "kick-job": 3,
  peek: 3,
  "peek-ready": 3,
  "peek-delayed": 2,
  "peek-buried": 2,
  "stats-job": 3,
  "stats-tube": 4,
} as const;

/** Held jobs with their ttr come from `held`. */
export function drawCommand(random: SeededRandom, book: TubeBook, held: ReadonlyMap<number, number>): Drawn {
  const kind = random.weighted(WEIGHTS);
  const mine = random.pick([...held.keys()]);
  const any = random.pick(book.ids.slice(-ALIVE_MAX)) ?? NO_JOB;
  const pri = random.below(PRIS);
  const delaySeconds = book.habit.delays && random.chance(0.15) ? 1 : 0;
  switch (kind) {
    case "put":
      return book.alive < ALIVE_MAX ? put(random, book, pri, delaySeconds) : drawReserve(0);
    case "reserve":
      return drawReserve(book.habit.waits && random.chance(0.3) ? 1 : 0);
    case "delete":
    case "release":
    case "bury":
    case "touch":
      if (mine === undefined) return drawReserve(0);
      return ofMine(kind, mine, held.get(mine)!, pri, delaySeconds);
    case "delete-any":
      return { noted: { kind: "delete", job: any }, command: `delete ${any}` };
    case "touch-any":
      return { noted: { kind: "touch", job: any, ttrSeconds: held.get(any) ?? 0 }, command: `touch ${any}` };
    case "kick": {
      const bound = random.pick(book.habit.kicks);
      if (bound === undefined) return drawReserve(0);
      return { noted: { kind, bound }, command: `kick ${bound}` };
    }
    case "reserve-job":
    case "kick-job":
    case "peek":
    case "stats-job":
      return { noted: { kind, job: any }, command: `${kind} ${any}` };
    case "stats-tube":
      return { noted: { kind }, command: `stats-tube ${book.tube}` };
    default:
      return { noted: { kind }, command: kind };
  }
}

export function drawReserve(timeoutSeconds: number): Drawn {
  return {
    noted: { kind: "reserve", timeoutSeconds },
    command: `reserve-with-timeout ${timeoutSeconds}`,
  };
}

function put(random: SeededRandom, book: TubeBook, pri: number, delaySeconds: number): Drawn {
  const ttr = random.weighted({ 1: 1, 2: 1, [LONG_TTR]: 8 });
  const body = `${book.tube}/${book.bodies++} ${ttr}`;
  book.alive++;
  return {
    noted: { kind: "put", pri, body, delaySeconds },
    command: `put ${pri} ${delaySeconds} ${ttr} ${body.length}\r\n${body}`,
  };
}

function ofMine(
  kind: "delete" | "release" | "bury" | "touch",
  job: number,
  ttrSeconds: number,
  pri: number,
  delaySeconds: number,
): Drawn {
  switch (kind) {
    case "release":
      return { noted: { kind, job, pri, delaySeconds }, command: `release ${job} ${pri} ${delaySeconds}` };
    case "bury":
      return { noted: { kind, job, pri }, command: `bury ${job} ${pri}` };
    case "touch":
      return { noted: { kind, job, ttrSeconds }, command: `touch ${job}` };
    default:
      return { noted: { kind, job }, command: `delete ${job}` };
  }
}
