// Interface of the transcript runner to a server. There are two drivers: over sockets in real time,
// and in one process on virtual time.

import type { ServerKind } from "../server/server-process.ts";
import type { ClientAct } from "./transcript.ts";

/**
 * One server, fresh, with named clients. Rules for an implementation:
 * - `send`, `act` and `signal` return when the bytes are on their way; a driver on virtual time has
 *   then processed them.
 * - Nothing but `advance` moves virtual time. A transcript always writes the `wait` that a reply
 *   needs.
 */
export interface TranscriptDriver {
  readonly server: ServerKind;
  connect(client: string): Promise<void>;
  send(client: string, bytes: Uint8Array): Promise<void>;
  /**
   * The next bytes for a client, as many as are there. Empty when there are none: at once on
   * virtual time, over a socket after some seconds (`reply`) or a short while (`quiet`). Null when
   * the server has closed the connection.
   */
  receive(client: string, patience: "reply" | "quiet"): Promise<Uint8Array | null>;
  act(client: string, act: Exclude<ClientAct, "connect">): Promise<void>;
  advance(ms: number): Promise<void>;
  signal(name: "SIGUSR1"): Promise<void>;
}
