// Tests of the acceptors' metrics: durations of sampled commands, without waits for jobs and with
// the log; bytes of clients; ends of connections by reason.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CommandSampler } from "../../../src/acceptor/stream/output.ts";
import {
  COMMAND_BOUNDS_SECONDS,
  CommandTimesCounters,
  END_REASONS,
} from "../../../src/message/acceptor-counts.ts";
import { COUNTERS_PER_ROLE, Counter } from "../../../src/message/topology.ts";
import { COMMAND_CLASSES, Op } from "../../../src/protocol/commands.ts";
import { HandDrivenServer } from "../../support/in-process/hand-driven-server.ts";

/** Samples of a class so far. */
function samplesOf(counters: Float64Array, name: (typeof COMMAND_CLASSES)[number]): number {
  const times = new CommandTimesCounters(counters, Counter.CommandTimes);
  return times.of(COMMAND_CLASSES.indexOf(name)).counts.reduce((sum, count) => sum + count, 0);
}

describe("a sample", () => {
  it("lasts until its reply is handed over and its record is in the log", () => {
    let nowMs = 1000;
    let logged = 6;
    const counters = new Float64Array(COUNTERS_PER_ROLE);
    const sampler = new CommandSampler(counters, () => nowMs);
    const log = { isLogged: (_: number, number: number) => number <= logged };
    while (!sampler.isDue) sampler.turned();
    const sample = sampler.begin(Op.Put);
    assert.equal(sampler.isDue, false);
    nowMs += 1;
    assert.equal(sampler.flushed(sample, log), false);
    sampler.answered(sample, true, 0, 7);
    nowMs += 1;
    assert.equal(sampler.flushed(sample, log), false);
    logged = 7;
    nowMs += 2;
    assert.equal(sampler.flushed(sample, log), true);
    const { counts, sum } = new CommandTimesCounters(counters, Counter.CommandTimes).of(0);
    assert.equal(counts.length, COMMAND_BOUNDS_SECONDS.length + 1);
    assert.equal(counts.indexOf(1), COMMAND_BOUNDS_SECONDS.indexOf(0.005));
    assert.ok(Math.abs(sum - 0.004) < 1e-9, `${sum}`);
  });
});

describe("an acceptor with metrics", () => {
  it("times one command of some turns, and no reserve that waited", () => {
    const server = new HandDrivenServer(1, undefined, { http: true });
    const { counters, sampler } = server.acceptor;
    const [client, worker] = [server.connect(true), server.connect(true)];
    const say = (text: string): void => {
      client.say(text);
      server.settle();
    };
    const untilDue = (): void => {
      for (let n = 0; !sampler.isDue; n++) {
        assert.ok(n < 1000);
        say("peek 9\r\n");
      }
    };
    untilDue();
    say("put 0 0 9 1\r\nx\r\n");
    assert.deepEqual([samplesOf(counters, "put"), samplesOf(counters, "other")], [1, 0]);
    untilDue();
    say("reserve\r\n");
    assert.equal(samplesOf(counters, "reserve"), 1, "a job was there");
    untilDue();
    worker.say("reserve\r\n");
    server.settle();
    assert.equal(sampler.isDue, false, "it is timed");
    // The thread sleeps, as before a put.
    server.acceptor.pendingReplies.giveUp();
    say("put 0 0 9 1\r\nx\r\n");
    assert.match(worker.take(), /^RESERVED 2 /);
    assert.equal(samplesOf(counters, "reserve"), 1);
    untilDue();
    say("delete 1\r\n");
    assert.equal(samplesOf(counters, "delete"), 1);
  });

  it("counts bytes both ways, and ends by reason", () => {
    const server = new HandDrivenServer(1, undefined, { http: true });
    const { counters } = server.acceptor;
    const client = server.connect(true);
    client.say("put 0 0 9 1\r\nx\r\n");
    server.settle();
    assert.equal(client.take(), "INSERTED 1\r\n");
    assert.deepEqual(
      [counters[Counter.BytesIn], counters[Counter.BytesOut]],
      ["put 0 0 9 1\r\nx\r\n".length, "INSERTED 1\r\n".length],
    );
    client.say("quit\r\n");
    server.settle();
    const ended = END_REASONS.map((_, at) => counters[Counter.Closed + at]);
    assert.deepEqual(
      ended,
      END_REASONS.map((reason) => (reason === "quit" ? 1 : 0)),
    );
  });
});
