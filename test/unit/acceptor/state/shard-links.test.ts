import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ShardLinks } from "../../../../src/acceptor/state/shard-links.ts";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { readRequest } from "../../../../src/message/request.ts";
import { createTopology } from "../../../../src/message/topology.ts";
import { Request, Span } from "../../../../src/protocol/request.ts";
import { EMPTY, RingReader } from "../../../../src/ring/ring.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const topology = () => createTopology({ shards: 2, acceptors: 1, jobBytesMax: 65535, ringBytes: 4096 });

/** The ids of the messages that the shard finds. */
function idsAt(reader: RingReader): number[] {
  const request = new Request();
  const ids: number[] = [];
  for (let offset = reader.next(); offset !== EMPTY; offset = reader.next()) {
    readRequest(reader, offset, request);
    ids.push(request.id);
  }
  reader.release();
  return ids;
}

describe("ShardLinks", () => {
  it("carries every field of a request", () => {
    const shared = topology();
    const links = new ShardLinks(shared, 0);
    const sent = new Request().begin(200);
    Object.assign(sent, {
      flags: 0xabcd,
      counted: 127,
      slot: 131_071,
      id: 2 ** 53 - 1,
      pri: 2 ** 32 - 1,
      delaySeconds: 2 ** 32 - 1,
      ttrSeconds: 2 ** 32 - 2,
      bodyBytes: 2 ** 30,
      atMs: 12_345.678,
      timeoutMs: Number.POSITIVE_INFINITY,
      delayMillis: 999,
      count: 2 ** 32 - 1,
      waitNumber: 2 ** 31 - 1,
      meterBytes: 2 ** 32 - 3,
    });
    const bytes = asciiBytes("..tube..body..options!");
    sent.tube.set(bytes, 2, 6);
    sent.body.set(bytes, 8, 12);
    sent.options.set(bytes, 14, 22);
    assert.ok(links.write(1, sent));
    links.publish(() => {});
    const reader = new RingReader(shared.requests[0]![1]!);
    const got = new Request();
    readRequest(reader, reader.next(), got);
    for (const key of Object.keys(sent) as (keyof Request)[])
      if (!(sent[key] instanceof Span)) assert.equal(got[key], sent[key], key);
    assert.equal(got.tube.text, "tube");
    assert.equal(got.options.text, "options!");
    assert.equal(got.body.text, "body");
  });

  it("keeps the order of what was posted to a full ring, and lets no command pass it", () => {
    const shared = topology();
    const links = new ShardLinks(shared, 0);
    const message = new Request();
    let id = 0;
    while (links.write(0, Object.assign(message.begin(1), { id: id + 1 }))) id++;
    // The bytes of a message that has to wait are its own from then on.
    const tube = asciiBytes("posted");
    for (let more = 1; more <= 3; more++) {
      message.begin(1).tube.set(tube, 0, tube.length);
      message.id = id + more;
      links.post(0, message);
    }
    tube.fill(0);
    assert.ok(!links.write(0, message.begin(1)), "a command goes behind what was posted");
    assert.ok(!links.hasRoomAgain);
    links.publish(() => {});
    const reader = new RingReader(shared.requests[0]![0]!);
    const first = idsAt(reader);
    assert.ok(links.hasRoomAgain);
    links.drainPosted();
    links.publish(() => {});
    const request = new Request();
    readRequest(reader, reader.next(), request);
    assert.equal(request.tube.text, "posted");
    assert.deepEqual(
      [...first, request.id, ...idsAt(reader)],
      Array.from({ length: id + 3 }, (_, index) => index + 1),
    );
  });
});

// Tests of the moment from which commands by id may have to follow their jobs: before the first job
// goes to another shard.

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
