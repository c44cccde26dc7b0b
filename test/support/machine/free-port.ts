// Hands out TCP ports on 127.0.0.1 that nothing listens on, outside the kernel's range for outgoing
// connections.

import { createServer, type ListenOptions, type Server } from "node:net";

const LOWEST = 11_500;
const HIGHEST = 32_000;

/**
 * Longer ago than these a port was handed out, it has been listened on or is not needed any more.
 */
const CLAIMS_MAX = 500;

/** Kept, for a port is claimed as long as its claim stands; oldest first. */
const claims: Server[] = [];

/**
 * A port from `lowest` to below `highest` that could be bound a moment ago, and that no other
 * process which asks here gets meanwhile: between the answer and the server that listens on it may
 * lie seconds, and tests run beside each other.
 */
export async function freePort(lowest = LOWEST, highest = HIGHEST): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const candidate = lowest + Math.floor(Math.random() * (highest - lowest));
    // An abstract socket's name belongs to one process, and is free again when that ends, however
    // it ends.
    const claim = await listening({ path: `\0runnerbean-test-port-${candidate}` });
    if (claim === undefined) continue;
    claims.push(claim);
    if (claims.length > CLAIMS_MAX) claims.shift()!.close();
    const probe = await listening({ port: candidate, host: "127.0.0.1", exclusive: true });
    if (probe === undefined) continue;
    await new Promise((resolve) => probe.close(resolve));
    return candidate;
  }
  throw new Error("Cannot find a free port: 200 were taken");
}

function listening(where: ListenOptions): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer().unref();
    server.once("error", () => resolve(undefined));
    server.listen(where, () => resolve(server));
  });
}
