// The context that a transport gets to serve an accepted connection.

import type { Entry } from "../admission/admission-control.ts";
import type { KeepAlive } from "../admission/listener-policy.ts";
import type { AcceptorCore } from "../connection/acceptor-core.ts";
import type { ConnectionLog } from "../state/connection-log.ts";

export interface ConnectionContext {
  readonly core: AcceptorCore;
  /** To be called whenever bytes or an end have arrived. */
  readonly onActivity: () => void;
  readonly log: ConnectionLog;
  readonly keepAlive: KeepAlive;
  /** The connection's admission; undefined if every client is accepted without a filter. */
  readonly entry: Entry | undefined;
  /** Address and port of the client, or "unix". */
  readonly peer?: string | undefined;
  /** Index of its listener among those of the server. */
  readonly listener?: number | undefined;
}
