// How often an address may fail to say who it is before it is not even asked any more.

import { RecentMap } from "../base/recent-map.ts";

const FAILURES_MAX = 10;
const WINDOW_MS = 60_000;
/** Addresses that are remembered; those that failed longest ago are forgotten first. */
const ADDRESSES_MAX = 10_000;

export class FailureLimit {
  readonly #failures = new RecentMap<string, { count: number; sinceMs: number }>(ADDRESSES_MAX);

  /** Whether the address has to wait before it may try again. */
  isOver(address: string, nowMs: number): boolean {
    const failures = this.#failures.get(address);
    return failures !== undefined && failures.count >= FAILURES_MAX && nowMs < failures.sinceMs + WINDOW_MS;
  }

  note(address: string, nowMs: number): void {
    const before = this.#failures.get(address);
    const isOld = before === undefined || nowMs >= before.sinceMs + WINDOW_MS;
    this.#failures.set(
      address,
      isOld ? { count: 1, sinceMs: nowMs } : { ...before, count: before.count + 1 },
    );
  }
}
