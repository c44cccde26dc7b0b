// Tests of the bound on schedules: beyond it they are refused, and those that are there are not.

import assert from "node:assert/strict";
import { it } from "node:test";
import { SCHEDULES_MAX } from "../../../../src/engine/schedules.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

it("refuses one schedule too many, until another is deleted", () => {
  const server = new HandDrivenServer(1);
  const client = server.connect(true);
  const ask = (command: string): string => {
    client.say(`${command}\r\n`);
    server.settle();
    return client.take();
  };
  const set = (name: string, body = "x"): string =>
    ask(`set-schedule ${name} t 0 0 60 ${body.length} every=3600\r\n${body}`);
  for (let n = 0; n < SCHEDULES_MAX; n++) assert.equal(set(`s${n}`), "SET\r\n", `schedule ${n}`);
  assert.equal(set("more"), "OUT_OF_MEMORY\r\n");
  assert.equal(set("s7", "another body"), "SET\r\n", "a name that is there is set anew");
  assert.equal(ask("delete-schedule s8"), "DELETED\r\n");
  assert.equal(set("more"), "SET\r\n");
  assert.equal(set("s8"), "OUT_OF_MEMORY\r\n");
});
