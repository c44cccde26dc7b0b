// Tests of the delay of refusals: a flood of them takes few turns, and no delay outlives its client
// or the server.

import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { describe, it, type TestContext } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { SlowRefusals } from "../../../../src/http/app/authentication.ts";

const AT_ONCE_PER_SECOND = 50;
const LATER_MS = 1000;
const FLOOD = 1000;

class Answer extends EventEmitter {
  destroyed = false;
}

/** Refusals on a clock that stands still; `flood` returns the number that have been sent. */
function refusals(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const slow = new SlowRefusals(() => 0);
  const answers: Answer[] = [];
  const sent = { count: 0 };
  const ask = (address: string): void => {
    const answer = new Answer();
    answers.push(answer);
    void slow.wait(address, answer as unknown as ServerResponse).then(() => sent.count++);
  };
  return { slow, answers, sent, ask };
}

describe("refusals of an address", () => {
  it("are sent at once while they are few, and a second later in a flood", async (t) => {
    const { sent, ask } = refusals(t);
    for (let count = 0; count < FLOOD; count++) ask("192.0.2.1");
    await turn();
    assert.equal(sent.count, AT_ONCE_PER_SECOND);
    ask("192.0.2.2");
    await turn();
    assert.equal(sent.count, AT_ONCE_PER_SECOND + 1, "another address is not delayed");
    t.mock.timers.tick(LATER_MS - 1);
    await turn();
    assert.equal(sent.count, AT_ONCE_PER_SECOND + 1);
    t.mock.timers.tick(1);
    await turn();
    assert.equal(sent.count, FLOOD + 1);
  });

  it("are not delayed any more once the client has disconnected or the server stops", async (t) => {
    const { slow, answers, sent, ask } = refusals(t);
    for (let count = 0; count < FLOOD; count++) ask("192.0.2.1");
    answers.at(-1)!.emit("close");
    await turn();
    assert.equal(sent.count, AT_ONCE_PER_SECOND + 1);
    slow.end();
    await turn();
    assert.equal(sent.count, FLOOD);
    ask("192.0.2.1");
    await turn();
    assert.equal(sent.count, FLOOD + 1, "a request during the stop");
  });
});
