// Refuses who asks too often: each token, or address where there are none; and probes, which need no token.

import type { Api } from "./api.ts";
import { Problem } from "./problem.ts";
import { RequestRate } from "./request-rate.ts";

/** Probes of an address, a second. */
const PROBES_PER_SECOND = 50;

export class RequestLimit {
  readonly #asked: RequestRate;
  readonly #probes = new RequestRate(PROBES_PER_SECOND);
  readonly #nowMs: () => number;

  /** `perSecond`: Infinity for no limit. */
  constructor(perSecond: number, nowMs: () => number) {
    this.#asked = new RequestRate(perSecond);
    this.#nowMs = nowMs;
  }

  configure(perSecond: number): void {
    this.#asked.configure(perSecond);
  }

  /** To be added behind the check who asks. */
  addTo(api: Api): void {
    api.addHook("onRequest", async ({ routeOptions, owner, ip }) => {
      const { may, probe } = routeOptions.config;
      // What anybody may have is small, and wrong tokens are counted where they are looked at.
      if (may === null && probe !== true) return;
      const rate = probe === true ? this.#probes : this.#asked;
      // Of a unix socket nobody knows who is who: all are one client.
      if (rate.take(probe === true ? (ip ?? "") : (owner ?? ip ?? ""), this.#nowMs())) return;
      throw new Problem(
        "too-many-requests",
        probe === true
          ? `An address may ask this ${PROBES_PER_SECOND} times a second; ask again in a second.`
          : "This is more often than max-requests under [http] allows; ask again in a second.",
      );
    });
  }
}
