// Holds one random conversation with two servers at once and compares every reply.
//
// Lockstep: a step is sent to both. The first server (the reference) determines which clients have
// been answered and which wait; the second must reach the same state. Timed events (delays, TTRs,
// pauses, timeouts) are kept apart from sent commands and from each other by the calendar, since
// two processes count milliseconds differently.

import { setTimeout as sleep } from "node:timers/promises";
import { SeededRandom } from "../seeded-random.ts";
import {
  type Command,
  ConversationGenerator,
  type ConversationStep,
  type ConversationView,
  plain,
} from "./conversation-generator.ts";
import { LockstepReplies } from "./lockstep-replies.ts";
import type { LockstepSide } from "./lockstep-side.ts";
import type { LockstepOptions } from "./lockstep-state.ts";
import { ClientState, LockstepState } from "./lockstep-state.ts";

export interface LockstepResult {
  readonly replies: number;
  readonly commandsByName: ReadonlyMap<string, number>;
  readonly repliesByWord: ReadonlyMap<string, number>;
}

const LOG_LENGTH = 30;

/** The end of a connection takes several questions, until both servers have noticed it. */
const ENDING_MS = 250;

/**
 * Steps per second at most, so that the seconds of delays and TTRs are filled with steps but not
 * with thousands.
 */
const PACE_MS = 8;

const GAUGES = ["urgent", "ready", "reserved", "delayed", "buried"].map((state) => `current-jobs-${state}`);

export class Lockstep extends LockstepState implements ConversationView {
  readonly comparison: LockstepReplies = new LockstepReplies(this);
  readonly #generator: ConversationGenerator;

  constructor(reference: LockstepSide, tested: LockstepSide, options: LockstepOptions) {
    super(reference, tested, options);
    this.#generator = new ConversationGenerator(new SeededRandom(options.seed), this);
  }

  async run(): Promise<LockstepResult> {
    await Promise.all([this.reference, this.tested].map((side) => side.open(this.clients.length)));
    const drainAt = this.options.seed % 4 === 0 ? Math.floor(this.options.steps * 0.9) : -1;
    for (this.stepNumber = 1; this.stepNumber <= this.options.steps; this.stepNumber++) {
      await sleep(PACE_MS);
      await this.#letEventsPass();
      if (this.stepNumber === drainAt) await this.#drain();
      else await this.#execute(this.#generator.next());
      if (this.calendar.isOverdue(performance.now())) this.wasDisturbed = true;
    }
    return {
      replies: this.replies,
      commandsByName: this.commandsByName,
      repliesByWord: this.repliesByWord,
    };
  }

  get clientCount(): number {
    return this.clients.length;
  }

  isWaiting(client: number): boolean {
    return this.state(client).unanswered.length > 0;
  }

  hasMoreBehind(client: number): boolean {
    return this.state(client).unanswered.length > 1;
  }

  mayStartToWait(client: number): boolean {
    const mine = this.state(client).watched;
    return this.clients.every(
      (other, index) =>
        index === client || other.unanswered.length === 0 || mine.isDisjointFrom(other.watched),
    );
  }

  heldJobs(client: number): readonly number[] {
    return [...this.state(client).held.keys()];
  }

