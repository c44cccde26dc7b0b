// Comparison of the replies of two servers, and what follows from them: held jobs, and events that
// are due later.

import { differenceOf } from "./compare-replies.ts";
import type { Command } from "./conversation-generator.ts";
import type { LockstepSide } from "./lockstep-side.ts";
import type { ClientState, LockstepState } from "./lockstep-state.ts";

const SMALL_TTR = 10;

export class LockstepReplies {
  readonly #lockstep: LockstepState;
  readonly #timeoutsExpected = new WeakSet<Command>();

  constructor(lockstep: LockstepState) {
    this.#lockstep = lockstep;
  }

  /** Both servers have answered all they can, and to the same clients. */
  async settle(): Promise<void> {
    await this.#settleReference();
    await this.#lockstep.eventually(
      () => `${this.#lockstep.tested.name} to answer the same clients (${this.#replyCounts()})`,
      async () => {
        const same = this.#lockstep.clients.every(
          (_, client) =>
            this.#countOf(this.#lockstep.reference, client) <= this.#countOf(this.#lockstep.tested, client),
        );
        if (!same) return false;
        const waiting = this.#waitingOnReference();
        return (
          waiting === 0 || Number((await this.#lockstep.tested.stats()).get("current-waiting")) === waiting
        );
      },
    );
    this.#compareNewReplies();
  }

  async #settleReference(): Promise<void> {
    await this.#lockstep.eventually("the reference to settle", async () => {
      const unanswered = this.#lockstep.clients.filter(
        (state, client) => this.#unansweredOnReference(state, client) > 0,
      );
      if (unanswered.length === 0) return true;
      const allMayWait = this.#lockstep.clients.every((state, client) => {
        const left = this.#unansweredOnReference(state, client);
        return left === 0 || state.unanswered[state.unanswered.length - left]?.mayWait === true;
      });
      if (!allMayWait) return false;
      return (
        Number((await this.#lockstep.reference.stats()).get("current-waiting")) === this.#waitingOnReference()
      );
    });
  }

  #unansweredOnReference(state: ClientState, client: number): number {
    return state.unanswered.length - (this.#countOf(this.#lockstep.reference, client) - state.seen);
  }

  #waitingOnReference(): number {
    return this.#lockstep.clients.filter((state, client) => this.#unansweredOnReference(state, client) > 0)
      .length;
  }

  #countOf(side: LockstepSide, client: number): number {
    return side.client(client).replies.length;
  }

  #replyCounts(): string {
    return this.#lockstep.clients
      .map(
        (_, client) =>
          `client ${client}: ${this.#countOf(this.#lockstep.reference, client)} and ${this.#countOf(this.#lockstep.tested, client)}`,
      )
      .join(", ");
  }

  #compareNewReplies(): void {
    for (const [client, state] of this.#lockstep.clients.entries()) {
      const left = this.#lockstep.reference.client(client).replies;
      const right = this.#lockstep.tested.client(client).replies;
      for (; state.seen < left.length || state.seen < right.length; state.seen++) {
        const command = state.unanswered.shift();
        const expected = left[state.seen];
        const got = right[state.seen];
        if (command === undefined || expected === undefined || got === undefined) {
          this.#lockstep.fail(client, `one reply more on one server`, expected, got, command);
        }
        const difference = differenceOf(command.name, expected, got);
        if (difference !== undefined) this.#lockstep.fail(client, difference, expected, got, command);
        this.#lockstep.replies++;
        const word = expected.slice(0, expected.search(/[ \r]/));
        this.#lockstep.repliesByWord.set(word, (this.#lockstep.repliesByWord.get(word) ?? 0) + 1);
        this.#learn(client, state, command, expected);
      }
      for (const side of [this.#lockstep.reference, this.#lockstep.tested]) {
        if (side.client(client).rest !== "")
          this.#lockstep.fail(
            client,
            `${side.name} sent a part of a reply: ${JSON.stringify(side.client(client).rest)}`,
          );
      }
    }
    for (const [client, state] of this.#lockstep.clients.entries()) this.#expectTimeout(client, state);
  }

  /** Notes what the generator and the calendar need to know. */
  #learn(client: number, state: ClientState, command: Command, reply: string): void {
    const [word, id] = reply.split(/[ \r]/, 2);
    const jobId = Number(id);
    if (word === "INSERTED") {
      this.#lockstep.highestId = Math.max(this.#lockstep.highestId, jobId);
      if (command.put !== undefined) this.#lockstep.ttrByJob.set(jobId, command.put.ttr);
    } else if (word === "RESERVED") {
      this.#hold(client, state, jobId);
    } else if (word === "TOUCHED" && command.jobId !== undefined) {
      this.#hold(client, state, command.jobId);
    } else if (
      (word === "DELETED" || word === "RELEASED" || word === "BURIED") &&
      command.jobId !== undefined
    ) {
      for (const other of this.#lockstep.clients) other.held.delete(command.jobId);
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
    const ttr = this.#lockstep.ttrByJob.get(jobId) ?? 100;
    if (ttr > SMALL_TTR) return;
    const stillHeld = (): boolean =>
      this.#lockstep.clients[client] === state && state.held.get(jobId) === token;
    const collides = [ttr, ttr - 1].some((seconds) => seconds > 0 && this.#collidesIn(seconds));
    if (collides) state.cleanup.push(jobId);
    if (ttr > 1) this.#expect("margin", client, ttr - 1, stillHeld);
    this.#expect("ttr", client, ttr, stillHeld, () => state.held.delete(jobId));
  }

  #collidesIn(seconds: number): boolean {
    return this.#lockstep.calendar.collidesWith(
      this.#lockstep.sentAtMs + seconds * 1000,
      performance.now() + seconds * 1000,
    );
  }

  #expect(
    kind: "ttr" | "margin" | "other",
    owner: number,
    seconds: number,
    stillMatters: () => boolean,
    passed: () => void = () => {},
  ): void {
    const fromMs = this.#lockstep.sentAtMs + seconds * 1000;
    this.#lockstep.calendar.add({
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
      () => this.#lockstep.clients[client] === state && state.unanswered[0] === head,
    );
  }
}
