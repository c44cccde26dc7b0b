// Opens an address of the HTTP side, and sets the priority of its thread.

import { chmodSync } from "node:fs";
import { setPriority } from "node:os";
import type { Api } from "./api/api.ts";
import type { HttpAddress } from "./http-also.ts";

/** An address with its application. */
export interface HttpListener {
  readonly api: Api;
  readonly address: HttpAddress;
  readonly isSecure: boolean;
}

/** Returns the address that it listens on. */
export async function listen({ api, address }: HttpListener): Promise<string> {
  await api.ready();
  const where = await api.listen(address);
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
