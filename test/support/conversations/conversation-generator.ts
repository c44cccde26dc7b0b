// Draws the next step of a random conversation of several clients, for the differential test.
//
// Every number comes from the seed, so a conversation is the same again for the same seed as long
// as both servers give the same replies. What is not drawn, and why (protocol/README.md 13 and 14:
// behaviour that is different on purpose; the rows are those of 14):
// - lines of 225 + 224 k bytes and stray CRs (rows 1 and 2);
// - kick with a sign or beyond u32 (row 3);
// - a look at a job whose body is under way (row 4): a split put is completed within its step;
// - two waiting clients with a watched tube in common (row 5: 1.12 serves them in another order);
// - reserve-with-timeout with odd numbers (13.1: 1.12 reads them with strtol).

import { commandName, FIELDS, Op, type Command as Row } from "../../../src/protocol/commands.ts";
import type { SeededRandom } from "../seeded-random.ts";
import { BEANSTALKD_COMMANDS, eachCommand, lineOf } from "./command-lines.ts";

const TUBES = ["default", "a", "b", "c", "dd", "tube/5", "0.5"] as const;
export const MAX_JOB_BYTES = 1000;

/** One command as bytes, and what the harness must know of it. */
export interface Command {
  readonly text: string;
  /** First word, for statistics and for the comparison of replies. */
  readonly name: string;
  /** The reply may not come until another client acts. */
  readonly mayWait: boolean;
  /** It makes something happen this many seconds from now. */
  readonly inSeconds: number | undefined;
  /** TTR of the job it makes, or id and ttr-relevant target. */
  readonly put: { readonly ttr: number } | undefined;
  readonly jobId: number | undefined;
  /** The tube of a watch or ignore. */
  readonly tube: string | undefined;
}

export type ConversationStep =
  | {
      readonly kind: "send";
      readonly client: number;
      readonly commands: readonly Command[];
      readonly cuts: readonly number[];
    }
  | { readonly kind: "half-close" | "close" | "quit"; readonly client: number }
  | { readonly kind: "drain" };

/** Facts about the conversation so far that the generator may use. */
export interface ConversationView {
  readonly clientCount: number;
  isWaiting(client: number): boolean;
  /** It waits, and has sent more commands behind the one that waits. */
  hasMoreBehind(client: number): boolean;
  /** No waiting client watches a tube that this one watches. */
  mayStartToWait(client: number): boolean;
  heldJobs(client: number): readonly number[];
  readonly highestId: number;
}

const STEP_WEIGHTS = { command: 70, burst: 14, split: 8, "half-close": 1, close: 2, quit: 1 } as const;

/** Weight of each command of beanstalkd. */
const USUAL_WEIGHT = 2;
const ODD_WEIGHTS: Readonly<Record<string, number>> = {
  put: 22,
  reserve: 5,
  "reserve-with-timeout": 12,
  "reserve-job": 4,
  delete: 9,
  release: 6,
  bury: 4,
  kick: 3,
  use: 5,
  watch: 4,
  ignore: 4,
  "stats-job": 5,
  "stats-tube": 5,
  stats: 4,
  "list-tube-used": 1,
  // A step of its own.
  quit: 0,
};
/** Puts that are refused, and lines that are no commands. */
const REFUSED_WEIGHTS = { "put-too-big": 1, "put-bad-end": 1, invalid: 4 } as const;

const ROWS: ReadonlyMap<string, Row> = new Map(BEANSTALKD_COMMANDS.map((row) => [commandName(row), row]));
const COMMAND_WEIGHTS: Readonly<Record<string, number>> = {
  ...eachCommand(BEANSTALKD_COMMANDS, USUAL_WEIGHT, ODD_WEIGHTS),
  ...REFUSED_WEIGHTS,
};

/**
 * Not in bursts: they would start a second timer at the same moment, or change what a wait would
 * mean.
 */
const SINGLE_ONLY: ReadonlySet<string> = new Set(["reserve", "pause-tube", "touch"]);

