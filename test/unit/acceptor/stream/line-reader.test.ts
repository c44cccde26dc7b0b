// Tests of the line reader: its lines and bodies don't depend on how the bytes are split.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  InputBuffer,
  type LineBudget,
  type LineHandler,
  LineReader,
} from "../../../../src/acceptor/stream/line-reader.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

/** Notes what it is told; `body 5`, `pieces 5` and `drop 5` ask for a body of 5 bytes. */
class NotingHandler implements LineHandler {
  readonly told: string[] = [];
  mayTakeLine = true;
  /** Whether things are executed; if not, everything has to wait. */
  ready = true;
  turnsOver = 0;
  readonly reader: LineReader;

  constructor(budget?: LineBudget) {
    this.reader = new LineReader(this, budget);
  }

  /** `long ` begins a line that may have 1,000 bytes. */
  lineBytesMax(bytes: Uint8Array, start: number): number {
    return Buffer.from(bytes.subarray(start, start + 5)).toString("latin1") === "long " ? 1000 : 224;
  }

  onLine(bytes: Uint8Array, start: number, end: number, again: boolean): boolean {
    if (!this.ready) return false;
    const line = Buffer.from(bytes.subarray(start, end)).toString("latin1");
    this.told.push(`line ${line}${again ? " (again)" : ""}`);
    const [word, count] = line.split(" ");
    if (word === "body") this.reader.expectBody(Number(count));
    else if (word === "pieces") this.reader.expectPieces(Number(count));
    else if (word === "drop") this.reader.dropBody(Number(count));
    else if (word === "stop") this.reader.stop();
    return true;
  }

  onBadLine(): boolean {
    if (this.ready) this.told.push("bad line");
    return this.ready;
  }

  onBody(bytes: Uint8Array, start: number, end: number, endsWell: boolean): boolean {
    if (this.ready) this.told.push(`body ${Buffer.from(bytes.subarray(start, end))} ${endsWell}`);
    return this.ready;
  }

  onPiece(bytes: Uint8Array, start: number, end: number): number {
    if (!this.ready) return 0;
    const piece = Buffer.from(bytes.subarray(start, end)).toString();
    const last = this.told.length - 1;
    if (this.told[last]?.startsWith("piece ")) this.told[last] += piece;
    else this.told.push(`piece ${piece}`);
    return end - start;
  }

  onLastPiece(endsWell: boolean): boolean {
    if (this.ready) this.told.push(`last piece ${endsWell}`);
    return this.ready;
  }

  onDropped(): boolean {
    if (this.ready) this.told.push("dropped");
    return this.ready;
  }

  onTurnOver(): void {
    this.turnsOver++;
  }

  take(text: string): void {
    const bytes = Buffer.from(text, "latin1");
    this.reader.take(bytes, bytes.length);
    while (this.turnsOver > 0) {
      this.turnsOver = 0;
      this.reader.proceed();
    }
  }
}

const CONVERSATION = [
  "first\r\n\r\nbody 4\r\na\r\nb\r\nbody 2\r\nabXY",
  "pieces 6\r\n012345\r\npieces 2\r\nab\rXdrop 10\r\n0123456789\r\n",
  `${"x".repeat(224)}\r\nNUL \0 here\r\n${"y".repeat(222)}\r\nlone \n and \r stay\r\n`,
  `long ${"z".repeat(300)}\r\nlong ${"z".repeat(993)}\r\nlong ${"z".repeat(994)}\r\nlong ${"z".repeat(250)}\0\r\n`,
  `longer ${"z".repeat(300)}\r\nlong ${"z".repeat(500)}\n${"\r".repeat(3)}z\r\r\nlast`,
].join("");
const TOLD = [
  "line first",
  "line ",
  "line body 4",
  "body a\r\nb true",
  "line body 2",
  "body ab false",
  "line pieces 6",
  "piece 012345",
  "last piece true",
  "line pieces 2",
  "piece ab",
  "last piece false",
  "line drop 10",
  "dropped",
  "bad line",
  "bad line",
  `line ${"y".repeat(222)}`,
  "line lone \n and \r stay",
  `line long ${"z".repeat(300)}`,
  `line long ${"z".repeat(993)}`,
  "bad line",
  "bad line",
  "bad line",
  `line long ${"z".repeat(500)}\n\r\r\rz\r`,
];

