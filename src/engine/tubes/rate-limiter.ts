// Limits the reservations of a tube: how many at the same time, and how many over time.

import { TokenBucket } from "../queues/token-bucket.ts";
import type { TubePolicy } from "./tube-settings.ts";

/** The limits of a tube. One without any of its own is for the rates of its groups. */
export class RateLimiter extends TokenBucket {
  #reservedMax = Number.POSITIVE_INFINITY;

  /** Returns whether the settings ever keep back jobs of a tube, or of its groups by a rate. */
  static isNeeded(policy: TubePolicy | undefined): boolean {
    if (policy === undefined) return false;
    return reservedMaxOf(policy) !== Number.POSITIVE_INFINITY || policy.rate + policy.groupRate !== "";
  }

  override set(policy: TubePolicy, nowMs: number): this {
    this.#reservedMax = reservedMaxOf(policy);
    return super.set(policy, nowMs);
  }

  /**
   * Returns whether a job of this cost may be reserved while jobs that cost `inWork` in all are. A
   * job that costs more than a limit has the limit to itself.
   */
  isOpen(inWork: number, nowMs: number, cost = 1): boolean {
    const hasRoom = inWork === 0 ? this.#reservedMax > 0 : inWork + cost <= this.#reservedMax;
    return hasRoom && this.hasFor(cost, nowMs);
  }

  /** Returns what jobs that are reserved now, one after another, may cost in all. */
  gives(inWork: number, nowMs: number): number {
    return Math.max(0, Math.min(this.#reservedMax - inWork, Math.floor(this.tokens(nowMs))));
  }
}

const reservedMaxOf = ({ paused, maxReserved }: TubePolicy): number => (paused === "yes" ? 0 : maxReserved);