const INVALID_LINES = [
  "",
  "nonsense",
  " stats",
  "put",
  "put 0 0 1",
  "put 0 0 x 5",
  "put -1 0 1 5",
  "put 0 0 1 5 ",
  "put 0 0 1 5 junk",
  "put 4294967296 0 1 5",
  "peek",
  "peek ",
  "peek x",
  "peek 18446744073709551616",
  "peek 1 2",
  "delete -1",
  "delete 1 ",
  "release 1 0",
  "release x 0 0",
  "bury 1",
  "touch",
  "kick ",
  "kick x",
  "kick-job 1x",
  "kick-jobs 1",
  "use -a",
  "use a b",
  "use  a",
  "watch a!",
  "ignore ",
  "ignore -",
  "pause-tube a",
  "pause-tube a x",
  "pause-tube -a 0",
  "stats-tube -",
  "stats-tubex",
  "stats x",
  "list-tubes ",
  "list-tube",
  "reserve 1",
  "reserve-with-timeout",
  "reserve-job x",
  "\tlist-tubes",
  "sta\0ts",
  "\xff\xfe",
  "list-tube-used\nlist-tube-used",
] as const;

export class ConversationGenerator {
  readonly #random: SeededRandom;
  readonly #view: ConversationView;

  constructor(random: SeededRandom, view: ConversationView) {
    this.#random = random;
    this.#view = view;
  }

