// Loop of the HTTP thread's port: an acceptor's loop inside the event loop, without sockets and
// without polling.
//
// It sleeps as soon as it is idle. HTTP clients can afford the 50 us of a wake, and the cores
// belong to the queue.

import { AcceptorLoop } from "../../acceptor/acceptor-loop.ts";
import type { AcceptorCore } from "../../acceptor/connection/acceptor-core.ts";
import { Point, REAL_THREAD } from "../../loop/point.ts";
import type { PollPolicy } from "../../loop/waiting-policy.ts";
import { httpBell, type Topology, threadOfShard } from "../../message/topology.ts";
import { TurnCounters } from "../../message/turn-counters.ts";
import { Doorbell, DoorbellOwner } from "../../ring/doorbell.ts";

const NO_POLLING: PollPolicy = { worked() {}, looks: () => 0, turnsAgain: () => false };

export class PortLoop {
  readonly #loop: AcceptorLoop;
  readonly #doorbell: DoorbellOwner;
  #scheduled = false;

  constructor(topology: Topology, core: AcceptorCore) {
    const words = new Int32Array(topology.doorbells);
    this.#doorbell = new DoorbellOwner(words, httpBell(topology));
    this.#loop = new AcceptorLoop({
      core,
      doorbell: this.#doorbell,
      shards: core.links.requests.map((_, shard) => new Doorbell(words, threadOfShard(topology, shard))),
      counters: new TurnCounters(core.counters, core.links.responses),
      pollPolicy: NO_POLLING,
      surroundings: REAL_THREAD,
    });
  }

  /** Schedules a turn after the pending events of the event loop, to send new messages. */
  readonly wake = (): void => {
    this.#loop.wake();
    this.#schedule();
  };

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#turn);
  }

  readonly #turn = (): void => {
    this.#scheduled = false;
    if (this.#loop.next() === Point.Turned) this.#schedule();
    else if (!this.#doorbell.wakeOnRing(this.wake)) this.wake();
  };
}
