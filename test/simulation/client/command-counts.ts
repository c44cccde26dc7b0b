// Counts of sent and answered commands in one process of a simulated server, to compare with its
// cmd-* counters.

import assert from "node:assert/strict";

/** The server refuses these lines without counting them. */
const UNCOUNTED = ["UNKNOWN_COMMAND\r\n", "BAD_FORMAT\r\n"];

export class CommandCounts {
  readonly #sent = new Map<string, number>();
  readonly #answered = new Map<string, number>();

  sent(text: string): void {
    count(this.#sent, text);
  }

  answered(text: string, reply: string): void {
    if (!UNCOUNTED.includes(reply)) count(this.#answered, text);
  }

  /**
   * Holds the rows of `stats` against what clients know: what was answered was counted, and no more
   * was counted than was sent. What a client that left had under way may have been executed or not.
   */
  check(rows: ReadonlyMap<string, string>): void {
    for (const [key, value] of rows) {
      if (!key.startsWith("cmd-")) continue;
      const word = key.slice("cmd-".length);
      const [answered, sent] = [this.#answered.get(word) ?? 0, this.#sent.get(word) ?? 0];
      const counted = Number(value);
      assert.ok(counted >= answered, `${key} is ${counted}, but ${answered} of them were answered`);
      assert.ok(counted <= sent, `${key} is ${counted}, but only ${sent} of them were sent`);
    }
  }
}

function count(counts: Map<string, number>, text: string): void {
  const [word] = text.split(" ") as [string];
  counts.set(word, (counts.get(word) ?? 0) + 1);
}
