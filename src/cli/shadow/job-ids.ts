// Maps the ids of jobs on the old server to ids on the new one.

const IDS_MAX = 1_000_000;

export class JobIdMap {
  readonly #shadowOf = new Map<string, string>();
  #first = Number.POSITIVE_INFINITY;
  /** Jobs for which the map had no room. */
  unmapped = 0;

  /** Whether an unknown job may be one for which the map had no room. */
  get isFull(): boolean {
    return this.#shadowOf.size >= IDS_MAX;
  }

  /** Records a put. */
  note(old: string, shadow: string): void {
    this.#first = Math.min(this.#first, Number(old));
    if (this.#shadowOf.size < IDS_MAX) this.#shadowOf.set(old, shadow);
    else this.unmapped++;
  }

  /** Records that the old server answered a put, so that older ids can be recognised. */
  saw(old: string): void {
    this.#first = Math.min(this.#first, Number(old));
  }

  forget(old: string): void {
    this.#shadowOf.delete(old);
  }

  shadowOf(old: string): string | undefined {
    return this.#shadowOf.get(old);
  }

  /** Returns whether the job was there before the first put that the shadow saw. */
  isOlder(old: string): boolean {
    return Number(old) < this.#first;
  }
}
