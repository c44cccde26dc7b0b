// HTTP addresses and the routes that each one serves.

import { chmodSync } from "node:fs";
import { setPriority } from "node:os";
import type { Api, Routes } from "./api/api.ts";
import type { EarlyPort } from "./early-port.ts";

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

// Opens an address of the HTTP side, and sets the priority of its thread.

/** An address with its application. */
export interface HttpListener {
  readonly api: Api;
  readonly address: HttpAddress;
  readonly isSecure: boolean;
}

/** Listens, on the early port if there is one. */
export async function listen({ api, address }: HttpListener, early?: EarlyPort): Promise<string> {
  await api.ready();
  const where = await api.listen(early === undefined ? address : { ...address, ...early.asAddress });
  early?.release();
  if ("path" in address) ownOnly(address.path);
  return where;
}

/** Socket access means full control, so only the server's user may open it. */
function ownOnly(path: string): void {
  chmodSync(path, 0o600);
}

/** Lowers the priority of this thread only: on Linux, pid 0 means the calling thread. */
export function lowerPriority(nice: number): void {
  try {
    if (nice > 0) setPriority(0, nice);
  } catch {
    // A container may forbid it; the thread then keeps its normal priority.
  }
}
