// Bugs planted in reserves by weight, which the simulation must find.

import { RequestOp } from "../../../src/message/request.ts";
import { FloorView } from "../../../src/message/response.ts";
import type { InProcessServer } from "../server/in-process-server.ts";
import { inEachEngine, type PlantedBug, planted } from "./planted-bug.ts";

/** Found by connections that pick by weight only. */
function plantedInWeights(name: string, plant: (server: InProcessServer) => void): PlantedBug {
  const { options } = planted(name, plant);
  return { name, options: { ...options, extensions: true, weights: true } };
}

/** Changes the messages to the shards. */
function changeMessages(
  { acceptors }: InProcessServer,
  change: (message: Parameters<InProcessServer["acceptors"][number]["links"]["post"]>[1]) => void,
): void {
  for (const core of acceptors) {
    const post = core.links.post.bind(core.links);
    core.links.post = (shard, message) => {
      change(message);
      post(shard, message);
    };
  }
}

export const PLANTED_WEIGHT_BUGS: readonly PlantedBug[] = [
  plantedInWeights(
    "a job that is taken by weight is not charged",
    inEachEngine((engine) => {
      const take = engine.takeInTurn.bind(engine);
      engine.takeInTurn = (session, place, pri, id, nowMs) => {
        const turns = session.turns!;
        const { order } = turns;
        const slot = take(session, place, pri, id, nowMs);
        if (slot >= 0 && order > 0) {
          const share = turns.shareOf(engine.tubeOf(slot));
          share.turn -= Math.floor(5040 / share.weight);
        }
        return slot;
      };
    }),
  ),
  plantedInWeights(
    "an empty tube saves its turns",
    inEachEngine((engine) => {
      engine.raiseFloor = () => {};
      const reserve = engine.reserve.bind(engine);
      engine.reserve = (session, timeoutMs, nowMs) => {
        if (session.turns !== undefined) session.turns.floor = 0;
        return reserve(session, timeoutMs, nowMs);
      };
    }),
  ),
  plantedInWeights("the shards don't hear of each other's floors", (server) => {
    changeMessages(server, (message) => {
      if (message.op === RequestOp.Take || message.op === RequestOp.Collect) FloorView.fill(message, 0);
    });
  }),
  plantedInWeights("a batch over several shards is not in the order of turns", (server) => {
    for (const { engine } of server.shards) {
      const list = engine.batchReserves.list.bind(engine.batchReserves);
      engine.batchReserves.list = (session, limits, nowMs, into, places) => {
        const isCut = list(session, limits, nowMs, into, places);
        if (places !== undefined) into.reverse();
        return isCut;
      };
    }
  }),
  plantedInWeights("a tube that is ignored keeps its share", (server) => {
    for (const { engine } of server.shards) {
      const ignore = engine.ignore.bind(engine);
      engine.ignore = (session, name) => {
        if (session.turns !== undefined) session.turns.unwatch = () => {};
        ignore(session, name);
      };
    }
  }),
];
