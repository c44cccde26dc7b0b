// HTTP addresses and the routes that each one serves.

import { setPriority } from "node:os";
import type { Routes } from "./api/api.ts";

export type HttpAddress = { readonly host: string; readonly port: number } | { readonly path: string };

export const SERVED = ["health", "metrics", "api", "dashboard"] as const;
export type Served = (typeof SERVED)[number];

export interface HttpAlso {
  readonly address: HttpAddress;
  readonly serves: readonly Served[];
  /** Metrics need no token here. */
  readonly metricsPublic: boolean;
  /** True for HTTPS, with the settings of the first address. */
  readonly tls: boolean;
}

/** Returns the routes for `serves`. The dashboard includes the API, which its pages use. */
export function servedRoutes(
  serves: readonly Served[],
  all: Readonly<Record<Served, readonly Routes[]>>,
): readonly Routes[] {
  const whole = serves.includes("dashboard") ? [...serves, "api" as const] : serves;
  return SERVED.filter((each) => whole.includes(each)).flatMap((each) => all[each]);
}

/** Lowers the priority of this thread only: on Linux, pid 0 means the calling thread. */
export function lowerPriority(nice: number): void {
  try {
    if (nice > 0) setPriority(0, nice);
  } catch {
    // A container may forbid it; the thread then keeps its normal priority.
  }
}
