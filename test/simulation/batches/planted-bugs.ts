// Planted bugs that the simulation of batches must find.

import { ENDS } from "../../../src/engine/jobs/ends.ts";
import { BatchState, emptyBatchCounts } from "../../../src/schema/batch.ts";
import type { Asker } from "../../../src/shard/commands/batch-homes.ts";
import type { InProcessServer } from "../server/in-process-server.ts";

interface PlantedBatchBug {
  readonly name: string;
  readonly plant: (server: InProcessServer) => void;
  /** Shows only where cancels meet jobs in transit. */
  readonly hops?: true;
}

export const PLANTED_BATCH_BUGS: readonly PlantedBatchBug[] = [
  {
    name: "a member's end is logged without its count",
    plant: ({ records }) => {
      for (const log of records) log.ended = (id) => log.deleted(id);
    },
  },
  {
    name: "a commit isn't logged",
    plant: ({ records }) => {
      for (const log of records) log.batch = () => {};
    },
  },
  {
    name: "a shard doesn't say that its last member has ended",
    plant: ({ shards }) => {
      for (const { engine } of shards) engine.batches.idle.push = () => 0;
    },
  },
  {
    name: "a member that dies isn't counted as failed",
    plant: ({ shards }) => {
      for (const { engine } of shards) engine.batches.died = () => {};
    },
  },
  {
    name: "a batch is complete although members are open",
    plant: ({ shards }) => {
      for (const { engine } of shards) {
        const { batches } = engine;
        const end = batches.end.bind(batches);
        batches.end = (slot, done) => {
          const batch = end(slot, done);
          if (batch !== undefined && batch.open > 0 && batch.isEnding) batch.open--;
          return batch;
        };
      }
    },
  },
  {
    name: "a member counts as done when it is cleared",
    plant: ({ shards }) => {
      for (const { engine } of shards) {
        const { batches } = engine;
        const end = batches.end.bind(batches);
        batches.end = (slot) => end(slot, true);
      }
    },
  },
  {
    name: "a cancelled member of a batch is done",
    plant: ({ shards }) => {
      for (const { engine } of shards) {
        const { policies } = engine;
        const end = policies.recordEnd.bind(policies);
        policies.recordEnd = (slot, why, nowMs) => end(slot, why === ENDS.Cancelled ? ENDS.Done : why, nowMs);
      }
    },
  },
  {
    name: "a kick finds a job that waits",
    plant: ({ shards }) => {
      for (const { engine } of shards) engine.batches.waits = () => false;
    },
  },
  {
    name: "the jobs that waited are forgotten at a restart",
    plant: ({ shards }) => {
      for (const { homes } of shards) homes.restore = () => {};
    },
  },
  {
    name: "a cancel is answered while a worker's member is in transit",
    hops: true,
    plant: ({ shards }) => {
      for (const { homes, slicedCommands } of shards) {
        const askers = new Set<Asker>();
        const ask = homes.ask.bind(homes);
        homes.ask = (batch, asker) => {
          if (asker === undefined || batch.state !== BatchState.Cancelled || !askers.has(asker))
            ask(batch, asker);
          else {
            asker.answer(emptyBatchCounts());
            slicedCommands.settled(batch.number);
          }
          if (asker !== undefined) askers.add(asker);
        };
      }
    },
  },
];
