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

export interface Act {
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

export class NameHistory {
  readonly #name: string;
  readonly #open = new Map<number, Act>();
  #worlds: readonly World[] = [{ schedule: undefined, happened: new Map() }];
  /** For the message of a failure. */
  readonly #told: string[] = [];

  constructor(name: string) {
    this.#name = name;
  }

  /** A client sends a command. */
  begin(act: Act): void {
    this.#told.push(`${act.number}: ${act.kind}?`);
    this.#open.set(act.number, act);
  }

  /** A client gets its answer. */
  end(number: number, answer: string): void {
    this.#told.push(`${number}: ${answer}`);
    const worlds = this.#reachable().flatMap(({ schedule, happened }) => {
      if (happened.get(number) !== answer) return [];
      const others = new Map(happened);
      others.delete(number);
      return [{ schedule, happened: others }];
    });
    this.#open.delete(number);
    this.#settleFor(worlds, `explains the answer ${answer} to ${number}`);
  }

  /**
   * The server has done, or will never do, what it was asked: `seen` is what is there. A command
   * without an answer may have happened.
   */
  rest(seen: NamedSchedule | undefined): void {
    const shown = seen === undefined ? "nothing" : reportOf(seen);
    this.#told.push(`there is ${shown}`);
    const isSeen = ({ schedule }: World): boolean =>
      schedule === undefined ? seen === undefined : seen !== undefined && reportOf(schedule) === shown;
    const worlds = this.#reachable().filter(isSeen);
    this.#open.clear();
    this.#settleFor(
      worlds.slice(0, 1).map(({ schedule }) => ({ schedule, happened: new Map() })),
      "leads to it",
    );
  }

  #settleFor(worlds: readonly World[], what: string): void {
    this.#worlds = distinct(worlds);
    assert.ok(
      this.#worlds.length > 0,
      `${this.#name}: no order of the commands ${what}\n  ${this.#told.slice(-25).join("\n  ")}`,
    );
  }

  /** Returns each world, and those to which open commands lead from it. */
  #reachable(): readonly World[] {
    const found = new Map(this.#worlds.map((world) => [keyOf(world), world]));
    // A map yields what is added on the way.
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

function distinct(worlds: readonly World[]): readonly World[] {
  return [...new Map(worlds.map((world) => [keyOf(world), world])).values()];
}
