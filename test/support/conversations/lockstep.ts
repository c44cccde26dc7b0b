// Holds one random conversation with two servers at once and compares every reply.
//
// Lockstep: a step is sent to both. The first server (the reference) determines which clients have
// been answered and which wait; the second must reach the same state. Timed events (delays, TTRs,
// pauses, timeouts) are kept apart from sent commands and from each other by the calendar, since
// two processes count milliseconds differently.

import { setTimeout as sleep } from "node:timers/promises";
import { SeededRandom } from "../seeded-random.ts";
import { differenceOf } from "./compare-replies.ts";
import {
  type Command,
  ConversationGenerator,
  type ConversationStep,
  type ConversationView,
  plain,
} from "./conversation-generator.ts";
import { EventCalendar } from "./event-calendar.ts";
import type { LockstepSide } from "./lockstep-side.ts";

export interface LockstepOptions {
  readonly seed: number;
  readonly steps: number;
  readonly clientCount: number;
  /** How long to wait for a reply before it counts as missing. */
  readonly settleMs: number;
  /** SIGUSR1 to both servers. */
  readonly drain: () => void;
}

/**
 * The servers differ, but something happened by itself while a step was under way: the machine was
 * too slow to tell.
 */
export class InconclusiveError extends Error {}

export interface LockstepResult {
  readonly replies: number;
  readonly commandsByName: ReadonlyMap<string, number>;
  readonly repliesByWord: ReadonlyMap<string, number>;
}

const LOG_LENGTH = 30;
/** What ends a connection takes several questions, until both servers have noticed. */
const ENDING_MS = 250;
/**
 * Steps per second at most, so that the seconds of delays and TTRs are filled with steps but not
 * with thousands.
 */
const PACE_MS = 8;
const SMALL_TTR = 10;
const GAUGES = ["urgent", "ready", "reserved", "delayed", "buried"].map((state) => `current-jobs-${state}`);

class ClientState {
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

export class Lockstep implements ConversationView {
  readonly #reference: LockstepSide;
  readonly #tested: LockstepSide;
  readonly #options: LockstepOptions;
  readonly #generator: ConversationGenerator;
  readonly #clients: ClientState[];
  readonly #calendar = new EventCalendar();
  readonly #ttrByJob = new Map<number, number>();
  readonly #log: string[] = [];
  readonly #commandsByName = new Map<string, number>();
  readonly #repliesByWord = new Map<string, number>();
  #stepNumber = 0;
  #wasDisturbed = false;
  #replies = 0;
  /** When what is being looked at happened at the earliest. */
  #sentAtMs = 0;
  highestId = 0;

  constructor(reference: LockstepSide, tested: LockstepSide, options: LockstepOptions) {
    this.#reference = reference;
    this.#tested = tested;
    this.#options = options;
    this.#clients = Array.from({ length: options.clientCount }, () => new ClientState());
    this.#generator = new ConversationGenerator(new SeededRandom(options.seed), this);
  }

