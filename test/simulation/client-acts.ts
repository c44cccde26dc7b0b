// Acts of the clients: they connect, send, read, leave and vanish.

import assert from "node:assert/strict";
import { Counter } from "../../src/message/topology.ts";
import * as command from "./client/command.ts";
import { SimClient } from "./client/sim-client.ts";
import type { CommandDraws } from "./command-draws.ts";
import type { SimulationState } from "./simulation-state.ts";

const CLIENTS_MAX = 7;

const PENDING_MAX = 12;

/** Parts of the simulation that this file uses. */
interface Simulation extends SimulationState {
  readonly draws: CommandDraws;
}

export class ClientActs {
  readonly #simulation: Simulation;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  connect(): void {
    if (this.#simulation.clients.filter((client) => !client.gone && !client.over).length >= CLIENTS_MAX)
      return;
    const acceptor = this.#simulation.random.between(0, this.#simulation.acceptors - 1);
    const socket = this.#simulation.server.connect(acceptor);
    const session = this.#simulation.sessionOf(acceptor, socket.slot);
    const name = `${++this.#simulation.clientsMade}`;
    const client = new SimClient(
      name,
      socket,
      { session, acceptor },
      this.#simulation.model,
      this.#simulation.world,
    );
    socket.onEndVisible = () => this.#checkEnd(client);
    this.#simulation.clients.push(client);
    this.#simulation.closed.delete(session);
    this.#simulation.say(`client ${name} connects as session ${session}`);
    if (this.#simulation.random.chance(0.3)) return;
    for (let i = this.#simulation.random.between(1, 3); i > 0; i--)
      client.send(this.#simulation.draws.watch(client, this.#simulation.tube()));
  }

  leave(): void {
    const client = this.#simulation.random.pick(
      this.#simulation.clients.filter((each) => !each.gone && !each.over),
    );
    if (client === undefined) return;
    const how = this.#simulation.random.pick(["half-close", "half-close", "close", "reset"]);
    this.#simulation.say(`client ${client.name}: ${how}`);
    if (how === "reset") {
      this.reset(client);
    } else if (how === "half-close") {
      // A body that never becomes whole.
      if (client.canSend && this.#simulation.random.chance(0.2)) this.#sendHalfAPut(client);
      client.socket.halfClose();
      client.halfClosed = true;
    } else if (
      this.#simulation.isUsual &&
      client.canSend &&
      client.pendingCount === 0 &&
      Number(client.name) % 3 === 0
    ) {
      // Drawn among the commands it comes too seldom.
      this.#simulation.sendOne(client, command.quit());
    } else {
      this.#close(client);
    }
  }

  #close(client: SimClient): void {
    client.gone = true;
    const { session, acceptor } = client;
    if (client.pendingCount === 0 && !client.socket.isPaused)
      this.#simulation.closed.set(session, { acceptor, place: ++this.#simulation.lastPlace });
    client.socket.close();
  }

  /** A client that holds a job closes, with nothing under way, and another one wants that job. */
  vanish(): void {
    const holders = new Set([...this.#simulation.model.jobs.values()].map((job) => job.holder?.index));
    const client = this.#simulation.random.pick(
      this.#simulation.clients.filter(
        (each) => each.canSend && each.pendingCount === 0 && holders.has(each.session),
      ),
    );
    if (client === undefined) return;
    this.#simulation.say(`client ${client.name}: close`);
    this.#close(client);
    this.#askForJobsOf(client);
  }

  /** A client of another acceptor asks at once for a job that a closing client held. */
  #askForJobsOf(gone: SimClient): void {
    const job = [...this.#simulation.model.jobs.values()].find((each) => each.holder?.index === gone.session);
    const others = this.#simulation.clients.filter(
      (each) => each.canSend && each.pendingCount === 0 && each.acceptor !== gone.acceptor,
    );
    const asker = this.#simulation.random.pick(others);
    if (job === undefined || asker === undefined) return;
    for (const next of [this.#simulation.draws.watch(asker, job.tube.name), command.reserve(asker, 0)]) {
      this.#simulation.say(`client ${asker.name}: ${next.text}`);
      asker.send(next);
    }
  }

  #sendHalfAPut(client: SimClient): void {
    client.saidMore = true;
    client.socket.write(Buffer.from("put 0 0 1 900\r\nabc"));
    this.#simulation.counts.sent("put");
  }

  /** The network drops every connection of one acceptor at once. */
  cutOff(): void {
    const { acceptors, clients, random } = this.#simulation;
    const acceptor = random.between(0, acceptors - 1);
    this.#simulation.say(`the network drops all connections of acceptor ${acceptor}`);
    for (const client of clients)
      if (client.acceptor === acceptor && !client.gone && !client.over) this.reset(client);
  }

  /** The connection breaks, for half of the clients at the server's side first. */
  reset(client: SimClient): void {
    client.gone = true;
    if (Number(client.name) % 2 === 0) client.socket.reset();
    else client.socket.fail();
  }

  /**
   * A client that sees the end of its connection may rely on its effects: its jobs, waits and tubes
   * are back, it is not counted.
   */
  #checkEnd(client: SimClient): void {
    const traces = this.#simulation.model.connections.traces(
      this.#simulation.model.connections.session(client.session),
    );
    assert.deepEqual(
      traces,
      [],
      `what is left of client ${client.name}, who has seen the end of its connection`,
    );
    const counted = this.#simulation.counted(Counter.Connections);
    const sockets = this.#simulation.server.everySocket;
    const open = sockets.flat().filter((socket) => !socket.endVisible && !socket.isForgotten).length;
    assert.ok(counted <= open, `${counted} connections are counted, and only ${open} are open`);
  }

  read(): void {
    const client = this.#simulation.random.pick(this.#simulation.clients.filter((each) => !each.gone));
    if (client === undefined) return;
    const { socket } = client;
    if (this.#simulation.random.chance(0.3)) socket.readsAtOnce = false;
    else if (this.#simulation.random.chance(0.5)) socket.readAll();
    else socket.read(this.#simulation.random.between(1, 3000));
    socket.takeReceived();
  }

  send(): void {
    const random = this.#simulation.random;
    const clients = this.#simulation.clients.filter(
      (client) => client.canSend && client.pendingCount < PENDING_MAX,
    );
    const client = random.pick(clients);
    if (client === undefined) return;
    if (random.chance(this.#simulation.isCrowded ? 0.3 : 0.05)) {
      this.#sendPeeks(client);
      if (client.pendingCount > 0 && this.#simulation.commands % 3 === 0) this.#sendMany(client);
    }
    const count = random.chance(this.#simulation.hurry) ? random.between(2, 8) : 1;
    for (let i = 0; i < count && client.canSend; i++) {
      const next = this.#simulation.draws.draw(client);
      if (next === undefined) continue;
      this.#simulation.sendOne(client, next);
    }
  }

  /** Asks for a body over and over, so that the answers fill a ring. */
  #sendPeeks(client: SimClient): void {
    const large = [...this.#simulation.model.jobs.values()].filter(
      ({ body }) => body.length > 800 && body.length < 1000,
    );
    const job = this.#simulation.random.pick(large);
    for (let i = 0; job !== undefined && i < 6; i++) client.send(command.peek(job.id));
  }

  /** Asks for more behind what it waits for than small buffers take. */
  #sendMany(client: SimClient): void {
    const count = 41 + (this.#simulation.commands % 60);
    this.#simulation.say(`client ${client.name}: ${count} times list-tube-used`);
    for (let i = 0; i < count; i++) client.send(command.fixed("list-tube-used", `USING ${client.used}\r\n`));
  }

  halfCloseAll(): void {
    for (const client of this.#simulation.clients) {
      if (client.gone || client.over) continue;
      client.socket.halfClose();
      client.halfClosed = true;
    }
  }

  /** The server closes all connections in order, also in the middle of a pipeline. */
  stopServer(): void {
    for (let i = 0; i < 5; i++) this.send();
    for (let i = this.#simulation.random.between(0, 20); i > 0; i--) this.#simulation.server.step();
    this.stopClients();
    this.#simulation.server.stop();
  }

  stopClients(): void {
    for (const client of this.#simulation.clients) client.stopped = true;
  }
}
