// Hands out TCP ports on 127.0.0.1 that nothing listens on, outside the kernel's range for outgoing connections.

import { createServer } from "node:net";

const LOWEST = 11_500;
const HIGHEST = 32_000;

const REMEMBERED_MAX = 10_000;

const handedOut = new Set<number>();

/**
 * A port that could be bound a moment ago. None is handed out twice by one process; those of others are drawn from the same
 * range, so whoever starts a server has to look whether it got the port.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const candidate = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if (handedOut.has(candidate) || !(await canBind(candidate))) continue;
    if (handedOut.size > REMEMBERED_MAX) handedOut.clear();
    handedOut.add(candidate);
    return candidate;
  }
  throw new Error("Cannot find a free port: 200 were taken");
}

function canBind(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen({ port, host: "127.0.0.1", exclusive: true }, () => probe.close(() => resolve(true)));
  });
}
