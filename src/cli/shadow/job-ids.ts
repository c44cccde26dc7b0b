// Which job of the shadow is which job of the old server.

const IDS_MAX = 1_000_000;

export class JobIdMap {
  readonly #shadowOf = new Map<string, string>();
  #first = Number.POSITIVE_INFINITY;
  /** Jobs that found no place. */
  unmapped = 0;

  /** Whether a job that isn't known may be one of those without a place. */
  get isFull(): boolean {
    return this.#shadowOf.size >= IDS_MAX;
  }

  /** Notes a put. */
  note(old: string, shadow: string): void {
    this.#first = Math.min(this.#first, Number(old));
    if (this.#shadowOf.size < IDS_MAX) this.#shadowOf.set(old, shadow);
    else this.unmapped++;
  }

  /** Notes that a put was answered by the old server, so that older ids are known as such. */
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
