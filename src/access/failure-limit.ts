// Limits guesses of secrets per address: ten failures a minute, and never more concurrent checks
// than failures left.

import ipaddr from "ipaddr.js";

import { RecentMap } from "../base/recent-map.ts";

const FAILURES_MAX = 10;
const WINDOW_MS = 60_000;
/** Maximum number of remembered addresses; the map forgets the oldest failures first. */
const ADDRESSES_MAX = 10_000;
/** Maximum number of guesses, over all addresses, that wait for earlier checks. */
const WAITING_MAX = 1000;
/**
 * Number of 16-bit groups that form the network part of an IPv6 address. A client can usually
 * choose the rest freely.
 */
const NETWORK_GROUPS = 4;

/** Number of checks in progress for a network, and the guesses that wait for them. */
interface UnderWay {
  count: number;
  readonly waiting: (() => void)[];
}

type Found<T> = T | undefined;

export class FailureLimit {
  readonly #failures = new RecentMap<string, { count: number; sinceMs: number }>(ADDRESSES_MAX);
  readonly #underWay = new Map<string, UnderWay>();
  #waiting = 0;

  /** Returns whether the address has to wait before it may try again. */
  isOver(address: string, nowMs: number): boolean {
    return this.#left(networkOf(address), nowMs) <= 0;
  }

  note(address: string, nowMs: number): void {
    const network = networkOf(address);
    const before = this.#failures.get(network);
    const isOld = before === undefined || nowMs >= before.sinceMs + WINDOW_MS;
    this.#failures.set(
      network,
      isOld ? { count: 1, sinceMs: nowMs } : { ...before, count: before.count + 1 },
    );
  }

  /**
   * Returns the result of `check`, or "over" without calling it. A check that finds nothing is a
   * failure. A check in progress counts as a failure too, so concurrent guesses get no more tries
   * than sequential ones; guesses beyond that wait.
   */
  attempt<T extends object>(
    address: string,
    nowMs: () => number,
    check: () => Found<T> | Promise<Found<T>>,
  ): Found<T> | "over" | Promise<Found<T> | "over"> {
    const network = networkOf(address);
    const left = this.#left(network, nowMs());
    if (left <= 0) return "over";
    if (left <= (this.#underWay.get(network)?.count ?? 0)) return this.#attemptLater(network, nowMs, check);
    const found = check();
    if (found instanceof Promise) return this.#finish(network, nowMs, found);
    if (found === undefined) this.note(network, nowMs());
    return found;
  }

  async #attemptLater<T extends object>(
    network: string,
    nowMs: () => number,
    check: () => Found<T> | Promise<Found<T>>,
  ): Promise<Found<T> | "over"> {
    if (this.#waiting >= WAITING_MAX) return "over";
    this.#waiting++;
    await new Promise<void>((resolve) => this.#underWay.get(network)!.waiting.push(resolve));
    this.#waiting--;
    const found = this.attempt(network, nowMs, check);
    // An asynchronous check releases the next waiter itself when it ends.
    if (!(found instanceof Promise)) this.#goOn(network);
    return await found;
  }

  async #finish<T>(network: string, nowMs: () => number, checked: Promise<Found<T>>): Promise<Found<T>> {
    const underWay = this.#underWay.get(network) ?? { count: 0, waiting: [] };
    this.#underWay.set(network, underWay);
    underWay.count++;
    try {
      const found = await checked;
      if (found === undefined) this.note(network, nowMs());
      return found;
    } finally {
      underWay.count--;
      this.#goOn(network);
    }
  }

  /** Lets the next waiter continue. */
  #goOn(network: string): void {
    const underWay = this.#underWay.get(network);
    if (underWay === undefined) return;
    const next = underWay.waiting.shift();
    if (next !== undefined) next();
    else if (underWay.count === 0) this.#underWay.delete(network);
  }

  /** Returns how many failures the network has left. */
  #left(network: string, nowMs: number): number {
    const failures = this.#failures.get(network);
    return failures === undefined || nowMs >= failures.sinceMs + WINDOW_MS
      ? FAILURES_MAX
      : FAILURES_MAX - failures.count;
  }
}

/** Returns the network of an IPv6 address, and any other address as it is. Idempotent. */
function networkOf(address: string): string {
  if (!address.includes(":") || !ipaddr.IPv6.isValid(address)) return address;
  const parsed = ipaddr.IPv6.parse(address);
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString();
  const groups = parsed.parts.slice(0, NETWORK_GROUPS).map((group) => group.toString(16));
  return `${groups.join(":")}::`;
}