  async #execute(step: ConversationStep): Promise<void> {
    this.log.push(`${this.stepNumber}: ${describeStep(step)}`);
    if (this.log.length > LOG_LENGTH) this.log.shift();
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
        this.sentAtMs = performance.now();
        for (const side of [this.reference, this.tested]) side.client(step.client).halfClose();
        await this.#hangUp(step.client);
        break;
      case "close":
        await this.#letEventsPass(ENDING_MS);
        this.sentAtMs = performance.now();
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
    const state = this.state(client);
    for (const command of commands) {
      state.unanswered.push(command);
      this.commandsByName.set(command.name, (this.commandsByName.get(command.name) ?? 0) + 1);
    }
    const text = commands.map((command) => command.text).join("") + more;
    this.sentAtMs = performance.now();
    let from = 0;
    for (const cut of [...cuts, text.length]) {
      const piece = text.slice(from, cut);
      if (piece === "") continue;
      for (const side of [this.reference, this.tested]) side.client(client).send(piece);
      from = cut;
      if (from < text.length) await sleep(1);
    }
    if (more === "") await this.comparison.settle();
  }

  /** Waits until nothing that the command starts would end together with something else. */
  async #keepApart(commands: readonly Command[]): Promise<void> {
    const seconds = commands.flatMap((command) => {
      const touched =
        command.name === "touch" && command.jobId !== undefined
          ? this.ttrByJob.get(command.jobId)
          : undefined;
      return [command.inSeconds ?? [], touched ?? []].flat();
    });
    for (let attempt = 0; attempt < 40; attempt++) {
      const now = performance.now();
      if (!seconds.some((count) => this.calendar.collidesWith(now + count * 1000, now + count * 1000 + 10)))
        return;
      await sleep(30);
      await this.#letEventsPass();
    }
  }

  /** After a half-close or quit: the rest of the replies, the end, and a new connection. */
  async #hangUp(client: number): Promise<void> {
    await this.eventually("both connections to end", () =>
      [this.reference, this.tested].every((side) => side.client(client).ended),
    );
    // The end may have given another client a job.
    await this.comparison.settle();
    const state = this.state(client);
    if (state.unanswered.length > 0)
      this.fail(client, `${state.unanswered.length} commands were not answered before the end`);
    await this.#reconnect(client);
  }

  async #reconnect(client: number): Promise<void> {
    await Promise.all([this.reference, this.tested].map((side) => side.reconnect(client)));
    this.clients[client] = new ClientState();
    await this.#sameConnections();
    await this.comparison.settle();
    await this.#sameGauges();
  }

  /**
   * A closed connection is noticed some time later; its jobs are then everywhere where they belong.
   */
  async #sameConnections(): Promise<void> {
    const expected = `${this.clients.length + 1}`;
    for (const side of [this.reference, this.tested]) {
      await this.eventually(
        `${side.name} to notice a closed connection`,
        async () => (await side.stats()).get("current-connections") === expected,
      );
    }
  }

  async #sameGauges(): Promise<void> {
    let difference = "";
    const equal = async (): Promise<boolean> => {
      const [left, right] = await Promise.all([this.reference.stats(), this.tested.stats()]);
      difference = GAUGES.filter((key) => left.get(key) !== right.get(key))
        .map((key) => `${key}: ${left.get(key)} and ${right.get(key)}`)
        .join(", ");
      return difference === "";
    };
    await this.eventually(() => `the same gauges after a connection's end (${difference})`, equal);
  }

  async #drain(): Promise<void> {
    this.log.push(`${this.stepNumber}: SIGUSR1 to both servers`);
    this.options.drain();
    for (const side of [this.reference, this.tested]) {
      await this.eventually(
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
    for (const [client, state] of this.clients.entries()) {
      for (let jobId = state.cleanup.pop(); jobId !== undefined; jobId = state.cleanup.pop()) {
        if (state.unanswered.length > 0) {
          await this.#execute({ kind: "half-close", client });
          return;
        }
        this.log.push(
          `     client ${client}: delete ${jobId} (its TTR would end together with something else)`,
        );
        await this.#send(client, [plain("delete", `delete ${jobId}`, { jobId })], []);
      }
    }
  }

  async #letEventsPass(stepMs = 0): Promise<void> {
    for (;;) {
      const imminent = this.calendar.takeImminent(performance.now(), stepMs);
      if (imminent === undefined) return;
      const { event, overAtMs } = imminent;
      await sleep(Math.max(0, overAtMs - performance.now()));
      event.passed();
      this.sentAtMs = event.fromMs;
      if (event.kind === "ttr") await this.#afterTtr(event.owner);
      await this.comparison.settle();
      await this.#cleanUp();
    }
  }

  /**
   * 1.12 may have missed the end of a TTR until the owner sends a byte (protocol/README.md 14 row
   * 8): so the owner sends a line.
   */
  async #afterTtr(owner: number): Promise<void> {
    if (this.isWaiting(owner)) return;
    await this.comparison.settle();
    if (!this.isWaiting(owner)) await this.#send(owner, [plain("list-tube-used", "list-tube-used")], []);
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
