// Addresses of HTTP, and which routes stand behind what they serve.

import type { Routes } from "./api/api.ts";

export type HttpAddress = { readonly host: string; readonly port: number } | { readonly path: string };

export const SERVED = ["health", "metrics", "api", "dashboard"] as const;
export type Served = (typeof SERVED)[number];

export interface HttpAlso {
  readonly address: HttpAddress;
  readonly serves: readonly Served[];
  /** Metrics need no token here. */
  readonly metricsPublic: boolean;
  /** Whether it speaks HTTPS, as the first address does. */
  readonly tls: boolean;
}

/** Routes by what is served; the dashboard's page asks the API. */
export function servedRoutes(
  serves: readonly Served[],
  all: Readonly<Record<Served, readonly Routes[]>>,
): readonly Routes[] {
  const whole = serves.includes("dashboard") ? [...serves, "api" as const] : serves;
  return SERVED.filter((each) => whole.includes(each)).flatMap((each) => all[each]);
}
