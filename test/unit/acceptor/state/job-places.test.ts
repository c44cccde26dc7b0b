// Tests of the moment from which commands by id may have to follow their jobs: before the first job
// goes to another shard.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

describe("JobsMove is set", () => {
  const known = (server: HandDrivenServer): boolean => server.acceptor.places.jobsMove;
  const ask = (server: HandDrivenServer, text: string): string => {
    const client = server.connect(true);
    client.say(`${text}\r\n`);
    server.settle();
    return client.take();
  };

  it("by a dead-letter tube on another shard, of a tube or pattern, before any job dies", () => {
    for (const pattern of ["default", "d*", "*"]) {
      const server = new HandDrivenServer(4);
      assert.equal(ask(server, `set-tube ${pattern} max-attempts=1 dead-letter=default`), "SET\r\n");
      // A pattern is for tubes of all shards.
      assert.equal(known(server), pattern !== "default", pattern);
      assert.equal(ask(server, `set-tube ${pattern} dead-letter=a`), "SET\r\n");
      assert.equal(known(server), true, pattern);
    }
  });

  it("by restored settings, from the log or --tubes", () => {
    const server = new HandDrivenServer(4);
    for (const { tubeSetter } of server.shards) tubeSetter.restore([["default", "dead-letter=default"]], 0);
    assert.equal(known(server), false);
    for (const { tubeSetter } of server.shards) tubeSetter.restore([["default", "dead-letter=a"]], 0);
    assert.equal(known(server), true);
  });

  it("never with one shard", () => {
    const server = new HandDrivenServer(1);
    assert.equal(ask(server, "set-tube * max-attempts=1 dead-letter=a"), "SET\r\n");
    assert.equal(known(server), false);
  });
});

it("a command before a half-close finds the first job that ever moves", () => {
  const server = new HandDrivenServer(4);
  const putter = server.connect(true);
  putter.say("set-tube default max-attempts=1 dead-letter=a\r\nput 0 0 60 1\r\nx\r\nreserve\r\n");
  server.settle();
  assert.equal(putter.take(), "SET\r\nINSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
  const client = server.connect(true);
  // The job dies before its shard comes to the other client's command.
  putter.say("release 1 0 0\r\n");
  client.say("peek-ready\r\ndelete 1\r\n");
  client.connection.onEnd();
  server.settle();
  assert.equal(putter.take(), "RELEASED\r\n");
  assert.equal(client.take(), "NOT_FOUND\r\nDELETED\r\n");
  assert.ok(client.ended);
});
