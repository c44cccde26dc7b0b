// Whether a process listens on an address, for the proof that another one is dead: where the kernel refuses, it lives, and the process does not.

import { connect } from "node:net";

const CONNECT_MS = 1000;

export type Listens = "yes" | "refused" | "unknown";

/** `address`: "host:port". */
export function listensOn(address: string): Promise<Listens> {
  const at = address.lastIndexOf(":");
  const host = address.slice(0, at).replace(/^\[|\]$/g, "");
  const port = Number(address.slice(at + 1));
  // It is what another node says of itself.
  if (!(port > 0 && port < 65_536) || host === "") return Promise.resolve("unknown");
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: CONNECT_MS });
    const end = (answer: Listens): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.on("connect", () => end("yes"));
    socket.on("timeout", () => end("unknown"));
    socket.on("error", (error: NodeJS.ErrnoException) =>
      end(error.code === "ECONNREFUSED" ? "refused" : "unknown"),
    );
  });
}
