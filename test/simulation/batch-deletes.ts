// What is known of a delete-batch under way: which of its ids shards were asked for, and what they found.

import assert from "node:assert/strict";

export class BatchDeletes {
  readonly #ids: readonly number[];
  /** By shard and id, how often the shard was asked for it. */
  readonly #asked = new Map<string, number>();
  readonly #deleted = new Set<number>();
  /** Places of ids whose jobs were nowhere, or not to be deleted. */
  readonly #missing = new Set<number>();

  constructor(ids: readonly number[]) {
    this.#ids = ids;
  }

  /** Whether the shard may be asked for the id once more. */
  expects(shard: number, id: number): boolean {
    return this.#placeOf(shard, id) >= 0 || (!this.isDone && this.has(id));
  }

  /** Whether the id is one of them: a job that moves may be looked for on a shard more than once. */
  has(id: number): boolean {
    return this.#ids.includes(id);
  }

  /** A shard was asked; `settled` is false if it found nothing although the job is elsewhere. */
  note(shard: number, id: number, done: boolean, settled: boolean): void {
    // Not found where the job has moved away: whoever has it now is asked.
    if (!done && !settled) return;
    const known = this.#placeOf(shard, id);
    const place =
      known >= 0 ? known : this.#ids.findIndex((each, at) => each === id && !this.#deleted.has(at));
    if (place < 0) return;
    const key = `${shard}:${id}`;
    this.#asked.set(key, (this.#asked.get(key) ?? 0) + 1);
    if (done) this.#deleted.add(place);
    else this.#missing.add(place);
  }

  /** For each id it is known what became of it. */
  get isDone(): boolean {
    return this.#ids.every((_, place) => this.#deleted.has(place) || this.#missing.has(place));
  }

  /** What it is answered with. */
  get reply(): string {
    assert.ok(this.isDone, "a delete-batch is answered when all of its jobs were looked for");
    // Of an id that is named more than once the first was deleted, whichever was asked for when it was found.
    const deleted = new Set([...this.#deleted].map((place) => this.#ids[place]!));
    const missing = this.#ids.filter((id, place) => !deleted.has(id) || this.#ids.indexOf(id) !== place);
    return `${["DELETED_BATCH", deleted.size, missing.length, ...missing].join(" ")}\r\n`;
  }

  /** Among all ids the place of the next one with this number that the shard was not asked for, or -1. */
  #placeOf(shard: number, id: number): number {
    let left = this.#asked.get(`${shard}:${id}`) ?? 0;
    return this.#ids.findIndex((each) => each === id && left-- === 0);
  }
}
