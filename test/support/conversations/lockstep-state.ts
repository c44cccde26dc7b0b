// Two servers in lockstep: their clients, the calendar of events, and the report of a difference.

import type { Command } from "./conversation-generator.ts";
import { EventCalendar } from "./event-calendar.ts";
import type { LockstepSide } from "./lockstep-side.ts";

export interface LockstepOptions {
  readonly seed: number;
  readonly steps: number;
  readonly clientCount: number;
  /** Time after which a reply counts as missing, ms. */
  readonly settleMs: number;
  /** SIGUSR1 to both servers. */
  readonly drain: () => void;
}

/**
 * The servers differ, but something happened by itself while a step was under way: the machine was
 * too slow to tell.
 */
export class InconclusiveError extends Error {}

export class ClientState {
  /** Commands sent and not answered. */
  readonly unanswered: Command[] = [];
  watched = new Set(["default"]);
  /** Job ids to a token that is new with every reservation or touch. */
  held = new Map<number, symbol>();
  used = "default";
  ended = false;
  /** Replies looked at on the present connection. */
  seen = 0;
  /** A job to be deleted next, because its TTR would end together with something else. */
  readonly cleanup: number[] = [];
}

export class LockstepState {
  readonly reference: LockstepSide;
  readonly tested: LockstepSide;
  readonly options: LockstepOptions;
  readonly clients: ClientState[];
  readonly calendar = new EventCalendar();
  readonly ttrByJob = new Map<number, number>();
  readonly log: string[] = [];
  readonly commandsByName = new Map<string, number>();
  readonly repliesByWord = new Map<string, number>();
  stepNumber = 0;
  wasDisturbed = false;
  replies = 0;
  /** When what is being looked at happened at the earliest. */
  sentAtMs = 0;
  highestId = 0;

  constructor(reference: LockstepSide, tested: LockstepSide, options: LockstepOptions) {
    this.reference = reference;
    this.tested = tested;
    this.options = options;
    this.clients = Array.from({ length: options.clientCount }, () => new ClientState());
  }

  async eventually(
    what: string | (() => string),
    condition: () => boolean | Promise<boolean>,
  ): Promise<void> {
    const deadline = performance.now() + this.options.settleMs;
    for (;;) {
      const before = [this.reference.changes, this.tested.changes] as const;
      if (await condition()) return;
      if (performance.now() > deadline)
        this.fail(undefined, `gave up waiting for ${typeof what === "string" ? what : what()}`);
      await Promise.race([this.reference.changeAfter(before[0], 3), this.tested.changeAfter(before[1], 3)]);
    }
  }

  state(client: number): ClientState {
    const state = this.clients[client];
    if (state === undefined) throw new Error(`No client ${client}`);
    return state;
  }

  fail(client: number | undefined, what: string, expected?: string, got?: string, command?: Command): never {
    const { seed, steps } = this.options;
    const lines = [
      `seed ${seed}, step ${this.stepNumber}${client === undefined ? "" : `, client ${client}`}: ${what}`,
      command === undefined ? "" : `command   ${JSON.stringify(command.text.slice(0, 300))}`,
      expected === undefined ? "" : `${this.reference.name}: ${JSON.stringify(expected.slice(0, 1500))}`,
      got === undefined ? "" : `${this.tested.name}: ${JSON.stringify(got.slice(0, 1500))}`,
      `last steps:\n  ${this.log.join("\n  ")}`,
      `again: SEED=${seed} STEPS=${steps} bin/node --test test/oracle/differential.test.ts`,
    ];
    const message = lines.filter((line) => line !== "").join("\n");
    if (this.wasDisturbed || this.calendar.isOverdue(performance.now())) throw new InconclusiveError(message);
    throw new Error(message);
  }
}
