// Closes the ports while this server of a group may not serve, so that balancers and clients go to
// another one, and reopens them afterwards.
//
// A frozen server would accept connections and never answer. A process that is stopped as a whole
// can't close its ports; see docs/more-than-one-machine.md for checks that detect that too.

import type { Logger } from "pino";
import { ControlWord, type Topology } from "../../message/topology.ts";
import { Lease } from "../../ring/lease-word.ts";
import { monotonicMs } from "../../ring/monotonic-clock.ts";
import type { AcceptorHandle } from "../../threads/start-threads.ts";

const LOOK_MS = 100;

export class FrozenPorts {
  readonly #lease: Lease;
  readonly #acceptors: readonly AcceptorHandle[];
  readonly #log: Logger;
  #isClosed = false;

  /** Starts watching at once; for a server that serves. */
  constructor(topology: Topology, acceptors: readonly AcceptorHandle[], log: Logger) {
    const words = new Int32Array(topology.control);
    this.#lease = new Lease(words, ControlWord.ServeUntil, ControlWord.ServeUntilWall);
    this.#acceptors = acceptors;
    this.#log = log;
    setInterval(() => this.#look(), LOOK_MS).unref();
  }

  #look(): void {
    const isFrozen = this.#lease.isOver(monotonicMs());
    if (isFrozen === this.#isClosed) return;
    this.#isClosed = isFrozen;
    for (const acceptor of this.#acceptors) {
      if (isFrozen) acceptor.closePorts();
      else acceptor.listenAgain();
    }
    if (isFrozen)
      this.#log.warn(
        "frozen: the shared log does not answer; the port is closed until it does, connections stay",
      );
  }
}
