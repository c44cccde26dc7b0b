// What a transport is given to serve an accepted connection.

import type { Entry } from "../admission/admission-control.ts";
import type { KeepAlive } from "../admission/listener-policy.ts";
import type { AcceptorCore } from "../connection/acceptor-core.ts";
import type { ConnectionLog } from "../state/connection-log.ts";

export interface Serving {
  readonly core: AcceptorCore;
  /** To be called whenever bytes or an end have come. */
  readonly onActivity: () => void;
  readonly log: ConnectionLog;
  readonly keepAlive: KeepAlive;
  /** How it was let in; undefined where everybody is, without a gate. */
  readonly entry: Entry | undefined;
  /** Address and port of the client, or "unix"; noted only where ends of connections are kept. */
  readonly peer?: string | undefined;
  /** The place of its listener among those of the server; noted where `peer` is. */
  readonly listener?: number | undefined;
}
