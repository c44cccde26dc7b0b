// Rate limiter with a token bucket per client, which holds one second's worth of requests.

import type { onRequestHookHandler } from "fastify";
import { RecentMap } from "../../base/recent-map.ts";
import type { Api } from "../api/api.ts";
import { Problem } from "../api/problem.ts";

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

// Rate limits for requests: one per token, or per address without tokens, and one for probes, which
// need no token.

/** Probes per address and second. */
const PROBES_PER_SECOND = 50;

export class RequestLimit {
  readonly #asked: RequestRate;
  readonly #probes = new RequestRate(PROBES_PER_SECOND);
  readonly #nowMs: () => number;

  /** `perSecond` may be Infinity, for no limit. */
  constructor(perSecond: number, nowMs: () => number) {
    this.#asked = new RequestRate(perSecond);
    this.#nowMs = nowMs;
  }

  configure(perSecond: number): void {
    this.#asked.configure(perSecond);
  }

  /** Adds the limit to the application. Must run after the authentication is added. */
  addTo(api: Api): void {
    // Decided once per route: reading a request's route options takes longer than counting.
    api.addHook("onRoute", (route) => {
      const { may, probe } = route.config ?? {};
      // Responses of other public routes are small, and wrong tokens have a limit of their own.
      if (may === null && probe !== true) return;
      const hook = probe === true ? this.#ofProbes : this.#ofOthers;
      const before = [route.onRequest ?? []].flat();
      // HEAD routes are derived from GET routes, and inherit their hooks.
      if (!before.includes(hook)) route.onRequest = [...before, hook];
    });
  }

  // A unix socket has no addresses, so all its clients count as one.
  readonly #ofProbes: onRequestHookHandler = ({ ip }, _reply, done) => {
    if (!this.#probes.take(ip ?? "", this.#nowMs()))
      throw new Problem(
        "too-many-requests",
        `An address may send this request ${PROBES_PER_SECOND} times a second; try again in a second.`,
      );
    done();
  };

  readonly #ofOthers: onRequestHookHandler = (request, _reply, done) => {
    if (this.#asked.isLimited && !this.#asked.take(request.owner ?? request.ip ?? "", this.#nowMs()))
      throw new Problem(
        "too-many-requests",
        "This exceeds max-requests under [http]; try again in a second.",
      );
    done();
  };
}
