// How often each client may ask: a bucket for each, which holds what it may ask in a second.

import { RecentMap } from "../../../base/recent-map.ts";

/** Clients that are remembered; those that have asked nothing for longest are forgotten first. */
const CLIENTS_MAX = 10_000;

interface Bucket {
  left: number;
  atMs: number;
}

export class RequestRate {
  readonly #buckets = new RecentMap<string, Bucket>(CLIENTS_MAX);
  #perSecond: number;

  /** Infinity for no limit. */
  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** Another limit from now on. */
  configure(perSecond: number): void {
    this.#perSecond = perSecond;
  }

  get isLimited(): boolean {
    return this.#perSecond !== Number.POSITIVE_INFINITY;
  }

  /** Whether `client` may ask now; if so, it has. */
  take(client: string, nowMs: number): boolean {
    const perSecond = this.#perSecond;
    if (!this.isLimited) return true;
    const before = this.#buckets.get(client);
    const gained = before === undefined ? perSecond : ((nowMs - before.atMs) / 1000) * perSecond;
    const left = Math.min(perSecond, (before?.left ?? 0) + gained);
    const may = left >= 1;
    this.#buckets.set(client, { left: may ? left - 1 : left, atMs: nowMs });
    return may;
  }
}