  async run(): Promise<LockstepResult> {
    await Promise.all([this.#reference, this.#tested].map((side) => side.open(this.#clients.length)));
    const drainAt = this.#options.seed % 4 === 0 ? Math.floor(this.#options.steps * 0.9) : -1;
    for (this.#stepNumber = 1; this.#stepNumber <= this.#options.steps; this.#stepNumber++) {
      await sleep(PACE_MS);
      await this.#letEventsPass();
      if (this.#stepNumber === drainAt) await this.#drain();
      else await this.#execute(this.#generator.next());
      if (this.#calendar.isOverdue(performance.now())) this.#wasDisturbed = true;
    }
    return {
      replies: this.#replies,
      commandsByName: this.#commandsByName,
      repliesByWord: this.#repliesByWord,
    };
  }

  // What the generator sees.

  get clientCount(): number {
    return this.#clients.length;
  }

  isWaiting(client: number): boolean {
    return this.#state(client).unanswered.length > 0;
  }

  hasMoreBehind(client: number): boolean {
    return this.#state(client).unanswered.length > 1;
  }

  mayStartToWait(client: number): boolean {
    const mine = this.#state(client).watched;
    return this.#clients.every(
      (other, index) =>
        index === client || other.unanswered.length === 0 || mine.isDisjointFrom(other.watched),
    );
  }

  heldJobs(client: number): readonly number[] {
    return [...this.#state(client).held.keys()];
  }

  // Steps.

  async #execute(step: ConversationStep): Promise<void> {
    this.#log.push(`${this.#stepNumber}: ${describeStep(step)}`);
    if (this.#log.length > LOG_LENGTH) this.#log.shift();
    switch (step.kind) {
      case "send":
        await this.#keepApart(step.commands);
        await this.#send(step.client, step.commands, step.cuts);
        break;
      case "quit":
        await this.#letEventsPass(ENDING_MS);
        await this.#send(step.client, [], [], "quit\r\n");
        await this.#hangUp(step.client);
        break;
      case "half-close":
        await this.#letEventsPass(ENDING_MS);
        this.#sentAtMs = performance.now();
        for (const side of [this.#reference, this.#tested]) side.client(step.client).halfClose();
        await this.#hangUp(step.client);
        break;
      case "close":
        await this.#letEventsPass(ENDING_MS);
        this.#sentAtMs = performance.now();
        await this.#reconnect(step.client);
        break;
    }
    await this.#cleanUp();
  }

  async #send(
    client: number,
    commands: readonly Command[],
    cuts: readonly number[],
    more = "",
  ): Promise<void> {
    const state = this.#state(client);
    for (const command of commands) {
      state.unanswered.push(command);
      this.#commandsByName.set(command.name, (this.#commandsByName.get(command.name) ?? 0) + 1);
    }
    const text = commands.map((command) => command.text).join("") + more;
    this.#sentAtMs = performance.now();
    let from = 0;
    for (const cut of [...cuts, text.length]) {
      const piece = text.slice(from, cut);
      if (piece === "") continue;
      for (const side of [this.#reference, this.#tested]) side.client(client).send(piece);
      from = cut;
      if (from < text.length) await sleep(1);
    }
    if (more === "") await this.#settle();
  }

  /** Waits until nothing that the command starts would end together with something else. */
  async #keepApart(commands: readonly Command[]): Promise<void> {
    const seconds = commands.flatMap((command) => {
      const touched =
        command.name === "touch" && command.jobId !== undefined
          ? this.#ttrByJob.get(command.jobId)
          : undefined;
      return [command.inSeconds ?? [], touched ?? []].flat();
    });
    for (let attempt = 0; attempt < 40; attempt++) {
      const now = performance.now();
      if (!seconds.some((count) => this.#calendar.collidesWith(now + count * 1000, now + count * 1000 + 10)))
        return;
      await sleep(30);
      await this.#letEventsPass();
    }
  }

  /** After a half-close or quit: the rest of the replies, the end, and a new connection. */
  async #hangUp(client: number): Promise<void> {
    await this.#eventually("both connections to end", () =>
      [this.#reference, this.#tested].every((side) => side.client(client).ended),
    );
    // The end may have given another client a job.
    await this.#settle();
    const state = this.#state(client);
    if (state.unanswered.length > 0)
      this.#fail(client, `${state.unanswered.length} commands were not answered before the end`);
    await this.#reconnect(client);
  }

  async #reconnect(client: number): Promise<void> {
    await Promise.all([this.#reference, this.#tested].map((side) => side.reconnect(client)));
    this.#clients[client] = new ClientState();
    await this.#sameConnections();
    await this.#settle();
    await this.#sameGauges();
  }

  /**
   * A closed connection is noticed some time later; its jobs are then everywhere where they belong.
   */
  async #sameConnections(): Promise<void> {
    const expected = `${this.#clients.length + 1}`;
    for (const side of [this.#reference, this.#tested]) {
      await this.#eventually(
        `${side.name} to notice a closed connection`,
        async () => (await side.stats()).get("current-connections") === expected,
      );
    }
  }

  async #sameGauges(): Promise<void> {
    let difference = "";
    const equal = async (): Promise<boolean> => {
      const [left, right] = await Promise.all([this.#reference.stats(), this.#tested.stats()]);
      difference = GAUGES.filter((key) => left.get(key) !== right.get(key))
        .map((key) => `${key}: ${left.get(key)} and ${right.get(key)}`)
        .join(", ");
      return difference === "";
    };
    await this.#eventually(() => `the same gauges after a connection's end (${difference})`, equal);
  }

  async #drain(): Promise<void> {
    this.#log.push(`${this.#stepNumber}: SIGUSR1 to both servers`);
    this.#options.drain();
    for (const side of [this.#reference, this.#tested]) {
      await this.#eventually(
        `${side.name} to drain`,
        async () => (await side.stats()).get("draining") === "true",
      );
    }
  }

  /**
   * Jobs whose TTR would end together with something else are deleted: which of two came first must
   * not matter.
   */
  async #cleanUp(): Promise<void> {
    for (const [client, state] of this.#clients.entries()) {
      for (let jobId = state.cleanup.pop(); jobId !== undefined; jobId = state.cleanup.pop()) {
        if (state.unanswered.length > 0) {
          await this.#execute({ kind: "half-close", client });
          return;
        }
        this.#log.push(
          `     client ${client}: delete ${jobId} (its TTR would end together with something else)`,
        );
        await this.#send(client, [plain("delete", `delete ${jobId}`, { jobId })], []);
      }
    }
  }

  // Time.

  async #letEventsPass(stepMs = 0): Promise<void> {
    for (;;) {
      const imminent = this.#calendar.takeImminent(performance.now(), stepMs);
      if (imminent === undefined) return;
      const { event, overAtMs } = imminent;
      await sleep(Math.max(0, overAtMs - performance.now()));
      event.passed();
      this.#sentAtMs = event.fromMs;
      if (event.kind === "ttr") await this.#afterTtr(event.owner);
      await this.#settle();
      await this.#cleanUp();
    }
  }

  /**
   * 1.12 may have missed the end of a TTR until the owner sends a byte (protocol/README.md 14 row
   * 8): so the owner sends a line.
   */
  async #afterTtr(owner: number): Promise<void> {
    if (this.isWaiting(owner)) return;
    await this.#settle();
    if (!this.isWaiting(owner)) await this.#send(owner, [plain("list-tube-used", "list-tube-used")], []);
  }

  // Replies.

  /** Both servers have answered all they can, and to the same clients. */
  async #settle(): Promise<void> {
    await this.#settleReference();
    await this.#eventually(
      () => `${this.#tested.name} to answer the same clients (${this.#replyCounts()})`,
      async () => {
        const same = this.#clients.every(
          (_, client) => this.#countOf(this.#reference, client) <= this.#countOf(this.#tested, client),
        );
        if (!same) return false;
        const waiting = this.#waitingOnReference();
        return waiting === 0 || Number((await this.#tested.stats()).get("current-waiting")) === waiting;
      },
    );
    this.#compareNewReplies();
  }

  async #settleReference(): Promise<void> {
    await this.#eventually("the reference to settle", async () => {
      const unanswered = this.#clients.filter(
        (state, client) => this.#unansweredOnReference(state, client) > 0,
      );
      if (unanswered.length === 0) return true;
      const allMayWait = this.#clients.every((state, client) => {
        const left = this.#unansweredOnReference(state, client);
        return left === 0 || state.unanswered[state.unanswered.length - left]?.mayWait === true;
      });
      if (!allMayWait) return false;
      return Number((await this.#reference.stats()).get("current-waiting")) === this.#waitingOnReference();
    });
  }

  #unansweredOnReference(state: ClientState, client: number): number {
    return state.unanswered.length - (this.#countOf(this.#reference, client) - state.seen);
  }

  #waitingOnReference(): number {
    return this.#clients.filter((state, client) => this.#unansweredOnReference(state, client) > 0).length;
  }

  #countOf(side: LockstepSide, client: number): number {
    return side.client(client).replies.length;
  }

  #replyCounts(): string {
    return this.#clients
      .map(
        (_, client) =>
          `client ${client}: ${this.#countOf(this.#reference, client)} and ${this.#countOf(this.#tested, client)}`,
      )
      .join(", ");
  }

  async #eventually(
    what: string | (() => string),
    condition: () => boolean | Promise<boolean>,
  ): Promise<void> {
    const deadline = performance.now() + this.#options.settleMs;
    for (;;) {
      const before = [this.#reference.changes, this.#tested.changes] as const;
      if (await condition()) return;
      if (performance.now() > deadline)
        this.#fail(undefined, `waited in vain for ${typeof what === "string" ? what : what()}`);
      await Promise.race([this.#reference.changeAfter(before[0], 3), this.#tested.changeAfter(before[1], 3)]);
    }
  }

  #compareNewReplies(): void {
    for (const [client, state] of this.#clients.entries()) {
      const left = this.#reference.client(client).replies;
      const right = this.#tested.client(client).replies;
      for (; state.seen < left.length || state.seen < right.length; state.seen++) {
        const command = state.unanswered.shift();
        const expected = left[state.seen];
        const got = right[state.seen];
        if (command === undefined || expected === undefined || got === undefined) {
          this.#fail(client, `one reply more on one server`, expected, got, command);
        }
        const difference = differenceOf(command.name, expected, got);
        if (difference !== undefined) this.#fail(client, difference, expected, got, command);
        this.#replies++;
        const word = expected.slice(0, expected.search(/[ \r]/));
        this.#repliesByWord.set(word, (this.#repliesByWord.get(word) ?? 0) + 1);
        this.#learn(client, state, command, expected);
      }
      for (const side of [this.#reference, this.#tested]) {
        if (side.client(client).rest !== "")
          this.#fail(
            client,
            `${side.name} sent a part of a reply: ${JSON.stringify(side.client(client).rest)}`,
          );
      }
    }
    for (const [client, state] of this.#clients.entries()) this.#expectTimeout(client, state);
  }

  /** What the conversation's further course and the calendar need to know. */
  #learn(client: number, state: ClientState, command: Command, reply: string): void {
    const [word, id] = reply.split(/[ \r]/, 2);
    const jobId = Number(id);
    if (word === "INSERTED") {
      this.highestId = Math.max(this.highestId, jobId);
      if (command.put !== undefined) this.#ttrByJob.set(jobId, command.put.ttr);
    } else if (word === "RESERVED") {
      this.#hold(client, state, jobId);
    } else if (word === "TOUCHED" && command.jobId !== undefined) {
      this.#hold(client, state, command.jobId);
    } else if (
      (word === "DELETED" || word === "RELEASED" || word === "BURIED") &&
      command.jobId !== undefined
    ) {
      for (const other of this.#clients) other.held.delete(command.jobId);
    } else if (word === "WATCHING" && command.tube !== undefined) {
      if (command.name === "watch") state.watched.add(command.tube);
      else state.watched.delete(command.tube);
    }
    const starts = word === "INSERTED" || word === "RELEASED" || word === "PAUSED";
    if (starts && command.inSeconds !== undefined)
      this.#expect("other", client, command.inSeconds, () => true);
  }

  #hold(client: number, state: ClientState, jobId: number): void {
    const token = Symbol();
    state.held.set(jobId, token);
    const ttr = this.#ttrByJob.get(jobId) ?? 100;
    if (ttr > SMALL_TTR) return;
    const stillHeld = (): boolean => this.#clients[client] === state && state.held.get(jobId) === token;
    const collides = [ttr, ttr - 1].some((seconds) => seconds > 0 && this.#collidesIn(seconds));
    if (collides) state.cleanup.push(jobId);
    if (ttr > 1) this.#expect("margin", client, ttr - 1, stillHeld);
    this.#expect("ttr", client, ttr, stillHeld, () => state.held.delete(jobId));
  }

  #collidesIn(seconds: number): boolean {
    return this.#calendar.collidesWith(this.#sentAtMs + seconds * 1000, performance.now() + seconds * 1000);
  }

  #expect(
    kind: "ttr" | "margin" | "other",
    owner: number,
    seconds: number,
    stillMatters: () => boolean,
    passed: () => void = () => {},
  ): void {
    const fromMs = this.#sentAtMs + seconds * 1000;
    this.#calendar.add({
      kind,
      owner,
      fromMs,
      toMs: performance.now() + seconds * 1000,
      stillMatters,
      passed,
    });
  }

  /** A client that has just begun to wait for some seconds. */
  #expectTimeout(client: number, state: ClientState): void {
    const head = state.unanswered[0];
    if (head?.inSeconds === undefined || !head.mayWait || this.#timeoutsExpected.has(head)) return;
    this.#timeoutsExpected.add(head);
    this.#expect(
      "other",
      client,
      head.inSeconds,
      () => this.#clients[client] === state && state.unanswered[0] === head,
    );
  }

  readonly #timeoutsExpected = new WeakSet<Command>();

  #state(client: number): ClientState {
    const state = this.#clients[client];
    if (state === undefined) throw new Error(`No client ${client}`);
    return state;
  }

  #fail(client: number | undefined, what: string, expected?: string, got?: string, command?: Command): never {
    const { seed, steps } = this.#options;
    const lines = [
      `seed ${seed}, step ${this.#stepNumber}${client === undefined ? "" : `, client ${client}`}: ${what}`,
      command === undefined ? "" : `command   ${JSON.stringify(command.text.slice(0, 300))}`,
      expected === undefined ? "" : `${this.#reference.name}: ${JSON.stringify(expected.slice(0, 1500))}`,
      got === undefined ? "" : `${this.#tested.name}: ${JSON.stringify(got.slice(0, 1500))}`,
      `last steps:\n  ${this.#log.join("\n  ")}`,
      `again: SEED=${seed} STEPS=${steps} bin/node --test test/oracle/differential.test.ts`,
    ];
    const message = lines.filter((line) => line !== "").join("\n");
    if (this.#wasDisturbed || this.#calendar.isOverdue(performance.now()))
      throw new InconclusiveError(message);
    throw new Error(message);
  }
}

function describeStep(step: ConversationStep): string {
  if (step.kind === "drain") return "SIGUSR1";
  if (step.kind !== "send") return `client ${step.client}: ${step.kind}`;
  const texts = step.commands.map((command) => {
    const text = JSON.stringify(command.text.slice(0, 120));
    return command.text.length > 120 ? `${text}… (${command.text.length} bytes)` : text;
  });
  const cuts = step.cuts.length > 0 ? ` cut at ${step.cuts.join(",")}` : "";
  return `client ${step.client}: ${texts.join(" ")}${cuts}`;
}
