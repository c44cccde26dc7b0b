// Refuses who asks too often: each token, or address where there are none; and probes, which need no token.

import type { onRequestHookHandler } from "fastify";
import type { Api } from "../api.ts";
import { Problem } from "../problem.ts";
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
    // By route, since to ask for its options takes longer than to count.
    api.addHook("onRoute", (route) => {
      const { may, probe } = route.config ?? {};
      // What anybody may have is small, and wrong tokens are counted where they are looked at.
      if (may === null && probe !== true) return;
      const hook = probe === true ? this.#ofProbes : this.#ofOthers;
      const before = [route.onRequest ?? []].flat();
      // HEAD is made from GET, with its hooks.
      if (!before.includes(hook)) route.onRequest = [...before, hook];
    });
  }

  // Of a unix socket nobody knows who is who: all are one client.
  readonly #ofProbes: onRequestHookHandler = ({ ip }, _reply, done) => {
    if (!this.#probes.take(ip ?? "", this.#nowMs()))
      throw new Problem(
        "too-many-requests",
        `An address may ask this ${PROBES_PER_SECOND} times a second; ask again in a second.`,
      );
    done();
  };

  readonly #ofOthers: onRequestHookHandler = (request, _reply, done) => {
    if (this.#asked.isLimited && !this.#asked.take(request.owner ?? request.ip ?? "", this.#nowMs()))
      throw new Problem(
        "too-many-requests",
        "This is more often than max-requests under [http] allows; ask again in a second.",
      );
    done();
  };
}
