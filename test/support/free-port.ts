// Hands out TCP ports on 127.0.0.1 that nothing listens on, outside the kernel's range for outgoing connections.

import { createServer } from "node:net";

const LOWEST = 11_500;
const HIGHEST = 32_000;

let next = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));

/** A port that could be bound a moment ago. Ports are not handed out twice by one process in a row. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const candidate = next;
    next = next >= HIGHEST ? LOWEST : next + 1;
    if (await canBind(candidate)) return candidate;
  }
  throw new Error("Cannot find a free port: 200 in a row are taken");
}

function canBind(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen({ port, host: "127.0.0.1", exclusive: true }, () => probe.close(() => resolve(true)));
  });
}
