// Possible replies to a `list-jobs *` in progress, which combines all shards at no single moment.

import assert from "node:assert/strict";

/** A job as it would be listed at some moment. */
export interface ListedRow {
  readonly id: number;
  readonly text: string;
}

export class ListOfAll {
  readonly #afterId: number;
  readonly #limit: number;
  /** By id, all rows that there were since it began. */
  readonly #rows = new Map<number, Set<string>>();
  /** Jobs that were there all the time, whatever their tubes. */
  #always: ReadonlySet<number> | undefined;

  constructor(afterId: number, limit: number) {
    this.#afterId = afterId;
    this.#limit = limit;
  }

  /** Notes the listed jobs that exist at this moment. */
  note(rows: readonly ListedRow[]): void {
    const now = new Set(rows.map(({ id }) => id));
    for (const { id, text } of rows) {
      const known = this.#rows.get(id);
      if (known === undefined) this.#rows.set(id, new Set([text]));
      else known.add(text);
    }
    this.#always = this.#always?.intersection(now) ?? now;
  }

  /** `text` is a list without what depends on the clock. */
  check(text: string): void {
    assert.ok(this.#always !== undefined, "a list is answered behind its beginning");
    const [head = "", ...lines] = text.split("\n");
    const next = Number(head.replace(/^next: /, ""));
    const rows = lines.filter((line) => line.startsWith("- ")).map((line) => line.slice(2));
    const ids = rows.map((row) => (JSON.parse(row) as { id: number }).id);
    assert.ok(rows.length <= this.#limit, `a list of ${rows.length} jobs`);
    for (const [index, id] of ids.entries()) {
      assert.ok(id > (ids[index - 1] ?? this.#afterId), `job ${id} is listed in its order, once`);
      assert.ok(this.#rows.get(id)?.has(rows[index]!) === true, `job ${id} was never so: ${rows[index]}`);
    }
    assert.ok(next === 0 || next > this.#afterId, `a list that continues after ${next}`);
    assert.ok(next === 0 || next >= (ids.at(-1) ?? 0), `a list that continues after ${next}, before its end`);
    for (const id of this.#always)
      if (next === 0 || id <= next) assert.ok(ids.includes(id), `job ${id} was there, and is not listed`);
  }
}
