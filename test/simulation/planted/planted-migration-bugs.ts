// Bugs planted in the moves of connections between acceptors, which the simulation must find.

import type { Connection } from "../../../src/acceptor/connection/connection.ts";
import type { MovedConnection } from "../../../src/acceptor/migration/client-state.ts";
import { RequestOp } from "../../../src/message/request.ts";
import { ResponseFlag } from "../../../src/message/response.ts";
import { InProcessServer } from "../server/in-process-server.ts";
import { everyNth, type PlantedBug, plantedIn } from "./planted-bug.ts";

type Change = (moved: MovedConnection) => MovedConnection | undefined;

/** Connections move whenever they can, and something goes wrong. */
class MovingServer extends InProcessServer {
  change: Change = (moved) => moved;

  override onTheWay(moved: MovedConnection): MovedConnection | undefined {
    return this.change(moved);
  }
}

function plantedInMigration(name: string, plant: (server: MovingServer) => void): PlantedBug {
  return plantedIn(name, (settings) => {
    const { acceptors } = settings;
    const server = new MovingServer({
      ...settings,
      placement: "together",
      threads: acceptors,
      migrations: 0.9,
    });
    plant(server);
    return server;
  });
}

/** On the way something of the message changes, or all of it is lost. */
function plantedOnTheWay(name: string, change: Change): PlantedBug {
  return plantedInMigration(name, (server) => {
    server.change = change;
  });
}

function onConnections(server: InProcessServer, plant: (connection: Connection) => void): void {
  for (const core of server.acceptors) {
    const connect = core.connect.bind(core);
    core.connect = (transport) => {
      const connection = connect(transport);
      if (connection !== undefined) plant(connection);
      return connection;
    };
  }
}

export const PLANTED_MOVE_BUGS: readonly PlantedBug[] = [
  plantedOnTheWay("what was read while a connection left is lost", (moved) => ({
    ...moved,
    bytes: undefined,
  })),
  plantedOnTheWay("a connection that moves forgets what it watches", (moved) => ({
    ...moved,
    state: { ...moved.state, watched: ["default"] },
  })),
  plantedOnTheWay("a connection that moves is not known where it was", (moved) => ({
    ...moved,
    state: { ...moved.state, touched: moved.state.touched.slice(0, 1) },
  })),
  plantedOnTheWay("a connection that moves is no producer any more", (moved) => ({
    ...moved,
    state: { ...moved.state, isProducer: false },
  })),
  plantedInMigration("a message between acceptors gets lost", (server) => {
    const isLost = everyNth(4);
    server.change = (moved) => (isLost() ? undefined : moved);
  }),
  plantedInMigration("an Adopt gets lost", ({ acceptors }) => {
    const isLost = everyNth(5);
    for (const core of acceptors) {
      const post = core.links.post.bind(core.links);
      core.links.post = (shard, message) => {
        if (message.op !== RequestOp.Adopt || !isLost()) post(shard, message);
      };
    }
  }),
  plantedInMigration("a connection that holds a job moves", (server) => {
    onConnections(server, ({ replies }) => {
      const onReply = replies.onReply.bind(replies);
      replies.onReply = (shard, flags, ...rest) => onReply(shard, flags & ~ResponseFlag.HoldsJob, ...rest);
    });
  }),
  plantedInMigration("a shard does not wait until a session has lost its old place", ({ shards }) => {
    for (const { adoptions } of shards) adoptions.isWaiting = () => false;
  }),
];