describe("LineReader", () => {
  it("reports lines, bodies, pieces, dropped bytes and overlong lines", () => {
    const handler = new NotingHandler();
    handler.take(CONVERSATION);
    assert.deepEqual(handler.told, TOLD);
    assert.equal(handler.reader.bufferedBytes, "last".length);
  });

  it("reports the same however the bytes are cut, and wherever it has to wait", (t) => {
    const cuts = fc.array(fc.nat(CONVERSATION.length), { maxLength: 60 });
    checkProperty(
      t,
      fc.property(cuts, fc.array(fc.boolean(), { maxLength: 60 }), (positions, waits) => {
        const handler = new NotingHandler();
        let from = 0;
        for (const [at, to] of [...positions.sort((a, b) => a - b), CONVERSATION.length].entries()) {
          handler.ready = waits[at] !== true;
          handler.take(CONVERSATION.slice(from, to));
          from = to;
        }
        handler.ready = true;
        handler.take("");
        const told = handler.told.map((each) => each.replace(" (again)", ""));
        assert.deepEqual(told, TOLD);
      }),
    );
  });

  it("accepts a body only with CR LF behind it, whole or in pieces", () => {
    const ends = ["\r\n", "x\n", "\rx", "\n\r", "\n\n", "\r\r", "\0\n", "xx"];
    for (const end of ends)
      for (const [word, told] of [
        ["body", (endsWell: boolean) => [`body abc ${endsWell}`]],
        ["pieces", (endsWell: boolean) => ["piece abc", `last piece ${endsWell}`]],
      ] as const)
        for (let cut = 0; cut <= 5; cut++) {
          const handler = new NotingHandler();
          const body = `abc${end}`;
          handler.take(`${word} 3\r\n${body.slice(0, cut)}`);
          handler.take(`${body.slice(cut)}next\r\n`);
          const expected = [`line ${word} 3`, ...told(end === "\r\n"), "line next"];
          assert.deepEqual(handler.told, expected, JSON.stringify([word, end, cut]));
        }
  });

  it("marks a line that it reported before", () => {
    const handler = new NotingHandler();
    handler.ready = false;
    handler.take("wait\r\nnext\r\n");
    handler.ready = true;
    handler.reader.proceed();
    assert.deepEqual(handler.told, ["line wait (again)", "line next"]);
  });

  it("looks at no line while none is accepted", () => {
    const handler = new NotingHandler();
    handler.mayTakeLine = false;
    handler.take("later\r\n");
    assert.deepEqual(handler.told, []);
    handler.mayTakeLine = true;
    handler.reader.proceed();
    assert.deepEqual(handler.told, ["line later"]);
  });

  it("yields after 256 lines", () => {
    const handler = new NotingHandler();
    const bytes = Buffer.from("a\r\n".repeat(600));
    handler.reader.take(bytes, bytes.length);
    assert.equal(handler.told.length, 256);
    assert.equal(handler.turnsOver, 1);
    handler.take("");
    assert.equal(handler.told.length, 600);
  });

  it("gets a few lines where many others have had theirs in the pass", () => {
    const budget = { left: 8192 };
    const bytes = Buffer.from("a\r\n".repeat(256));
    const handlers = Array.from({ length: 1000 }, () => new NotingHandler(budget));
    for (const { reader } of handlers) reader.take(bytes, bytes.length);
    const lines = handlers.map(({ told }) => told.length);
    assert.ok(lines.slice(0, 20).every((each) => each === 256));
    assert.ok(lines.every((each) => each >= 16));
    const all = lines.reduce((sum, each) => sum + each, 0);
    assert.ok(all < 8192 + 16 * 1000, `${all} lines`);
    budget.left = 8192;
    handlers.at(-1)!.take("");
    assert.equal(handlers.at(-1)!.told.length, 256);
  });

  it("counts the missing bytes of a body", () => {
    const handler = new NotingHandler();
    handler.take("body 100\r\n0123456789");
    assert.equal(handler.reader.awaitedBytes, 102);
    assert.equal(handler.reader.bufferedBytes, 10);
  });

  it("drops its input after stop", () => {
    const handler = new NotingHandler();
    handler.take("stop\r\nignored\r\nbo");
    handler.take("dy 3\r\nabc\r\n");
    assert.deepEqual(handler.told, ["line stop"]);
    assert.equal(handler.reader.bufferedBytes, 0);
  });
});

const step = fc.oneof(
  fc.record({ append: fc.uint8Array({ maxLength: 700 }), skip: fc.nat(5) }),
  fc.record({ use: fc.nat(900) }),
);

it("InputBuffer holds unread bytes, and no memory when it is empty", (t) => {
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const buffer = new InputBuffer();
      let held: number[] = [];
      for (const each of steps) {
        if ("append" in each) {
          const from = Math.min(each.skip, each.append.length);
          buffer.append(each.append, from, each.append.length);
          held.push(...each.append.subarray(from));
          // The bytes are valid during the call only.
          each.append.fill(0);
        } else {
          const used = Math.min(each.use, held.length);
          buffer.consumeTo(buffer.start + used);
          held = held.slice(used);
          if (held.length === 0) assert.equal(buffer.bytes.length, 0);
        }
        assert.equal(buffer.length, held.length);
        assert.deepEqual([...buffer.bytes.subarray(buffer.start, buffer.end)], held);
      }
      buffer.clear();
      assert.deepEqual([buffer.length, buffer.bytes.length], [0, 0]);
    }),
    100,
  );
});