  next(): ConversationStep {
    const client = this.#random.between(0, this.#view.clientCount - 1);
    if (this.#view.isWaiting(client)) return this.#nextForWaiting(client);
    const kind = this.#random.weighted(STEP_WEIGHTS);
    switch (kind) {
      case "command":
        return { kind: "send", client, commands: [this.#command(client, false)], cuts: [] };
      case "burst":
        return {
          kind: "send",
          client,
          commands: this.#burst(client),
          cuts: this.#random.chance(0.3) ? this.#cuts() : [],
        };
      case "split":
        return { kind: "send", client, commands: [this.#command(client, false)], cuts: this.#cuts() };
      default:
        return { kind, client };
    }
  }

  /** A waiting client can only hang up; mostly another one acts instead. */
  #nextForWaiting(client: number): ConversationStep {
    // Commands behind a reserve whose client closes may or may not be executed (protocol/README.md
    // 12).
    const leave: "half-close" | "close" = this.#view.hasMoreBehind(client)
      ? "half-close"
      : this.#random.pick(["half-close", "close"]);
    if (this.#random.chance(0.06)) return { kind: leave, client };
    for (let other = 0; other < this.#view.clientCount; other++) {
      if (!this.#view.isWaiting(other))
        return { kind: "send", client: other, commands: [this.#command(other, false)], cuts: [] };
    }
    return { kind: leave, client };
  }

  #burst(client: number): Command[] {
    const commands = Array.from({ length: this.#random.between(2, 12) }, () => this.#command(client, true));
    const mayWait =
      this.#view.mayStartToWait(client) && commands.every((command) => command.tube === undefined);
    if (mayWait && this.#random.chance(0.2)) {
      commands.push(plain("reserve", "reserve", { mayWait: true }));
      for (let count = this.#random.between(0, 3); count > 0; count--) commands.push(this.#harmless());
    }
    return commands;
  }

  #harmless(): Command {
    const name = this.#random.pick(["list-tube-used", "peek-ready", "list-tubes-watched", "nonsense"]);
    return plain(name, name);
  }

  /** Offsets at which a write is cut; beyond the end they do nothing. */
  #cuts(): number[] {
    const cuts = Array.from({ length: this.#random.between(1, 4) }, () => this.#random.between(1, 40));
    return cuts.sort((left, right) => left - right);
  }

  #command(client: number, inBurst: boolean): Command {
    let kind = this.#random.weighted(COMMAND_WEIGHTS);
    while (inBurst && SINGLE_ONLY.has(kind)) kind = this.#random.weighted(COMMAND_WEIGHTS);
    switch (kind) {
      case "put":
        return this.#put(inBurst);
      case "put-too-big": {
        const bytes = this.#random.between(MAX_JOB_BYTES + 1, MAX_JOB_BYTES + 400);
        return command("put", `put 0 0 100 ${bytes}\r\n${"x".repeat(bytes)}\r\n`);
      }
      case "put-bad-end":
        return command("put", `put 0 0 100 3\r\nabc${this.#random.pick(["__", "\n\r", "\r\r"])}`);
      case "reserve":
        return this.#view.mayStartToWait(client)
          ? plain(kind, kind, { mayWait: true })
          : plain("reserve-with-timeout", "reserve-with-timeout 0");
      case "reserve-with-timeout": {
        const waits = !inBurst && this.#view.mayStartToWait(client) && this.#random.chance(0.25);
        const seconds = waits ? this.#random.between(1, 2) : 0;
        const tail = this.#random.pick(["", "", "", " junk", "x"]);
        return plain(kind, `${kind} ${seconds}${tail}`, waits ? { mayWait: true, inSeconds: seconds } : {});
      }
      case "invalid":
        return this.#invalid();
      default:
        return this.#plain(ROWS.get(kind)!, client, inBurst);
    }
  }

  /** A command with nothing of its own but its arguments. */
  #plain(row: Row, client: number, inBurst: boolean): Command {
    const name = commandName(row);
    const fields = FIELDS[row.args];
    const jobId = fields.includes("id") ? this.#someJob(client) : undefined;
    const tube = this.#random.pick(TUBES);
    const delay = row.op === Op.PauseTube ? this.#random.between(0, 2) : inBurst ? 0 : this.#delay();
    const line = lineOf(row, {
      id: `${jobId}`,
      pri: `${this.#priority()}`,
      delay: `${delay}`,
      bound: `${this.#random.between(0, 4)}${this.#random.pick(["", "", " junk"])}`,
      tube,
    });
    return plain(name, line, {
      jobId,
      inSeconds: fields.includes("delay") ? soon(delay) : undefined,
      tube: row.op === Op.Watch || row.op === Op.Ignore ? tube : undefined,
    });
  }

  #put(inBurst: boolean): Command {
    const delay = inBurst ? 0 : this.#delay();
    const ttr = this.#random.chance(0.12) ? this.#random.between(0, 3) : this.#random.pick([100, 120]);
    const body = this.#body();
    const numbers = [this.#priority(), delay, ttr, body.length].join(this.#random.chance(0.05) ? "  " : " ");
    return {
      ...command("put", `put ${numbers}\r\n${body}\r\n`),
      inSeconds: soon(delay),
      put: { ttr: Math.max(1, ttr) },
    };
  }

  #body(): string {
    if (this.#random.chance(0.05)) return "y".repeat(MAX_JOB_BYTES);
    const alphabet = ["a", "b", "\r\n", "\0", "\n", "\xff", "put 0 0 0 0", "delete 1"] as const;
    let body = "";
    for (let count = this.#random.between(0, 6); count > 0; count--) body += this.#random.pick(alphabet);
    return body;
  }

  #priority(): number {
    return this.#random.pick([0, 0, 1, 1, 2, 5, 1023, 1024, 4_294_967_295]);
  }

  #delay(): number {
    return this.#random.chance(0.8) ? 0 : this.#random.pick([1, 1, 2, 3, 100, 4_294_967_295]);
  }

  /** Mostly a job that the client holds or a recent one; sometimes one that never was. */
  #someJob(client: number): number {
    const held = this.#random.pick(this.#view.heldJobs(client));
    if (held !== undefined && this.#random.chance(0.6)) return held;
    if (this.#random.chance(0.05)) return 0;
    return this.#random.between(Math.max(1, this.#view.highestId - 40), this.#view.highestId + 2);
  }

  #invalid(): Command {
    if (this.#random.chance(0.15)) {
      const length = this.#random.between(224, 900);
      // 225 + 224 k bytes with CR LF is row 1 of what is not copied.
      return plain("invalid", "z".repeat((length + 2) % 224 === 1 ? length + 1 : length));
    }
    return plain("invalid", this.#random.pick(INVALID_LINES));
  }
}

export function plain(name: string, line: string, details: Partial<Command> = {}): Command {
  return { ...command(name, `${line}\r\n`), ...details };
}

function command(name: string, text: string): Command {
  return {
    text,
    name,
    mayWait: false,
    inSeconds: undefined,
    put: undefined,
    jobId: undefined,
    tube: undefined,
  };
}

/** Seconds until something happens during the test, if it does at all. */
function soon(seconds: number): number | undefined {
  return seconds > 0 && seconds <= 10 ? seconds : undefined;
}
