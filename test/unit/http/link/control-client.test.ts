// Tests of the parts of an answer: they arrive in order, and none that reports a change arrives
// before the change is durable enough.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { AcceptorCore } from "../../../../src/acceptor/connection/acceptor-core.ts";
import { ControlClient } from "../../../../src/http/link/control-client.ts";
import { ResponseFlag } from "../../../../src/message/response.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

/** The test says by hand what is durable. */
class Log {
  durable = 0;
  readonly core: AcceptorCore;

  constructor() {
    this.core = new HandDrivenServer(1, undefined, { http: true }).http!;
    this.core.log.isLogged = (_shard, number) => number <= this.durable;
  }
}

describe("parts of an answer", () => {
  it("wait for their records, and for those before them", () => {
    const log = new Log();
    const control = new ControlClient(log.core, () => {});
    const told: string[] = [];
    let waits = 0;
    log.core.runQueues.waitForLog = () => void waits++;
    const { number } = control.begin(0, "ping", undefined, (bytes) =>
      told.push(Buffer.from(bytes).toString()),
    );
    const answer = (text: string, flags: number, recordNumber: number): void =>
      control.onAnswer({ shard: 0, flags, number, recordNumber, payload: Buffer.from(text) });
    answer("first", ResponseFlag.More, 0);
    answer("second", ResponseFlag.More | ResponseFlag.Durable, 1);
    answer("third", ResponseFlag.More, 0);
    assert.deepEqual(told, ["first"]);
    const waitsBefore = waits;
    control.flush();
    assert.deepEqual(told, ["first"]);
    assert.equal(waits, waitsBefore + 1, "what is not durable yet waits for the log again");
    log.durable = 1;
    answer("last", ResponseFlag.Durable, 1);
    assert.deepEqual(told, ["first"]);
    assert.ok(control.isDurable);
    const waitsAtLast = waits;
    control.flush();
    assert.deepEqual(told, ["first", "second", "third", "last"]);
    assert.equal(waits, waitsAtLast, "nothing waits any more");
    assert.equal(control.underWay, 0);
  });
});

/** Returns why a question is refused; "" if it is under way. */
async function refusalOf(asked: Promise<unknown>): Promise<string> {
  let refusal = "";
  asked.catch((error: Error) => {
    refusal = error.message;
  });
  await nextTurn();
  return refusal;
}

describe("questions", () => {
  it("are refused beyond a thousand under way, or if they are too long; neither counts", async () => {
    const server = new HandDrivenServer(1, undefined, { http: true });
    const control = new ControlClient(server.http!, () => {});
    const all = Array.from({ length: 1000 }, () => control.ask(0, "totals", undefined));
    assert.equal(control.underWay, 1000);
    assert.match(await refusalOf(control.ask(0, "totals", undefined)), /too many questions/);
    assert.equal(control.underWay, 1000);
    void control.ask(0, "ping", undefined);
    assert.equal(control.underWay, 1001, "a ping is never refused");
    server.settle();
    await Promise.all(all);
    assert.equal(control.underWay, 0);
    const jobs = Array.from({ length: control.questionBytesMax }, () => ({ id: 1, reserves: 1 }));
    assert.match(await refusalOf(control.ask(0, "give-back", { jobs })), /too long/);
    assert.equal(control.underWay, 0);
    const last = control.ask(0, "totals", undefined);
    server.settle();
    await last;
  });

  it("may fill a message to its last byte", async () => {
    const server = new HandDrivenServer(1, undefined, { http: true });
    const control = new ControlClient(server.http!, () => {});
    // Verb and details are packed as an array of a text and a map.
    const ask = (length: number): Promise<unknown> =>
      control.askParts(0, "tubes", { name: "x".repeat(length) }, () => {});
    let length = control.questionBytesMax - 100;
    let refused = "";
    for (const end = length + 200; refused === "" && length < end; length++) {
      const asked = ask(length).catch((error: Error) => {
        refused = error.message;
      });
      server.settle();
      await asked;
    }
    assert.match(refused, /too long/);
    // MessagePack's heads: of the array, the verb, the map, the key, and a text above 64 KiB.
    const packed = 1 + 1 + "tubes".length + 3 + 1 + "name".length + 5;
    assert.equal(length - 1 + packed, control.questionBytesMax + 1);
  });
});
