// Tests of dead jobs that needn't leave for another shard any more, just as they are about to.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { tubeOn } from "../../../support/tube-on.ts";

const [MAILS, DEAD] = [tubeOn(0, 2), tubeOn(1, 2)];

describe("the release of a job that dies is answered, though another client", () => {
  for (const [what, command, reply] of [
    ["deletes the job", "delete 1", "DELETED"],
    ["kicks the job", "kick-job 1", "KICKED"],
    ["takes the tube's dead-letter tube away", `set-tube ${MAILS} dead-letter=`, "SET"],
    ["changes nothing", "peek 1", "FOUND 1 1\r\nx"],
  ] as const)
    it(what, () => {
      const server = new HandDrivenServer(2);
      const [worker, other] = [server.connect(true), server.connect(true)];
      worker.say(`set-tube ${MAILS} max-attempts=1 dead-letter=${DEAD}\r\nuse ${MAILS}\r\n`);
      worker.say(`put 0 0 60 1\r\nx\r\nreserve-job 1\r\n`);
      server.settle();
      worker.take();
      worker.say("release 1 0 0\r\n");
      other.say(`${command}\r\n`);
      server.settle();
      assert.deepEqual([worker.take(), other.take()], ["RELEASED\r\n", `${reply}\r\n`]);
    });
});
