// Rate limiter with a token bucket per client, which holds one second's worth of requests.

import { RecentMap } from "../../../base/recent-map.ts";

/** Maximum of remembered clients. The least recently active ones are forgotten first. */
const CLIENTS_MAX = 10_000;

interface Bucket {
  left: number;
  atMs: number;
}

export class RequestRate {
  readonly #buckets = new RecentMap<string, Bucket>(CLIENTS_MAX);
  #perSecond: number;

  /** `perSecond` may be Infinity, for no limit. */
  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** Replaces the limit. */
  configure(perSecond: number): void {
    this.#perSecond = perSecond;
  }

  get isLimited(): boolean {
    return this.#perSecond !== Number.POSITIVE_INFINITY;
  }

  /** Takes a token from the client's bucket and returns true, or returns false if there is none. */
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
