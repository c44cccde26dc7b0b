// Perfect shared log in memory, for the contract tests and for tests that need no servers.

import { type LogEnds, LogError, type LogMessage, type SharedLog } from "../../src/replica/shared-log.ts";

export class MemoryLog implements SharedLog {
  readonly #messages = new Map<number, Uint8Array>();
  readonly #nodes = new Map<number, string>();
  #first = 1;
  #last = 0;

  async append(bytes: Uint8Array, expectedLast: number): Promise<number> {
    if (expectedLast !== this.#last) throw new LogError("refused", `the last is ${this.#last}`);
    this.#messages.set(++this.#last, bytes.slice());
    return this.#last;
  }

  async *read(from: number, to: number): AsyncGenerator<LogMessage> {
    for (let sequence = from; sequence <= to; sequence++) {
      if (sequence < this.#first) throw new LogError("purged", `message ${sequence} was purged`);
      const bytes = this.#messages.get(sequence);
      if (bytes === undefined) throw new LogError("hole", `message ${sequence} is not there`);
      yield { sequence, bytes };
    }
  }

  async ends(): Promise<LogEnds> {
    return { first: this.#first, last: this.#last, bytes: 0, limitBytes: 0 };
  }

  async purge(below: number): Promise<void> {
    for (; this.#first < below; this.#first++) this.#messages.delete(this.#first);
  }

  answer(node: number, answer: () => string): void {
    this.#nodes.set(node, answer());
  }

  async ask(node: number): Promise<string | "gone" | undefined> {
    return this.#nodes.get(node) ?? "gone";
  }
}
