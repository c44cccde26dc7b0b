// Tests of commands by id whose job has moved to another shard since, and of the commands behind
// them.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes, shardOfTube } from "../../../../src/base/bytes.ts";
import { RequestOp } from "../../../../src/message/request.ts";
import { TransferMessage } from "../../../../src/message/transfer.ts";
import { type HandDrivenClient, HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { tubeOn } from "../../../support/tube-on.ts";

const SHARDS = 2;
const [WORK, JOBS] = [tubeOn(0, SHARDS, "work"), tubeOn(0, SHARDS, "jobs")];
const ELSEWHERE = tubeOn(1, SHARDS, "elsewhere");
const put = (tube: string): string => `put-in-tube ${tube} 0 0 60 1\r\nx\r\n`;

interface Scene {
  readonly server: HandDrivenServer;
  readonly client: HandDrivenClient;
  readonly other: HandDrivenClient;
  ask(client: HandDrivenClient, text: string): string;
}

/**
 * Job 1 is in JOBS, and a client that watches WORK waits for a job; `behind` is sent behind that.
 */
function scene(behind: string): Scene {
  const server = new HandDrivenServer(SHARDS);
  const other = server.connect(true);
  const ask = (client: HandDrivenClient, text: string): string => {
    client.say(`${text}\r\n`);
    server.settle();
    return client.take();
  };
  assert.equal(ask(other, put(JOBS).slice(0, -2)), "INSERTED 1\r\n");
  const client = server.connect(true);
  assert.equal(ask(client, `watch ${WORK}\r\nignore default`), "WATCHING 2\r\nWATCHING 1\r\n");
  client.say(`reserve\r\n${behind}`);
  server.settle();
  return { server, client, other, ask };
}

/** Drops all messages of one kind between shards. */
function lose({ acceptor }: HandDrivenServer, kind: TransferMessage): void {
  const post = acceptor.links.post.bind(acceptor.links);
  acceptor.links.post = (shard, message) => {
    if (message.op !== RequestOp.Carried || message.count !== kind) post(shard, message);
  };
}

describe("a job that arrived elsewhere before its old shard knows,", () => {
  const DONE: readonly (readonly [command: string, reply: RegExp])[] = [
    ["stats-job 1", new RegExp(`\ntube: ${ELSEWHERE}\nstate: ready\n`)],
    ["inspect-job 1", new RegExp(`\ntube: ${ELSEWHERE}\nstate: ready\n`)],
    ["peek 1", /^FOUND 1 1\r\nx\r\n$/],
    ["touch 1", /^NOT_FOUND\r\n$/],
    ["reserve-job 1", /^RESERVED 1 1\r\nx\r\n$/],
    [
      "reserve-job 1\r\nbury 1 0 reason=why%20buried\r\ninspect-job 1",
      /^RESERVED[\s\S]*\r\nBURIED\r\n[\s\S]*"buried",[^}]*"reason":"why buried"/,
    ],
    [
      `reserve-job 1\r\nrelease 1 0 0 reason=${"r".repeat(1024)}\r\ninspect-job 1`,
      /^RESERVED[\s\S]*\r\nRELEASED\r\n[\s\S]*"released",[^}]*"reason":"r{1024}"/,
    ],
    ["kick-job 1", /^NOT_FOUND\r\n$/],
    ["update-job 1 pri=5", /^UPDATED\r\n$/],
    ["delete 1", /^DELETED\r\n$/],
    ["delete-batch 1", /^DELETED_BATCH 1 0\r\n$/],
  ];
  for (const [command, reply] of DONE)
    it(`is found by a ${command.slice(0, 80)}`, () => {
      const { server, client, other, ask } = scene(`${command}\r\n`);
      lose(server, TransferMessage.Landed);
      // No acceptor is told that it has moved.
      assert.equal(ask(other, `update-job 1 tube=${ELSEWHERE}`), "");
      const third = server.connect(true);
      assert.equal(ask(third, put(WORK).slice(0, -2)), "INSERTED 2\r\n");
      const reserved = "RESERVED 2 1\r\nx\r\n";
      const answer = client.take();
      assert.ok(answer.startsWith(reserved));
      assert.match(answer.slice(reserved.length), reply);
    });
});

