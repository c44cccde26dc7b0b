// Tests of a put that replaces the body of a job while a batch over several shards is chosen.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { tubeOn } from "../../../support/tube-on.ts";

const SHARDS = 2;
const TURNS_MAX = 8;

/** The body of a job in the reply to `reserve-batch`, by id. */
function bodiesOf(reply: string): Map<number, string> {
  const jobs = reply.matchAll(/RESERVED (\d+) \d+\r\n(.*)\r\n/g);
  return new Map([...jobs].map(([, id, body]) => [Number(id), body!]));
}

describe("a put that replaces a body, so many turns after a batch over several shards began", () => {
  for (let turns = 0; turns < TURNS_MAX; turns++)
    for (const bytes of [1, 10, 60_000])
      it(`${turns}: by one of ${bytes} bytes`, () => {
        const server = new HandDrivenServer(SHARDS);
        const [a, b] = [tubeOn(0, SHARDS), tubeOn(1, SHARDS)];
        const producer = server.connect(true);
        const put = (tube: string, body: string): string =>
          `put-in-tube ${tube} 0 0 60 ${body.length} unique=k on-duplicate=replace\r\n${body}\r\n`;
        producer.say(put(a, "first one") + put(b, "first two"));
        server.settle();
        producer.take();
        const worker = server.connect(true);
        worker.say(`watch ${a}\r\nwatch ${b}\r\n`);
        server.settle();
        worker.take();
        worker.say("reserve-batch 10 0\r\n");
        for (let turn = 0; turn < turns; turn++) server.turn();
        const body = "r".repeat(bytes);
        producer.say(put(a, body));
        server.settle();
        const isReplaced = producer.take().includes("REPLACED 1");
        const jobs = bodiesOf(worker.take());
        assert.equal(jobs.get(2), "first two");
        if (!isReplaced) assert.equal(jobs.get(1), "first one");
        else if (jobs.has(1)) assert.equal(jobs.get(1), body);
        else {
          worker.say("reserve-batch 10 0\r\n");
          server.settle();
          assert.equal(bodiesOf(worker.take()).get(1), body);
        }
      });
});
