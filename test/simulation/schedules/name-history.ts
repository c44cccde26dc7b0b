// What the schedule of one name may be, given what clients asked and were answered: one world for
// each order of the commands that explains all answers so far. A history without a world is a bug.

import assert from "node:assert/strict";

/** A schedule: the number of the set that defines it, and what outlives a set. */
export interface NamedSchedule {
  readonly set: number;
  readonly paused: boolean;
  readonly runs: number;
}

export type ActKind = "set" | "delete" | "pause" | "resume" | "run" | "inspect";

interface Act {
  readonly number: number;
  readonly kind: ActKind;
}

interface World {
  readonly schedule: NamedSchedule | undefined;
  /** Commands without an answer that have happened, with the answers to come. */
  readonly happened: ReadonlyMap<number, string>;
}

export const reportOf = ({ set, paused, runs }: NamedSchedule): string =>
  `set ${set}, ${paused ? "paused" : "active"}, ${runs} runs`;

/** Returns what a command makes of a schedule, and its answer. */
function after(
  schedule: NamedSchedule | undefined,
  { kind, number }: Act,
): [NamedSchedule | undefined, string] {
  if (kind === "set") return [{ paused: false, runs: 0, ...schedule, set: number }, "SET"];
  if (schedule === undefined) return [undefined, "NOT_FOUND"];
  switch (kind) {
    case "delete":
      return [undefined, "DELETED"];
    case "pause":
      return [{ ...schedule, paused: true }, "PAUSED"];
    case "resume":
      return [{ ...schedule, paused: false }, "RESUMED"];
    case "run":
      return [{ ...schedule, runs: schedule.runs + 1 }, "INSERTED"];
    default:
      return [schedule, reportOf(schedule)];
  }
}

const keyOf = ({ schedule, happened }: World): string =>
  JSON.stringify([schedule, [...happened].sort(([a], [b]) => a - b)]);

/** The orders of the commands that explain the answers so far. */
class Worlds {
  readonly #name: string;
  readonly #open = new Map<number, Act>();
  #worlds: readonly World[];
  /** For the message of a failure. */
  readonly #told: string[] = [];

  constructor(name: string, schedule: NamedSchedule | undefined) {
    this.#name = name;
    this.#worlds = [{ schedule, happened: new Map() }];
  }

  begin(act: Act): void {
    this.#told.push(`${act.number}: ${act.kind}?`);
    this.#open.set(act.number, act);
  }

  end(number: number, answer: string): void {
    this.#told.push(`${number}: ${answer}`);
    const worlds = this.#reachable().flatMap(({ schedule, happened }) => {
      if (happened.get(number) !== answer) return [];
      const others = new Map(happened);
      others.delete(number);
      return [{ schedule, happened: others }];
    });
    this.#open.delete(number);
    this.#take(worlds, `explains the answer to ${number}`);
  }

  rest(seen: NamedSchedule | undefined): void {
    const shown = shownOf(seen);
    this.#told.push(`there is ${shown}`);
    const worlds = this.#reachable().filter(({ schedule }) => shownOf(schedule) === shown);
    this.#open.clear();
    this.#take(
      worlds.map(({ schedule }) => ({ schedule, happened: new Map() })),
      "leads to it",
    );
  }

  #take(worlds: readonly World[], what: string): void {
    assert.ok(
      worlds.length > 0,
      `${this.#name}: no order of the commands ${what}\n  ${this.#told.slice(-25).join("\n  ")}`,
    );
    this.#worlds = [...new Map(worlds.map((world) => [keyOf(world), world])).values()];
  }

  /** Returns each world, and those to which open commands lead from it. */
  #reachable(): readonly World[] {
    const found = new Map(this.#worlds.map((world) => [keyOf(world), world]));
    // The loop takes what is added on the way, too.
    for (const world of found.values())
      for (const act of this.#open.values()) {
        if (world.happened.has(act.number)) continue;
        const [schedule, answer] = after(world.schedule, act);
        const next = { schedule, happened: new Map(world.happened).set(act.number, answer) };
        if (!found.has(keyOf(next))) found.set(keyOf(next), next);
      }
    return [...found.values()];
  }
}

export class NameHistory {
  readonly #name: string;
  #seen: Worlds;
  /** Without what inspect-schedule shows: it may be lost with the process, like its command. */
  readonly #kept: Worlds;

  constructor(name: string) {
    this.#name = name;
    this.#seen = new Worlds(name, undefined);
    this.#kept = new Worlds(name, undefined);
  }

  /** A client sends a command. */
  begin(act: Act): void {
    this.#seen.begin(act);
    if (act.kind !== "inspect") this.#kept.begin(act);
  }

  /** A client gets its answer. */
  end({ number, kind }: Act, answer: string): void {
    this.#seen.end(number, answer);
    if (kind !== "inspect") this.#kept.end(number, answer);
  }

  /**
   * The server has done, or will never do, what it was asked, and this is there. A command without
   * an answer may have happened.
   */
  rest(schedule: NamedSchedule | undefined): void {
    this.#seen.rest(schedule);
    this.#kept.rest(schedule);
  }

  /** The process has ended, and the log has brought this back. */
  restart(schedule: NamedSchedule | undefined): void {
    this.#kept.rest(schedule);
    this.#seen = new Worlds(this.#name, schedule);
  }
}

const shownOf = (schedule: NamedSchedule | undefined): string =>
  schedule === undefined ? "nothing" : reportOf(schedule);
