// Tests of clients that read little by little, at random: they get every reply in order, and what
// waits for their reading is told.

import assert from "node:assert/strict";
import { it } from "node:test";
import { HandDrivenServer } from "../../support/in-process/hand-driven-server.ts";
import { printSeed, seed } from "../../support/seeded-property.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

const RUNS = 12;
/** The first job, which every reserve gets, has a reply in pieces. */
const JOB_BYTES = [150_000, 10, 300, 3000, 5000, 9000, 17_000, 33_000, 60_000, 400_000];
const TUBES = 6;

/** A server with a job of each size on tubes of all shards; ids from 1 on. */
function serverWithJobs(shards: number): { server: HandDrivenServer; bodies: string[] } {
  const server = new HandDrivenServer(shards);
  const keeper = server.connect(true);
  const bodies: string[] = [];
  for (let tube = 0; tube < TUBES; tube++) {
    for (const bytes of JOB_BYTES) {
      const body = String.fromCharCode(97 + tube).repeat(bytes);
      bodies.push(body);
      keeper.say(`use tube-${tube}\r\nput 0 0 60 ${bytes}\r\n${body}\r\n`);
      server.settle();
    }
  }
  return { server, bodies };
}

for (const shards of [1, 3]) {
  it(`with ${shards} ${shards === 1 ? "shard" : "shards"}`, (t) => {
    printSeed(t);
    const random = new SeededRandom(seed);
    const { server, bodies } = serverWithJobs(shards);
    for (let run = 0; run < RUNS; run++) {
      const client = server.connect(false);
      const expected: string[] = [];
      let used = "default";
      for (let tube = 0; tube < TUBES; tube++) {
        client.say(`watch tube-${tube}\r\n`);
        expected.push(`WATCHING ${tube + 2}\r\n`);
      }
      const [smallest, largest] = random.pick([
        [0, 0],
        [1, 2],
        [1, 5],
        [1, 8],
        [3, 6],
        [0, 9],
      ] as const)!;
      const say = (): void => {
        let text = "";
        for (let count = random.between(1, 200); count > 0; count--) {
          const pick = random.between(0, 40);
          if (pick === 0) {
            text += "list-tube-used\r\n";
            expected.push(`USING ${used}\r\n`);
          } else if (pick === 1) {
            used = `tube-${random.between(0, TUBES - 1)}`;
            text += `use ${used}\r\n`;
            expected.push(`USING ${used}\r\n`);
          } else if (pick === 2) {
            text += "list-tubes\r\n";
            expected.push(
              "OK 68\r\n---\n- default\n- tube-0\n- tube-1\n- tube-2\n- tube-3\n- tube-4\n- tube-5\n\r\n",
            );
          } else if (pick === 3) {
            text += "reserve-with-timeout 0\r\nrelease 1 0 0\r\n";
            expected.push(`RESERVED 1 ${bodies[0]!.length}\r\n${bodies[0]!}\r\n`, "RELEASED\r\n");
          } else if (pick < 8) {
            text += "peek 99999\r\n";
            expected.push("NOT_FOUND\r\n");
          } else {
            const tube = random.between(0, TUBES - 1);
            const job = tube * JOB_BYTES.length + random.between(smallest, largest);
            text += `peek ${job + 1}\r\n`;
            expected.push(`FOUND ${job + 1} ${bodies[job]!.length}\r\n${bodies[job]!}\r\n`);
          }
        }
        client.say(text);
      };
      for (let round = random.between(1, 6); round > 0; round--) {
        say();
        for (let turns = random.between(0, 30); turns > 0; turns--) {
          server.turn();
          if (random.chance(0.4)) client.read();
        }
      }
      if (random.chance(0.5)) client.connection.onEnd();
      server.settle();
      while (client.pendingBytes > 0) {
        client.read();
        server.settle();
      }
      const text = expected.join("");
      const got = client.take();
      assert.ok(got === text, `run ${run}: ${got.length} bytes of ${text.length}`);
      server.disconnect(client);
      server.settle();
    }
  });
}
