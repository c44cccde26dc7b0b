// Tests that replies in any pieces reach their commands in order.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AcceptorCore } from "../../../../src/acceptor/connection/acceptor-core.ts";
import { WireConnection } from "../../../../src/http/link/wire-connection.ts";

/** A connection whose commands go nowhere. */
function unanswered(): WireConnection {
  const core = { connect: () => ({ onBytes() {} }), disconnect() {} };
  return new WireConnection(core as unknown as AcceptorCore, () => {});
}

/** Sends `text` in pieces that end at `cuts`, from one buffer that is used again. */
function answer(connection: WireConnection, text: string, cuts: readonly number[]): void {
  const bytes = Buffer.from(text, "latin1");
  const buffer = Buffer.alloc(bytes.length);
  let from = 0;
  for (const cut of [...cuts, bytes.length]) {
    bytes.copy(buffer, 0, from, cut);
    connection.send(buffer, cut - from);
    from = cut;
  }
  buffer.fill(0);
}

const ANSWERS =
  "INSERTED 1\r\nINSERTED 9007199254740991\r\nJOB_TOO_BIG\r\nRESERVED 7 3\r\nabc\r\nINSERTED 30\r\nNOT_FOUND\r\n";

describe("WireConnection", () => {
  it("parses replies wherever they are cut", async () => {
    for (let first = 0; first <= ANSWERS.length; first++)
      for (let second = first; second <= ANSWERS.length; second += 3) {
        const connection = unanswered();
        const body = Buffer.from("x");
        const puts = [
          connection.put("put 1", body, 1),
          connection.put("put 2", body, 1),
          connection.put("put 3", body, 1),
        ];
        const reserve = connection.command("reserve");
        const last = [connection.put("put 4", body, 1), connection.command("delete 1")];
        answer(connection, ANSWERS, [first, second]);
        assert.deepEqual(await Promise.all(puts), [
          { id: 1 },
          { id: Number.MAX_SAFE_INTEGER },
          { refusal: "JOB_TOO_BIG" },
        ]);
        assert.deepEqual(await reserve, { line: "RESERVED 7 3", body: Buffer.from("abc") });
        assert.deepEqual(await Promise.all(last), [{ id: 30 }, { line: "NOT_FOUND", body: undefined }]);
        assert.equal(connection.underWay, 0);
      }
  });

  it("reports each of many puts in order", async () => {
    const connection = unanswered();
    const puts = connection.puts(() => undefined, 3);
    answer(connection, "INSERTED 5\r\nOUT_OF_MEMORY\r\nINSERTED 6\r\n", [15]);
    assert.deepEqual(await puts, [{ id: 5 }, { refusal: "OUT_OF_MEMORY" }, { id: 6 }]);
  });

  it("requests further pieces only with room, and keeps the order", () => {
    const received: string[] = [];
    // A connection that takes some bytes, and may pause and resume while it does.
    const stand = {
      limit: 2,
      onBytes(bytes: Uint8Array, length: number) {
        received.push(Buffer.from(bytes.subarray(0, length)).toString());
        if (received.length === 1) {
          wire.pause();
          wire.resume();
        }
        if (received.length >= this.limit) wire.pause();
      },
    };
    const core = { connect: () => stand, disconnect() {} };
    const wire = new WireConnection(core as unknown as AcceptorCore, () => {});
    const scratch = Buffer.alloc(1);
    let piece = 0;
    void wire.puts(() => {
      if (piece === 4) return undefined;
      scratch.write(`${++piece}`);
      return scratch;
    }, 4);
    void wire.put("put", "é", 2);
    scratch.write("x");
    assert.deepEqual([received.join(" "), piece], ["1 2", 2]);
    stand.limit = 3;
    wire.resume();
    assert.equal(received.join(" "), "1 2 3");
    stand.limit = 10;
    wire.resume();
    assert.equal(received.join(" "), "1 2 3 4 put\r\né\r\n");
  });

  it("passes INSERTED unchanged to a command other than put", async () => {
    const connection = unanswered();
    const command = connection.command("put-in-tube a 0 0 1 1");
    answer(connection, "INSERTED 5\r\n", []);
    assert.deepEqual(await command, { line: "INSERTED 5", body: undefined });
  });
});
