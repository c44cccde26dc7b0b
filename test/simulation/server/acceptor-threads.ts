// Threads of acceptors and of HTTP, each with an event loop of its own.

import { AcceptorLoop, acceptorGroup } from "../../../src/acceptor/acceptor-loop.ts";
import type { AcceptorCore } from "../../../src/acceptor/connection/acceptor-core.ts";
import { Point } from "../../../src/loop/role.ts";
import { httpBell, type ThreadRoles, threadOfShard } from "../../../src/message/topology.ts";
import { TurnCounters } from "../../../src/message/turn-counters.ts";
import type { DoorbellOwner } from "../../../src/ring/doorbell.ts";
import type { BlockingThreads } from "./blocking-threads.ts";
import { DrawnPollPolicy } from "./drawn-waiting.ts";
import type { Thread, ThreadSteps } from "./in-process-options.ts";
import type { ServerParts } from "./server-parts.ts";
import type { SocketEvents } from "./socket-events.ts";

/** Parts of the server that this file uses. */
interface InProcessServer extends ServerParts {
  readonly events: SocketEvents;
  readonly blocking: BlockingThreads;
}

export class AcceptorThreads {
  readonly #server: InProcessServer;

  constructor(server: InProcessServer) {
    this.#server = server;
  }

  acceptorThread({ acceptors, shards }: ThreadRoles, thread: number): Thread {
    const { topology } = this.#server;
    const cores = acceptors.map((acceptor) => this.#server.acceptors[acceptor]!);
    const doorbell = this.#server.createOwner(this.#server.words, thread);
    const loop = new AcceptorLoop({
      core: acceptorGroup(cores),
      doorbell,
      shards: this.#server.createBells(thread, topology.shards, (shard) => threadOfShard(topology, shard)),
      counters: new TurnCounters(
        cores[0]!.counters,
        cores.flatMap(({ links }) => links.responses),
      ),
      pollPolicy: new DrawnPollPolicy(this.#server.random, this.#server.pollChance),
      surroundings: this.#server.surroundings,
    });
    this.#server.loops.push(loop);
    for (const shard of shards) {
      loop.residents.push(this.#server.blocking.shardRole(shard));
      for (const core of cores) core.arenas[shard] = this.#server.shards[shard]!.engine.bodies;
    }
    const steps = this.#acceptorSteps(acceptors, thread, loop, doorbell);
    return { name: `acceptor ${acceptors.join(", ")}`, steps, ready: undefined };
  }

  /**
   * Does what src/acceptor/acceptor-thread.ts does at the points of its loop, with an event loop of
   * its own.
   */
  *#acceptorSteps(
    acceptors: readonly number[],
    thread: number,
    loop: AcceptorLoop,
    owner: DoorbellOwner,
  ): ThreadSteps {
    let scheduled = true;
    const wake = (): void => {
      loop.wake();
      scheduled = true;
    };
    const isRung = (): boolean =>
      loop.asleep && (this.#server.isRung(thread) || this.#server.nowMs >= loop.wakeAtMs);
    const moveBytes = (isReading: boolean): number =>
      this.#server.events.moveAllBytes(acceptors, loop, wake, isReading);
    if (this.#server.ownSockets) loop.sockets = { turn: () => moveBytes(true) };
    for (;;) {
      yield () => scheduled || acceptors.some((each) => this.#server.events.hasSocketEvent(each)) || isRung();
      if (isRung()) wake();
      // Sockets of its own are read here only where the thread waits for them in the kernel.
      if (loop.sockets === undefined) moveBytes(true);
      else if (!scheduled) moveBytes(false);
      if (!scheduled) continue;
      scheduled = false;
      let point = loop.next();
      for (; point === Point.HeldUp; point = loop.next()) yield undefined;
      if (point === Point.Turned) scheduled = true;
      else this.#server.fallAsleep(owner);
    }
  }

  /** Does what src/http/http-thread.ts does: the loop has no sockets, and requests wake it. */
  httpThread(port: { readonly core: AcceptorCore; wake: () => void }): Thread {
    const { topology } = this.#server;
    const thread = httpBell(topology);
    const owner = this.#server.createOwner(this.#server.words, thread);
    const loop = new AcceptorLoop({
      core: port.core,
      doorbell: owner,
      shards: this.#server.createBells(thread, topology.shards, (shard) => threadOfShard(topology, shard)),
      counters: new TurnCounters(port.core.counters, port.core.links.responses),
      pollPolicy: new DrawnPollPolicy(this.#server.random, this.#server.pollChance),
      surroundings: this.#server.surroundings,
    });
    let scheduled = true;
    port.wake = () => {
      loop.wake();
      scheduled = true;
    };
    const isRung = (): boolean => loop.asleep && this.#server.isRung(thread);
    const fallAsleep = (): void => this.#server.fallAsleep(owner);
    const steps = function* (): ThreadSteps {
      for (;;) {
        yield () => scheduled || isRung();
        if (isRung()) port.wake();
        scheduled = false;
        let point = loop.next();
        for (; point === Point.HeldUp; point = loop.next()) yield undefined;
        if (point === Point.Turned) scheduled = true;
        else fallAsleep();
      }
    };
    return { name: "http", steps: steps(), ready: undefined };
  }
}
