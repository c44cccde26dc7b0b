// The loop of the http thread's port: an acceptor's loop in the event loop, without sockets and without patience.
//
// It sleeps as soon as there is nothing to do: whoever asks over HTTP can wait for the 50 us of a wake, and the cores are the
// queue's.

import { AcceptorLoop } from "../../acceptor/acceptor-loop.ts";
import type { AcceptorCore } from "../../acceptor/connection/acceptor-core.ts";
import { Point, REAL_THREAD } from "../../loop/point.ts";
import type { PollPolicy } from "../../loop/waiting-policy.ts";
import { hostOfShard, httpBell, type Topology } from "../../message/topology.ts";
import { TurnCounters } from "../../message/turn-counters.ts";
import { Doorbell, DoorbellOwner } from "../../ring/doorbell.ts";

const NO_PATIENCE: PollPolicy = { worked() {}, looks: () => 0, turnsAgain: () => false };

export class PortLoop {
  readonly #loop: AcceptorLoop;
  readonly #doorbell: DoorbellOwner;
  #scheduled = false;
  #waitPending = false;

  constructor(topology: Topology, core: AcceptorCore) {
    const words = new Int32Array(topology.doorbells);
    this.#doorbell = new DoorbellOwner(words, httpBell(topology));
    this.#loop = new AcceptorLoop({
      core,
      doorbell: this.#doorbell,
      shards: core.requests.map((_, shard) => new Doorbell(words, hostOfShard(topology, shard))),
      counters: new TurnCounters(core.counters, core.responses),
      patience: NO_PATIENCE,
      surroundings: REAL_THREAD,
    });
  }

  /** Something is to be sent: a turn follows when the event loop has done what it has before it. */
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
    else if (!this.#listenToDoorbell()) this.wake();
  };

  /** A ring of the doorbell shows in the event loop from now on. False if it was rung already. */
  #listenToDoorbell(): boolean {
    // An earlier wait that nobody ended still waits on the same word, and will do.
    if (this.#waitPending) return true;
    const rung = this.#doorbell.sleepAsync();
    if (rung === undefined) return false;
    this.#waitPending = true;
    rung.then(() => {
      this.#waitPending = false;
      this.wake();
    });
    return true;
  }
}
