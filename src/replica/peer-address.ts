// Checks whether a process listens on an address, as proof that another node is dead: if its kernel
// refuses the connection, the machine is up and the process is not.

import { connect } from "node:net";

const CONNECT_MS = 1000;

type Listens = "yes" | "refused" | "unknown";

/** `address` is "host:port". */
export function listensOn(address: string): Promise<Listens> {
  const at = address.lastIndexOf(":");
  const host = address.slice(0, at).replace(/^\[|\]$/g, "");
  const port = Number(address.slice(at + 1));
  // The address comes from another node's report.
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
