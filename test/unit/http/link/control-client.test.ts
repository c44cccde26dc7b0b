// Tests of the parts of an answer: they arrive in order, and none that reports a change arrives
// before the change is durable enough.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
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
    const { number } = control.begin(0, "ping", undefined, (bytes) =>
      told.push(Buffer.from(bytes).toString()),
    );
    const answer = (text: string, flags: number, recordNumber: number): void =>
      control.onAnswer({ shard: 0, flags, number, recordNumber, payload: Buffer.from(text) });
    answer("first", ResponseFlag.More, 0);
    answer("second", ResponseFlag.More | ResponseFlag.Durable, 1);
    answer("third", ResponseFlag.More, 0);
    assert.deepEqual(told, ["first"]);
    control.flush();
    assert.deepEqual(told, ["first"]);
    log.durable = 1;
    answer("last", ResponseFlag.Durable, 1);
    assert.deepEqual(told, ["first"]);
    assert.ok(control.isDurable);
    control.flush();
    assert.deepEqual(told, ["first", "second", "third", "last"]);
  });
});
