// Proxy of a shadow: clients talk to the old server, byte for byte, as if the proxy weren't there.

import { createServer, type Server, type Socket } from "node:net";
import type { JobIdMap } from "./job-ids.ts";
import type { ShadowReport } from "./report.ts";
import { HeldBytes, ShadowConnection } from "./shadow-connection.ts";

interface ShadowProxyOptions {
  readonly dialOld: () => Promise<Socket>;
  readonly dialNew: () => Promise<Socket>;
  readonly token: string | undefined;
  readonly maxConnections: number;
  readonly ids: JobIdMap;
  readonly report: ShadowReport;
  readonly onProblem: (message: string) => void;
}

/** Returns a server; the caller makes it listen. */
export function createShadowProxy(options: ShadowProxyOptions): Server {
  const { dialOld, dialNew, token, ids, report, onProblem } = options;
  const held = new HeldBytes();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (client) => {
    client.on("error", () => client.destroy());
    const name = `${client.remoteAddress ?? "unix"}:${client.remotePort ?? ""}`;
    dialOld().then(
      (old) =>
        join(client, old, new ShadowConnection({ held, dial: dialNew, token, ids, report, client: name })),
      (error: Error) => {
        onProblem(`rejected a client: ${error.message}`);
        client.destroy();
      },
    );
  });
  server.maxConnections = options.maxConnections;
  return server;
}

/** Passes bytes on first, then shows them to the shadow. */
function join(client: Socket, old: Socket, shadow: ShadowConnection): void {
  old.allowHalfOpen = true;
  old.on("error", () => old.destroy());
  const end = (): void => {
    client.destroy();
    old.destroy();
    shadow.end();
  };
  if (client.destroyed || old.destroyed) {
    end();
    return;
  }
  client.on("close", end);
  old.on("close", end);
  client.pipe(old);
  old.pipe(client);
  // Added after pipe's listener, so that each piece is written before the shadow looks at it.
  client.on("data", (bytes: Buffer) => shadow.fromClient(bytes));
  old.on("data", (bytes: Buffer) => shadow.fromOld(bytes));
  client.resume();
}
