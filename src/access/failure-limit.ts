// How often an address may fail to say who it is before it is not even asked any more.

const FAILURES_MAX = 10;
const WINDOW_MS = 60_000;
/** Addresses that are remembered; the one that failed longest ago is forgotten first. */
const ADDRESSES_MAX = 10_000;

export class FailureLimit {
  readonly #failures = new Map<string, { count: number; sinceMs: number }>();

  /** Whether the address has to wait before it may try again. */
  isOver(address: string, nowMs: number): boolean {
    const failures = this.#failures.get(address);
    return failures !== undefined && failures.count >= FAILURES_MAX && nowMs < failures.sinceMs + WINDOW_MS;
  }

  note(address: string, nowMs: number): void {
    const before = this.#failures.get(address);
    this.#failures.delete(address);
    const isOld = before === undefined || nowMs >= before.sinceMs + WINDOW_MS;
    this.#failures.set(
      address,
      isOld ? { count: 1, sinceMs: nowMs } : { ...before, count: before.count + 1 },
    );
    if (this.#failures.size <= ADDRESSES_MAX) return;
    for (const oldest of this.#failures.keys()) {
      this.#failures.delete(oldest);
      break;
    }
  }
}
