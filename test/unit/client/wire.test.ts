// Tests of the client's reply reader: replies split anywhere, and invalid ones.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { ProtocolError } from "../../../src/client/errors.ts";
import { type Reply, ReplyReader, serverOf } from "../../../src/client/wire.ts";
import { checkProperty } from "../../support/seeded-property.ts";

function read(chunks: readonly Buffer[]): Reply[] {
  const replies: Reply[] = [];
  const reader = new ReplyReader((reply) => replies.push(reply));
  for (const chunk of chunks) reader.push(chunk);
  return replies;
}

/** Each once, as a server sends them, and what the client must make of it. */
const SENT =
  "INSERTED 17\r\nRESERVED 17 5\r\nhe\r\nl\r\nFOUND 3 0\r\n\r\nTIMED_OUT\r\nRESERVED_BATCH 2\r\n" +
  "RESERVED 4 2 mails\r\nab\r\nRESERVED 9007199254740991 0 x\r\n\r\nRESERVED_BATCH 0\r\nOK 8\r\n---\na: 1\r\n" +
  "RESERVED_BATCH 2\r\nRESERVED 5 1 mails meta=a:b:c meta=town:k\xc3\xb6ln\r\nx\r\nRESERVED 6 0 meta=a:\r\n\r\n" +
  "DELETED_BATCH 1 2 5 6\r\nUNKNOWN_OPTION nope\r\n";

function told({ line, body, jobs }: Reply): unknown[] {
  const text = (bytes: Uint8Array | undefined): string | undefined => bytes && Buffer.from(bytes).toString();
  return [
    line,
    text(body),
    jobs.map(({ id, bytes, tube, meta }) => [id, text(bytes), tube, ...Object.entries(meta)]),
  ];
}

const WANTED = [
  ["INSERTED 17", undefined, []],
  ["RESERVED 17 5", undefined, [[17, "he\r\nl", undefined]]],
  ["FOUND 3 0", "", []],
  ["TIMED_OUT", undefined, []],
  [
    "RESERVED_BATCH 2",
    undefined,
    [
      [4, "ab", "mails"],
      [9007199254740991, "", "x"],
    ],
  ],
  ["RESERVED_BATCH 0", undefined, []],
  ["OK 8", "---\na: 1", []],
  [
    "RESERVED_BATCH 2",
    undefined,
    [
      [5, "x", "mails", ["a", "b:c"], ["town", "köln"]],
      [6, "", undefined, ["a", ""]],
    ],
  ],
  ["DELETED_BATCH 1 2 5 6", undefined, []],
  ["UNKNOWN_OPTION nope", undefined, []],
];

describe("the client's reply reader", () => {
  it("reads replies by their first words", () => {
    assert.deepEqual(read([Buffer.from(SENT, "latin1")]).map(told), WANTED);
  });

  it("reads the same however the bytes are cut", (t) => {
    const cuts = fc.array(fc.nat(SENT.length), { maxLength: 60 });
    checkProperty(
      t,
      fc.property(cuts, (at) => {
        const ends = [...new Set([...at, SENT.length])].sort((a, b) => a - b);
        const chunks = ends.map((end, index) => Buffer.from(SENT.slice(ends[index - 1] ?? 0, end), "latin1"));
        assert.deepEqual(read(chunks).map(told), WANTED);
      }),
    );
    assert.deepEqual(
      read([...Buffer.from(SENT, "latin1")].map((byte) => Buffer.from([byte]))).map(told),
      WANTED,
    );
  });

  it("returns bodies that don't keep their receive buffers", () => {
    const chunk = Buffer.from("FOUND 1 3\r\nabc\r\n");
    const [reply] = read([chunk]);
    chunk.fill(0);
    assert.equal(Buffer.from(reply!.body!).toString(), "abc");
    assert.equal(reply!.body!.buffer.byteLength, 3);
    assert.equal(Object.getPrototypeOf(reply!.body), Uint8Array.prototype, "no Buffer");
  });

  const bad: [name: string, bytes: string][] = [
    ["another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n"],
    ["an empty line", "\r\n"],
    ["a line without an end", "A".repeat(70_000)],
    ["a length that is no number", "OK x\r\n"],
    ["no length", "OK\r\n"],
    ["a length beyond all bodies", "FOUND 1 99999999999\r\n"],
    ["a body that is longer than was said", "FOUND 1 3\r\nabcd\r\n"],
    ["more than a thousand jobs", "RESERVED_BATCH 1001\r\n"],
    ["another reply within a batch", "RESERVED_BATCH 2\r\nRESERVED 1 0\r\n\r\nDELETED\r\n"],
    ["an id that is no number", "RESERVED a 0\r\n\r\n"],
  ];
  for (const [name, bytes] of bad) {
    it(`refuses ${name}`, () => {
      assert.throws(() => read([Buffer.from(bytes)]), ProtocolError);
    });
  }

  it("joins a large body in many pieces only once", () => {
    const piece = Buffer.alloc(1024, "x");
    const pieces = 16_384;
    const startedAt = process.cpuUsage().user;
    const [reply] = read([
      Buffer.from(`OK ${pieces * piece.length}\r\n`),
      ...Array.from({ length: pieces }, () => piece),
      Buffer.from("\r\n"),
    ]);
    assert.equal(reply!.body!.length, pieces * piece.length);
    // Put together at each piece it would be 134 GB to copy.
    assert.ok(process.cpuUsage().user - startedAt < 5_000_000);
  });
});

// Tests of the addresses of servers, in every form.

describe("the address of a server", () => {
  for (const [written, address, port] of [
    ["queue", "queue", 11_300],
    ["queue.example:1", "queue.example", 1],
    ["127.0.0.1:65535", "127.0.0.1", 65_535],
    ["[::1]", "::1", 11_300],
    ["[fe80::1]:7", "fe80::1", 7],
    ["tls:queue:7", "queue", 7],
    ["tls:[::1]:7", "::1", 7],
    ["tls://queue", "queue", 11_300],
    ["tcp://queue:7", "queue", 7],
    ["beanstalk://queue:7", "queue", 7],
    ["unix:/run/queue.sock", "/run/queue.sock", undefined],
  ] as const)
    it(`is read from ${written}`, () =>
      assert.deepEqual(serverOf(written), port === undefined ? { address } : { address, port }));

  for (const written of [
    "",
    ":7",
    "queue:",
    "queue:0",
    "queue:65536",
    "queue:x",
    "::1",
    "a b",
    "http://queue",
  ])
    it(`is not "${written}"`, () => assert.throws(() => serverOf(written), TypeError));

  it("is a text", () => {
    for (const [value, said] of [
      [{ port: 1 }, '{"port":1}'],
      [11300, "11300"],
      [undefined, "undefined"],
    ] as const)
      assert.throws(() => serverOf(value as never), {
        name: "TypeError",
        message: `the address is ${said}, not a text such as "127.0.0.1:11300"`,
      });
  });
});
