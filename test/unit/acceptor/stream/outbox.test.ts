import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Outbox } from "../../../../src/acceptor/stream/outbox.ts";
import type { Transport } from "../../../../src/acceptor/stream/transport.ts";

/** A transport and a log that only note. */
class Stage {
  readonly sent: string[] = [];
  /** Progress of the log, for each shard. */
  readonly logged = [0, 0];
  pendingBytes = 0;
  readonly outbox: Outbox;

  constructor() {
    const transport: Transport = {
      send: (buffer, length) => {
        this.sent.push(Buffer.from(buffer.subarray(0, length)).toString());
        return true;
      },
      pendingBytes: 0,
      pause() {},
      resume() {},
      end() {},
      destroy() {},
      descriptor: -1,
    };
    Object.defineProperty(transport, "pendingBytes", { get: () => this.pendingBytes });
    this.outbox = new Outbox(transport, { isLogged: (shard, number) => number <= this.logged[shard]! });
  }

  append(text: string): void {
    this.outbox.append(Buffer.from(text), 0, text.length);
  }
}

describe("Outbox", () => {
  it("sends everything with one write", () => {
    const stage = new Stage();
    stage.append("one ");
    stage.append("two");
    assert.equal(stage.outbox.bytes, 7);
    stage.outbox.flush();
    assert.deepEqual(stage.sent, ["one two"]);
    assert.equal(stage.outbox.bytes, 0);
  });

  it("counts bytes that the kernel hasn't taken", () => {
    const stage = new Stage();
    stage.pendingBytes = 100;
    stage.append("abc");
    assert.equal(stage.outbox.bytes, 103);
    assert.equal(stage.outbox.gatheredBytes, 3);
  });

  it("holds a reply, and all behind it, until its record is in the log", () => {
    const { outbox, ...stage } = new Stage();
    const append = (text: string): void => outbox.append(Buffer.from(text), 0, text.length);
    append("free ");
    assert.ok(outbox.holdFor(0, 5));
    append("held ");
    append("behind ");
    outbox.flush();
    assert.deepEqual(stage.sent, ["free "]);
    assert.ok(outbox.waitsForLog && !outbox.isDurable);
    stage.logged[0] = 4;
    outbox.flush();
    assert.deepEqual(stage.sent, ["free "]);
    stage.logged[0] = 5;
    assert.ok(outbox.isDurable);
    outbox.flush();
    assert.deepEqual(stage.sent, ["free ", "held behind "]);
    assert.ok(!outbox.waitsForLog);
  });

  it("doesn't hold a reply whose record is in the log", () => {
    const stage = new Stage();
    stage.logged[1] = 9;
    assert.ok(!stage.outbox.holdFor(1, 9));
    stage.append("reply");
    stage.outbox.flush();
    assert.deepEqual(stage.sent, ["reply"]);
  });

  it("sends up to the next held reply, of any shard", () => {
    const stage = new Stage();
    const { outbox } = stage;
    outbox.holdFor(0, 1);
    stage.append("a");
    outbox.holdFor(1, 1);
    stage.append("b");
    stage.logged[1] = 1;
    outbox.flush();
    assert.deepEqual(stage.sent, []);
    stage.logged[0] = 1;
    outbox.flush();
    assert.deepEqual(stage.sent, ["ab"]);
  });

  it("drops everything when the client is gone", () => {
    const stage = new Stage();
    stage.outbox.holdFor(0, 1);
    stage.append("never");
    stage.outbox.clear();
    stage.logged[0] = 1;
    stage.outbox.flush();
    assert.deepEqual(stage.sent, []);
    assert.ok(!stage.outbox.waitsForLog);
  });
});
