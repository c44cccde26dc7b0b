// State of a delete-batch in progress: how often shards were asked for its ids, and what they
// found.

import assert from "node:assert/strict";

export class BatchDeletes {
  readonly #ids: readonly number[];
  /** By id, how often the batch names it. */
  readonly #named = new Map<number, number>();
  /**
   * By shard and id, how often the shard was asked for it and knew; by id the same of all shards.
   */
  readonly #asked = new Map<string, number>();
  readonly #known = new Map<number, number>();
  readonly #deleted = new Set<number>();
  readonly #shards = new Set<number>();

  constructor(ids: readonly number[]) {
    this.#ids = ids;
    for (const id of ids) this.#named.set(id, this.#timesNamed(id) + 1);
  }

  #timesNamed(id: number): number {
    return this.#named.get(id) ?? 0;
  }

  /** Returns whether the shard may be asked for the id once more. */
  expects(shard: number, id: number): boolean {
    return this.#timesAsked(shard, id) < this.#timesNamed(id) || (!this.isDone && this.has(id));
  }

  #timesAsked(shard: number, id: number): number {
    return this.#asked.get(`${shard}:${id}`) ?? 0;
  }

  /**
   * Returns whether the id is one of them: a job that moves may be looked for on a shard more than
   * once.
   */
  has(id: number): boolean {
    return this.#named.has(id);
  }

  /** A shard was asked; `settled` is false if it found nothing although the job is elsewhere. */
  note(shard: number, id: number, done: boolean, settled: boolean): void {
    this.#shards.add(shard);
    // Not found because the job moved away: its present shard is asked.
    if (!done && !settled) return;
    this.#asked.set(`${shard}:${id}`, this.#timesAsked(shard, id) + 1);
    this.#known.set(id, (this.#known.get(id) ?? 0) + 1);
    if (done) this.#deleted.add(id);
  }

  /**
   * Each id was looked for as often as it is named, by whoever knew. Which of several is meant does
   * not show, and the shards may differ: what one has found to be another's may be on the next
   * shard, and nobody's, when it is looked for again.
   */
  get isDone(): boolean {
    return [...this.#named].every(([id, times]) => (this.#known.get(id) ?? 0) >= times);
  }

  get shardsAsked(): number {
    return this.#shards.size;
  }

  /** Returns the reply. */
  get reply(): string {
    assert.ok(this.isDone, "a delete-batch is answered when all of its jobs were looked for");
    // If an id is repeated, its first occurrence counts as deleted, whichever question found it.
    const missing = this.#ids.filter(
      (id, place) => !this.#deleted.has(id) || this.#ids.indexOf(id) !== place,
    );
    return `${["DELETED_BATCH", this.#deleted.size, missing.length, ...missing].join(" ")}\r\n`;
  }
}
