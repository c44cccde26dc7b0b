// Moves of connections from one acceptor to another.

import type { MovedConnection } from "../../../src/acceptor/migration/client-state.ts";
import { ConnectionMigrator } from "../../../src/acceptor/migration/connection-migrator.ts";
import {
  MigrationReceiver,
  type MigrationWay,
  MigrationWriter,
} from "../../../src/acceptor/migration/migration-ring.ts";
import type { FakeSocket } from "./fake-socket.ts";
import type { ServerParts } from "./server-parts.ts";

/** Commands to one shard after which a connection moves to it. */
const MOVE_COMMANDS = 2;

export class ConnectionMoves {
  readonly #server: ServerParts;
  /** Sockets between two acceptors, by their numbers. */
  readonly #away = new Map<number, FakeSocket>();

  constructor(server: ServerParts) {
    this.#server = server;
  }

  /** Does what src/acceptor/acceptor.ts does. */
  beginMigration(likely: number): void {
    for (const [acceptor, core] of this.#server.acceptors.entries()) {
      core.migrator = new ConnectionMigrator({
        topology: this.#server.topology,
        core,
        acceptor,
        loads: { mayTakeOne: () => this.#server.random.chance(likely) },
        commands: MOVE_COMMANDS,
        nowMs: () => this.#server.nowMs,
        ways: this.#server.topology.migrationRings[acceptor]!.map(
          (ring) => ring && this.#wayFrom(acceptor, ring),
        ),
      });
      const rings = this.#server.topology.migrationRings.flatMap((ways) => ways[acceptor] ?? []);
      core.migrationReceiver = new MigrationReceiver(rings, (moved) => {
        const changed = this.#server.onTheWay(moved);
        if (changed !== undefined) this.#land(acceptor, changed);
      });
    }
  }

  #wayFrom(acceptor: number, ring: SharedArrayBuffer): MigrationWay {
    const writer = new MigrationWriter(ring);
    return {
      hasRoom: (state) => writer.hasRoom(state),
      publish: () => writer.publish(),
      write: (handedOver, number, state) => {
        this.#departed(acceptor, handedOver.descriptor);
        writer.write(handedOver, number, state);
      },
    };
  }

  #departed(acceptor: number, descriptor: number): void {
    const sockets = this.#server.sockets[acceptor]!;
    const index = sockets.findIndex((each) => each.descriptor === descriptor);
    const [socket] = sockets.splice(index, 1);
    this.#away.set(descriptor, socket!);
    this.#server.onDeparted(socket!);
  }

  #land(acceptor: number, moved: MovedConnection): void {
    const socket = this.#away.get(moved.descriptor)!;
    this.#away.delete(moved.descriptor);
    this.#server.sockets[acceptor]!.push(socket);
    for (const all of this.#server.everySocket) if (all.includes(socket)) all.splice(all.indexOf(socket), 1);
    this.#server.everySocket[acceptor]!.push(socket);
    this.#server.moved++;
    socket.land(this.#server.acceptors[acceptor]!, moved, () => this.#server.onLanded(socket, acceptor));
  }
}
