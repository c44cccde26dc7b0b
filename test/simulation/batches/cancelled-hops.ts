// Members that their workers had just handed to other shards when their batch was cancelled: they
// outlive it. When the client gets its answer, they have arrived, so the log says that they do.

import assert from "node:assert/strict";
import type { Engine } from "../../../src/engine/engine.ts";
import { FlowFlag, JobState, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { BatchState } from "../../../src/schema/batch.ts";
import type { Asker } from "../../../src/shard/commands/batch-homes.ts";
import type { InProcessServer } from "../server/in-process-server.ts";

interface Hop {
  readonly engine: Engine;
  readonly id: number;
  readonly transfer: number;
}

export class CancelledHops {
  /** By the name of the batch. */
  readonly #hops = new Map<string, Hop[]>();
  readonly #watched = new WeakSet<Asker>();

  constructor({ shards }: InProcessServer) {
    for (const { engine, homes } of shards) {
      const assume = engine.batches.assume.bind(engine.batches);
      engine.batches.assume = (facts) => {
        const before = engine.batches.of(facts.number)?.state;
        const batch = assume(facts);
        if (batch?.state === BatchState.Cancelled && before !== BatchState.Cancelled)
          this.#note(engine, batch.name, batch.number);
        return batch;
      };
      const ask = homes.ask.bind(homes);
      homes.ask = (batch, asker) =>
        ask(batch, batch.state === BatchState.Cancelled ? this.#watching(batch.name, asker) : asker);
    }
  }

  #watching(name: string, asker: Asker | undefined): Asker | undefined {
    if (asker === undefined || this.#watched.has(asker)) return asker;
    const watched: Asker = {
      answer: (counts) => {
        this.#answered(name);
        asker.answer(counts);
      },
    };
    this.#watched.add(watched);
    return watched;
  }

  #note(engine: Engine, name: string, number: number): void {
    const hops = this.#hops.get(name) ?? [];
    this.#hops.set(name, hops);
    engine.jobs.forEach((slot) => {
      const page = engine.jobs.pageOf(slot);
      const row = rowOf(slot);
      if (page.state[row] !== JobState.Moving || page.previous[row] !== JobState.Reserved) return;
      const flows = page.extras?.flows;
      if (flows?.batch[row] === number && (flows.flags[row]! & FlowFlag.Ended) === 0)
        hops.push({ engine, id: page.id[row]!, transfer: page.next[row]! });
    });
  }

  #answered(name: string): void {
    for (const { engine, id, transfer } of this.#hops.get(name) ?? []) {
      const slot = engine.find(id);
      if (slot === NO_SLOT) continue;
      const page = engine.jobs.pageOf(slot);
      const isUnderWay = page.state[rowOf(slot)] === JobState.Moving && page.next[rowOf(slot)] === transfer;
      assert.ok(!isUnderWay, `job ${id} has arrived before ${name} is said to be cancelled`);
    }
  }
}
