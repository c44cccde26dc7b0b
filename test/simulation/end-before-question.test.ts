// Tests of a client that closes before another one asks about its jobs and tubes: no answer counts
// what the closed client held, whichever thread reads its socket first.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Counter } from "../../src/message/topology.ts";
import { JobDirectory } from "../../src/ring/shared-words.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { InProcessServer } from "./server/in-process-server.ts";

/** More schedules than an order of threads needs to occur. */
const SEEDS = 40;

/** Commands about the job and its tube, with what they say once the holder has gone. */
const QUESTIONS: readonly (readonly [question: string, answer: RegExp])[] = [
  ["stats-job 1", /^state: ready$/m],
  ["inspect-job 1", /^state: ready\n[\s\S]*^holder: none$/m],
  ["inspect-tube held", /^next-age: 9$/m],
  ["inspect-tube watched", /^NOT_FOUND\r$/m],
  ["stats-tube held", /^current-jobs-reserved: 0$/m],
];

/** Commands to the acceptor of the holder, if it reads ends late. */
const SAME_ACCEPTOR: typeof QUESTIONS = [
  ["stats-job 1", /^state: ready$/m],
  ["stats-tube held", /^current-jobs-reserved: 0$/m],
  ["stats", /^current-connections: 1$/m],
  ["reserve-with-timeout 0", /^TIMED_OUT\r$/m],
  ["watch held\r\nreserve-with-timeout 0", /^RESERVED 1 1\r$/m],
  ["watch held\r\nwatch a\r\nwatch b\r\nreserve-with-timeout 0", /^RESERVED 1 1\r$/m],
];

for (const shards of [1, 3])
  for (const [question, answer] of SAME_ACCEPTOR)
    test(`${JSON.stringify(question)} at an acceptor that reads ends late (${shards} shards)`, () => {
      for (let seed = 1; seed <= SEEDS / 5; seed++) {
        const server = new InProcessServer({ shards, acceptors: 1, random: new SeededRandom(seed) });
        for (const { counters } of server.acceptors) counters[Counter.ReadsEndsLate] = 1;
        const holder = server.connect(0);
        holder.write(
          Buffer.from("watch watched\r\nwatch held\r\nuse held\r\nput 0 0 60 1\r\nx\r\nreserve\r\n"),
        );
        server.settle();
        server.advance(9_500);
        const other = server.connect(0);
        holder.close();
        other.write(Buffer.from(`${question}\r\n`));
        server.settle();
        assert.match(other.takeReceived().toString("latin1"), answer, `seed ${seed}`);
      }
    });

for (const shards of [1, 3])
  for (const [question, answer] of QUESTIONS)
    test(`${question} behind the end of a client at another acceptor (${shards} shards)`, () => {
      for (let seed = 1; seed <= SEEDS; seed++) {
        const server = new InProcessServer({ shards, acceptors: 2, random: new SeededRandom(seed) });
        const holder = server.connect(0);
        holder.write(
          Buffer.from("watch watched\r\nwatch held\r\nuse held\r\nput 0 0 60 1\r\nx\r\nreserve\r\n"),
        );
        server.settle();
        server.advance(9_500);
        const other = server.connect(1);
        holder.close();
        other.write(Buffer.from(`${question}\r\n`));
        server.settle();
        assert.match(other.takeReceived().toString("latin1"), answer, `seed ${seed}`);
      }
    });

test("stats-job of a job that has moved to another shard, behind the end of its holder", () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const server = new InProcessServer({ shards: 3, acceptors: 2, random: new SeededRandom(seed) });
    const holder = server.connect(0);
    holder.write(Buffer.from("put 0 0 60 1\r\nx\r\n"));
    server.settle();
    for (const tube of ["a", "b", "c", "d"]) {
      holder.write(Buffer.from(`update-job 1 tube=${tube}\r\n`));
      server.settle();
    }
    holder.write(Buffer.from("reserve-job 1\r\n"));
    server.settle();
    assert.match(holder.takeReceived().toString("latin1"), /(?:UPDATED\r\n){4}RESERVED 1 1\r\nx\r\n$/);
    const other = server.connect(1);
    holder.close();
    other.write(Buffer.from("stats-job 1\r\n"));
    server.settle();
    assert.match(other.takeReceived().toString("latin1"), /^state: ready$/m, `seed ${seed}`);
  }
});

/** A job with an id higher by this has the same place in the directory of jobs. */
const IDS_APART = JobDirectory.BYTES / 4;
/** The search takes many messages, so in few orders of threads is the end still unread after it. */
const SEARCH_SEEDS = 150;

for (const question of ["stats-job 1", "inspect-job 1"])
  test(`${question} of a job that has to be looked for, behind the end of its holder`, () => {
    for (let seed = 1; seed <= SEARCH_SEEDS; seed++) {
      const server = new InProcessServer({ shards: 2, acceptors: 2, random: new SeededRandom(seed) });
      const holder = server.connect(0);
      holder.write(Buffer.from("put 0 0 60 1\r\nx\r\nreserve\r\n"));
      server.settle();
      assert.match(holder.takeReceived().toString("latin1"), /RESERVED 1 1\r\nx\r\n$/);
      // As after a million more puts: the directory knows a later job in place of this one.
      new JobDirectory(server.topology.directory).set(1 + IDS_APART, 0);
      const other = server.connect(1);
      holder.close();
      other.write(Buffer.from(`${question}\r\n`));
      server.settle();
      assert.match(other.takeReceived().toString("latin1"), /^state: ready$/m, `seed ${seed}`);
    }
  });
