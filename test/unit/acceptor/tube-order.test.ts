// Test that list-tubes keeps the order of creation, however long a server runs.

import assert from "node:assert/strict";
import { it } from "node:test";
import { ControlWord } from "../../../src/message/topology.ts";
import { JobIds } from "../../../src/ring/job-ids.ts";
import { InProcessServer } from "../../simulation/server/in-process-server.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

for (const made of [0, 2 ** 31 - 3, 2 ** 32 - 3, 2 ** 40]) {
  it(`list-tubes lists tubes in the order of their creation after ${made} tubes`, () => {
    const server = new InProcessServer({ shards: 3, acceptors: 1, random: new SeededRandom(1) });
    if (made > 0) new JobIds(new Int32Array(server.topology.control), ControlWord.TubeSequence).reset(made);
    const client = server.connect();
    const ask = (text: string): string => {
      client.write(Buffer.from(text));
      server.settle();
      return client.takeReceived().toString();
    };
    const names = Array.from({ length: 8 }, (_, i) => `${(i * 5) % 8}`);
    for (const name of names) ask(`watch ${name}\r\n`);
    assert.deepEqual(ask("list-tubes\r\n").match(/(?<=- ).*(?=\n)/g), ["default", ...names]);
  });
}
