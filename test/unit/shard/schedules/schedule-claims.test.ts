// Tests of a schedule that another shard claims the name of, and then doesn't take over.

import assert from "node:assert/strict";
import { it } from "node:test";
import { NO_SINK } from "../../../../src/engine/schedules.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { tubeOn } from "../../../support/tube-on.ts";

for (const timing of ["cron=0_0_1_1_*", "every=3600"])
  it(`a schedule goes on where it is if the log of the other shard has no room, ${timing}`, () => {
    const server = new HandDrivenServer(2);
    const [here, there] = server.shards.map((shard) => shard.engine.schedules);
    const client = server.connect(true);
    const ask = (command: string): string => {
      client.say(`${command}\r\n`);
      server.settle();
      return client.take();
    };
    const set = (shard: number): string => ask(`set-schedule s ${tubeOn(shard, 2)} 0 0 60 1 ${timing}\r\nx`);
    assert.equal(set(0), "SET\r\n");
    const dueAtMs = here!.table.timers.nextAtMs;
    there!.sink = { ...NO_SINK, scheduled: () => false };
    assert.equal(set(1), "OUT_OF_MEMORY\r\n");
    assert.equal(here!.table.timers.nextAtMs, dueAtMs, "its next tick comes");
    assert.match(ask("run-schedule s"), /^INSERTED /);
    there!.sink = NO_SINK;
    assert.equal(set(1), "SET\r\n");
    assert.deepEqual([here!.table.size, there!.table.size], [0, 1]);
    assert.equal(there!.table.timers.nextAtMs, dueAtMs, "the new place continues with the same tick");
  });