describe("a moving job is listed once, in any list:", () => {
  for (const [when, kind, tube, state] of [
    ["on its way, as if somebody held it", TransferMessage.Begin, JOBS, "reserved"],
    [
      "where it has arrived, before word of that has come to where it was",
      TransferMessage.Landed,
      ELSEWHERE,
      "ready",
    ],
  ] as const)
    it(when, () => {
      const { server, other, ask } = scene("");
      lose(server, kind);
      assert.equal(ask(other, `update-job 1 tube=${ELSEWHERE}`), "");
      const third = server.connect(true);
      const [shown] = ask(third, "list-jobs *").match(/^- .*$/gm) ?? [];
      assert.match(shown ?? "none", new RegExp(`^- {"id":1,"tube":"${tube}","state":"${state}",`));
      for (const each of [JOBS, ELSEWHERE])
        assert.equal(ask(third, `list-jobs ${each}`).includes(`"state":"${state}"`), each === tube, each);
      assert.ok(!ask(third, `list-jobs ${JOBS} state=ready,delayed,buried`).includes('"id"'));
    });
});

describe("a batch behind a redirected command", () => {
  const TURNS = 12;
  for (let turns = 0; turns < TURNS; turns++)
    it(`is aborted by a command ${turns} turns later`, () => {
      const { server, client, other, ask } = scene("peek 1\r\nreserve-batch 1 -1 abort=yes\r\n");
      assert.equal(ask(other, `update-job 1 tube=${ELSEWHERE}`), "UPDATED\r\n");
      other.say(put(WORK));
      for (let turn = 0; turn < turns; turn++) server.turn();
      client.say("list-tube-used\r\n");
      server.settle();
      const replies = "RESERVED 2 1\r\nx\r\nFOUND 1 1\r\nx\r\nABORTED\r\nUSING default\r\n";
      assert.equal(client.take(), replies);
    });
});

it("a peek at an empty queue asks only the shard of the tube", () => {
  const server = new HandDrivenServer(SHARDS);
  const client = server.connect(true);
  server.settle();
  const nobody = (): void => {};
  for (const queue of ["ready", "delayed", "buried"]) {
    client.say(`peek-${queue}\r\n`);
    server.acceptor.publish(nobody);
    const own = server.shards[shardOfTube(asciiBytes("default"), 0, 7, SHARDS)]!;
    own.step(1000);
    for (const { ring } of own.ports) ring.publish();
    server.acceptor.takeAnswers(nobody);
    server.acceptor.flush();
    assert.equal(client.take(), "NOT_FOUND\r\n");
  }
});

// Tests of commands behind a reserve-job whose job moves to another shard: they know that the job
// is held there.

describe("held elsewhere", () => {
  const SHARDS = 4;
  const TURNS_MAX = 10;

  /**
   * The replies to a client that reserves job 1 and sends `line`, so many turns after a move of the
   * job began.
   */
  function answersTo(line: string, turns: number): string {
    const server = new HandDrivenServer(SHARDS);
    const mover = server.connect(true);
    mover.say("put 0 0 1 1\r\nx\r\n");
    server.settle();
    assert.equal(mover.take(), "INSERTED 1\r\n");
    mover.say("move-jobs default a\r\n");
    for (let turn = 0; turn < turns; turn++) server.turn();
    const client = server.connect(true);
    client.say(`reserve-job 1\r\n${line}\r\n`);
    server.settle();
    assert.match(mover.take(), /^MOVED [01]\r\n/);
    return client.take();
  }

  describe("after a reserve-job whose job moves", () => {
    for (let turns = 0; turns < TURNS_MAX; turns++) {
      it(`touch-all touches it, ${turns} turns later`, () => {
        assert.equal(answersTo("touch-all", turns), "RESERVED 1 1\r\nx\r\nTOUCHED_ALL 1\r\n");
      });

      it(`a reserve heeds its deadline, ${turns} turns later`, () => {
        assert.equal(answersTo("reserve-with-timeout 0", turns), "RESERVED 1 1\r\nx\r\nDEADLINE_SOON\r\n");
      });
    }
  });
});
