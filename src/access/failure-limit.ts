// Limits how often an address may guess a secret: ten failures a minute, and no more guesses at once than failures are left.

import ipaddr from "ipaddr.js";

import { RecentMap } from "../base/recent-map.ts";

const FAILURES_MAX = 10;
const WINDOW_MS = 60_000;
/** Addresses that are remembered; those that failed longest ago are forgotten first. */
const ADDRESSES_MAX = 10_000;
/** Guesses of all addresses that may wait until earlier ones are checked. */
const WAITING_MAX = 1000;
/** 16-bit groups of an IPv6 address that name a network: everybody in it can take any address of the rest. */
const NETWORK_GROUPS = 4;

/** Secrets of an address that are being checked, and those that wait for these. */
interface UnderWay {
  count: number;
  readonly waiting: (() => void)[];
}

type Found<T> = T | undefined;

export class FailureLimit {
  readonly #failures = new RecentMap<string, { count: number; sinceMs: number }>(ADDRESSES_MAX);
  readonly #underWay = new Map<string, UnderWay>();
  #waiting = 0;

  /** Whether the address has to wait before it may try again. */
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
   * Returns what `check` finds, or "over" without a check. A check that finds nobody is a failure. While a check is under way it
   * counts as one, so that guesses sent at once are no more than those sent one after the other; guesses beyond that wait.
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
    // One that is being checked lets the next one go on when it ends.
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

  /** Lets the next one that waits go on. */
  #goOn(network: string): void {
    const underWay = this.#underWay.get(network);
    if (underWay === undefined) return;
    const next = underWay.waiting.shift();
    if (next !== undefined) next();
    else if (underWay.count === 0) this.#underWay.delete(network);
  }

  /** How many failures the network has left. */
  #left(network: string, nowMs: number): number {
    const failures = this.#failures.get(network);
    return failures === undefined || nowMs >= failures.sinceMs + WINDOW_MS
      ? FAILURES_MAX
      : FAILURES_MAX - failures.count;
  }
}

/** The address itself, or for IPv6 the network that its owner has; the same again for what this returned. */
function networkOf(address: string): string {
  if (!address.includes(":") || !ipaddr.IPv6.isValid(address)) return address;
  const parsed = ipaddr.IPv6.parse(address);
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString();
  const groups = parsed.parts.slice(0, NETWORK_GROUPS).map((group) => group.toString(16));
  return `${groups.join(":")}::`;
}
