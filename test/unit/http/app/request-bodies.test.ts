// Tests of MessagePack from clients: plain values, limited depth, and no names with a special
// meaning in objects.

import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { FastifyRequest } from "fastify";
import { Problem } from "../../../../src/http/api/problem.ts";
import {
  BodyPieces,
  checkJsonSize,
  checkMsgpackSize,
  freeGathered,
  gatherBody,
  jsonText,
  jsonValues,
  packMsgpack,
  parseMsgpack,
  takesGzip,
} from "../../../../src/http/app/request-bodies.ts";
import { checkProperty, printSeed, seed } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

/** A map with one field, 1. */
const mapWith = (key: string): Buffer =>
  Buffer.concat([Buffer.from([0x81, 0xa0 + key.length]), Buffer.from(key), Buffer.from([1])]);
/** Arrays in each other, the innermost of them empty. */
const arrays = (count: number): Buffer => Buffer.concat([Buffer.alloc(count - 1, 0x91), Buffer.from([0x90])]);
const refuses = (bytes: Buffer, why: RegExp): void =>
  assert.throws(
    () => parseMsgpack(bytes),
    (error) => error instanceof Problem && why.test(error.message),
  );

describe("parseMsgpack", () => {
  it("takes plain values", () => {
    const value = { a: [1, "b", null, true], body: Buffer.from([0, 255]) };
    assert.deepEqual(parseMsgpack(packMsgpack(value)), value);
  });

  it("refuses more than 32 levels", () => {
    parseMsgpack(arrays(33));
    refuses(arrays(34), /more than 32 deep/);
  });

  it("refuses fields with names of prototypes", () => {
    refuses(mapWith("constructor"), /can't be constructor/);
    assert.equal(Object.getPrototypeOf(parseMsgpack(mapWith("proto"))), Object.prototype);
  });

  it("refuses extensions: a time, and an unknown one", () => {
    refuses(Buffer.from([0xd6, 0xff, 0, 0, 0, 1]), /extension types are not supported|broken/);
    refuses(Buffer.from([0xd4, 0x40, 0]), /extension types are not supported|broken/);
  });

  it("refuses extensions before decoding them: a large integer, records, pointers", () => {
    const text = (value: string): Buffer => Buffer.from([0xa0 + value.length, ...Buffer.from(value)]);
    const long = Buffer.concat([Buffer.from([0xc9, 0, 0x7a, 0x12, 0, 0x42]), Buffer.alloc(8_000_000, 0x7f)]);
    for (const value of [
      long,
      Buffer.from([0xd4, 0, 0]),
      Buffer.from([0xd6, 0x70, 0, 0, 0, 1]),
      Buffer.from([0xc7, 4, 0x74, 1, 2, 3, 4]),
      Buffer.from([0xd8, 0x42, ...Buffer.alloc(16, 1)]),
      Buffer.concat([Buffer.from([0xd4, 0x72, 0x40, 0x91]), text("a"), Buffer.from([1])]),
    ]) {
      refuses(value, /extension types are not supported/);
      refuses(Buffer.concat([Buffer.from([0x81]), text("json"), value]), /extension types are not supported/);
    }
  });

  it("refuses the byte that MessagePack never uses, wherever a value may be", () => {
    for (const around of [[], [0x91], [0x92, 1], [0x81, 0xa1, 0x61], [0x81, 0xa1, 0x61, 0x92, 1]])
      refuses(Buffer.from([...around, 0xc1]), /broken: it has the byte 0xc1/);
    refuses(Buffer.from([0x92, 0xc1, 1]), /0xc1/);
    const bytes = { body: Buffer.from([0xc1]) };
    assert.deepEqual(parseMsgpack(packMsgpack(bytes)), bytes);
  });

  it("refuses numbers outside JSON, and integers beyond doubles", () => {
    const double = (value: number): Buffer => {
      const bytes = Buffer.from([0xcb, ...Buffer.alloc(8)]);
      bytes.writeDoubleBE(value, 1);
      return bytes;
    };
    const integer = (head: number, value: bigint): Buffer => {
      const bytes = Buffer.from([head, ...Buffer.alloc(8)]);
      bytes.writeBigUInt64BE(BigInt.asUintN(64, value), 1);
      return bytes;
    };
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
      refuses(double(value), /not a finite number/);
    refuses(Buffer.from([0xca, 0x7f, 0x80, 0, 0]), /not a finite number/);
    assert.equal(parseMsgpack(double(1e300)), 1e300);
    const safe = BigInt(Number.MAX_SAFE_INTEGER);
    assert.equal(parseMsgpack(integer(0xcf, safe)), Number.MAX_SAFE_INTEGER);
    assert.equal(parseMsgpack(integer(0xd3, -safe)), Number.MIN_SAFE_INTEGER);
    for (const [head, value] of [
      [0xcf, safe + 1n],
      [0xcf, 2n ** 64n - 1n],
      [0xd3, safe + 1n],
      [0xd3, -(2n ** 63n)],
    ] as const)
      refuses(integer(head, value), /between -2\^53 and 2\^53 - 1/);
  });

  it("refuses keys that aren't text or repeat, and invalid UTF-8", () => {
    refuses(Buffer.from([0x81, 0x01, 0x02]), /Keys .* must be strings/);
    refuses(Buffer.from([0x81, 0xc0, 0x02]), /Keys .* must be strings/);
    refuses(Buffer.from([0x82, 0xa1, 0x61, 0x01, 0xa1, 0x61, 0x02]), /The field a appears twice/);
    refuses(mapWith("__proto__"), /can't be __proto__/);
    refuses(Buffer.from([0xa2, 0xff, 0xfe]), /not valid UTF-8/);
    refuses(Buffer.from([0x91, 0xd9, 2, 0xc3, 0x28]), /not valid UTF-8/);
    // The same key in another map, and as a value.
    const twice = [{ a: { a: "a" } }, { a: ["a", "a"] }];
    assert.deepEqual(parseMsgpack(packMsgpack(twice)), twice);
  });

  it("reads its own output, and ends for any bytes", (t) => {
    checkProperty(
      t,
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          parseMsgpack(Buffer.from(bytes));
        } catch (error) {
          assert.ok(error instanceof Problem, `${error}`);
        }
      }),
      2000,
    );
    const plain = fc
      .jsonValue({ maxDepth: 6 })
      .filter((value) => !/"(?:__proto__|constructor)":/.test(JSON.stringify(value)));
    checkProperty(
      t,
      fc.property(plain, (value) =>
        assert.equal(JSON.stringify(parseMsgpack(packMsgpack(value))), JSON.stringify(value)),
      ),
      500,
    );
  });
});

describe("an Accept-Encoding", () => {
  const cases: [accepted: string | undefined, takes: boolean][] = [
    [undefined, false],
    ["", false],
    ["gzip", true],
    ["br, GZIP;q=0.5", true],
    ["x-gzip", true],
    ["gzip;q=0, identity", false],
    ["gzip ; q=0.000", false],
    ["gzip;Q=0, *", false],
    ["*", true],
    ["*;q=0", false],
    ["identity, *;q=0.1", true],
    ["notgzip", false],
  ];
  for (const [accepted, takes] of cases)
    it(`${accepted}: ${takes ? "gzip" : "as it is"}`, () => assert.equal(takesGzip(accepted), takes));
});

// Tests of bodies in very many pieces: complete, and in few buffers.

const PIECES = 20_000;

it("pieces of any lengths form the whole body, and never stay many", (t) => {
  printSeed(t);
  const random = new SeededRandom(seed);
  for (const lengths of [[1], [1, 1024], [1023], [1, 5000], [0, 1, 700, 3000]]) {
    const pieces = new BodyPieces();
    const all: Buffer[] = [];
    for (let piece = 0; piece < PIECES; piece++) {
      const bytes = Buffer.alloc(random.pick(lengths)!, piece);
      all.push(bytes);
      pieces.add(bytes);
    }
    const whole = Buffer.concat(all);
    assert.equal(pieces.length, whole.length);
    assert.ok(Buffer.concat(pieces.all()).equals(whole), `${lengths}`);
    const most = 10 + (2 * whole.length) / 1024;
    assert.ok(pieces.all().length <= most, `${lengths}: ${pieces.all().length} pieces, ${most} are enough`);
  }
});

// Tests of bodies in pieces: complete, limited in length, and freed once unused.

const PIECE_BYTES = 64 * 1024;

function requestOf(contentLength?: number): FastifyRequest {
  const headers = contentLength === undefined ? {} : { "content-length": `${contentLength}` };
  return { raw: { headers } } as unknown as FastifyRequest;
}

function gathered(request: FastifyRequest, pieces: readonly Buffer[], bytesMax: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    gatherBody(request, Readable.from(pieces, { objectMode: false }), bytesMax, (error, body) =>
      error === null ? resolve(body!) : reject(error),
    );
  });
}

const piecesOf = (count: number): Buffer[] =>
  Array.from({ length: count }, (_, index) => Buffer.alloc(PIECE_BYTES, index + 1));

describe("gatherBody", () => {
  it("joins pieces, and frees their memory and that of the whole", async () => {
    const pieces = piecesOf(3);
    const expected = Buffer.concat(pieces);
    const request = requestOf(expected.length);
    const body = await gathered(request, pieces, expected.length);
    assert.deepEqual(body, expected);
    assert.deepEqual(
      pieces.map(({ length }) => length),
      [0, 0, 0],
    );
    freeGathered(request);
    // The next one has the same memory, and one beside it other memory.
    const again = await Promise.all(
      [requestOf(), requestOf()].map((next) => gathered(next, piecesOf(4), 4 * PIECE_BYTES)),
    );
    assert.equal(again[0]!.buffer, body.buffer);
    assert.notEqual(again[1]!.buffer, body.buffer);
    for (const each of again) assert.deepEqual(each, Buffer.concat(piecesOf(4)));
  });

  it("keeps few buffers, and no large one", async () => {
    const count = 20;
    const requests = Array.from({ length: count }, () => requestOf());
    const bodies = await Promise.all(requests.map((each) => gathered(each, piecesOf(2), 2 * PIECE_BYTES)));
    for (const request of requests) freeGathered(request);
    assert.equal(bodies.filter(({ length }) => length > 0).length, 8);
    const request = requestOf();
    const large = await gathered(request, piecesOf(17), 17 * PIECE_BYTES);
    freeGathered(request);
    assert.equal(large.length, 0);
  });

  it("keeps memory that is a part of another buffer", async () => {
    const whole = Buffer.alloc(4 * PIECE_BYTES, 7);
    const pieces = [whole.subarray(0, PIECE_BYTES), whole.subarray(PIECE_BYTES)];
    const request = requestOf();
    assert.deepEqual(await gathered(request, pieces, whole.length), whole);
    const one = requestOf();
    await gathered(one, [whole.subarray(PIECE_BYTES)], whole.length);
    freeGathered(one);
    assert.equal(whole.length, 4 * PIECE_BYTES);
  });

  it("refuses bodies that are too long, announced or received, or differ from their length", async () => {
    const code = (expected: string) => (error: unknown) => (error as { code: string }).code === expected;
    const max = 3 * PIECE_BYTES;
    await assert.rejects(gathered(requestOf(max + 1), piecesOf(1), max), code("body-too-big"));
    await assert.rejects(gathered(requestOf(), piecesOf(4), max), code("body-too-big"));
    await assert.rejects(gathered(requestOf(max), piecesOf(2), max), code("bad-request"));
  });
});

// Tests that values are found in the text of requests as they were written, wherever they are and
// whatever surrounds them.

const blanks = fc.stringMatching(/^[ \t\r\n]{0,3}$/);
/** JSON texts that change when they are parsed and written again. */
const scalar = fc.constantFrom(
  "9007199254740993",
  "1e400",
  "-0",
  "1.0",
  "1E5",
  "0.1000000000000000055511151231257827",
  "true",
  "null",
  '""',
  '"\\"json\\":[}\\\\"',
  '"\\ud83d\\u0041"',
  '"käse"',
);
const written = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", maxDepth: 4 },
    scalar,
    fc
      .tuple(blanks, fc.array(tie("value"), { maxLength: 4 }))
      .map(([blank, items]) => `[${blank}${items.join(`${blank},${blank}`)}${blank}]`),
    fc
      .tuple(blanks, fc.array(fc.tuple(fc.constantFrom("json", "jobs", "a", "b}"), tie("value"))))
      .map(([blank, fields]) => {
        const texts = fields.map(([key, value]) => `"${key}"${blank}:${blank}${value}`);
        return `{${blank}${texts.join(`${blank},${blank}`)}${blank}}`;
      }),
  ),
})).value;

describe("the json of a put", () => {
  it("is the request's text, for one job and for many", (t) => {
    const job = fc.tuple(blanks, fc.option(written, { nil: undefined }), fc.boolean());
    checkProperty(
      t,
      fc.property(fc.array(job, { minLength: 1, maxLength: 5 }), (jobs) => {
        const texts = jobs.map(([blank, value, isEscaped]) => {
          const key = isEscaped ? '"js\\u006fn"' : '"json"';
          const field = value === undefined ? "" : `${blank},${key}${blank}:${blank}${value}`;
          return `{${blank}"pri":1${field}${blank}, "ttr" : 60${blank}}`;
        });
        const values = jobs.map(([, value]) => value);
        assert.deepEqual(jsonValues(texts[0]!), [values[0]]);
        const blank = jobs[0]![0];
        const batch = `${blank}{${blank}"jobs"${blank}:${blank}[${blank}${texts.join(`${blank},${blank}`)}${blank}]${blank}}${blank}`;
        JSON.parse(batch);
        assert.deepEqual(jsonValues(batch), values);
      }),
      300,
    );
  });

  it("is the last of several, as with JSON.parse", () => {
    assert.deepEqual(jsonValues('{"json":1,"json":2.0}'), ["2.0"]);
    assert.deepEqual(jsonValues('{"jobs":[{"json":1}],"jobs":[{"json":2.0},{"body":""}]}'), [
      "2.0",
      undefined,
    ]);
  });

  it("is found behind a byte order mark", () => assert.deepEqual(jsonValues('\ufeff{"json":1.0}'), ["1.0"]));

  it("may be nested as deep as a request", () => {
    const deep = `${"[".repeat(240_000)}${"]".repeat(240_000)}`;
    assert.deepEqual(jsonValues(`{"json":${deep}}`), [deep]);
  });
});

describe("jsonText", () => {
  it("refuses invalid UTF-8", () => {
    assert.equal(jsonText(Buffer.from('{"body":"ü"}')), '{"body":"ü"}');
    for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80]])
      assert.throws(
        () => jsonText(Buffer.from([0x22, ...bytes, 0x22])),
        (error) => error instanceof Problem && /not UTF-8/.test(error.message),
      );
  });
});

// Tests of the limit of values in a request, counted before parsing, in both formats.

const VALUES_MAX = 250_000;
const tooMany = /at most 250000 values/;

/** Values and, of objects, keys, which are values of their own in MessagePack. */
function valuesOf(value: unknown, withKeys: boolean): number {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return 1;
  const entries = Object.entries(value);
  const keys = withKeys && !Array.isArray(value) ? entries.length : 0;
  return 1 + keys + entries.reduce((sum, [, each]) => sum + valuesOf(each, withKeys), 0);
}

const values = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.string({ maxLength: 300 }),
    fc.integer(),
    fc.double({ noNaN: true }),
    fc.boolean(),
    fc.constant(null),
    fc.uint8Array({ maxLength: 300 }),
    fc.array(tie("value"), { maxLength: 30 }),
    fc.dictionary(fc.string({ maxLength: 40 }), tie("value"), { maxKeys: 20 }),
  ),
})).value;

describe("the size of a request", () => {
  it("is exactly that of its values in MessagePack", (t) => {
    checkProperty(
      t,
      fc.property(values, (value) => {
        const count = valuesOf(value, true);
        const copies = Math.floor((VALUES_MAX - 1) / count);
        if (copies > 20_000) return;
        const one = packMsgpack(value);
        const array = (length: number): Buffer => {
          const head = Buffer.from([0xdd, 0, 0, 0, 0]);
          head.writeUInt32BE(length, 1);
          return Buffer.concat([head, ...Array.from({ length }, () => one)]);
        };
        checkMsgpackSize(array(copies));
        assert.throws(() => checkMsgpackSize(array(copies + 1)), tooMany);
      }),
      10,
    );
    checkMsgpackSize(Buffer.alloc(VALUES_MAX, 0xc0));
    assert.throws(() => checkMsgpackSize(Buffer.alloc(VALUES_MAX + 1, 0xc0)), tooMany);
  });

  it("is found in truncated or invalid MessagePack", () => {
    for (let head = 0; head < 256; head++)
      for (const rest of [[], [0xff], [0xff, 0xff, 0xff], [0xff, 0xff, 0xff, 0xff, 1]])
        checkMsgpackSize(Buffer.from([head, ...rest]));
  });

  it("includes the fields of each object, in both formats", () => {
    const fields = (count: number): string =>
      `{${Array.from({ length: count }, (_, at) => `"${at}":{"a:":[":"]}`)}}`;
    const tooManyFields = /at most 1000 fields/;
    for (const around of [(text: string) => text, (text: string) => `[{"b":1,"c":[${text},{}]},2]`]) {
      for (const count of [0, 1, 999, 1000]) {
        const text = around(fields(count));
        checkJsonSize(text);
        assert.deepEqual(parseMsgpack(packMsgpack(JSON.parse(text))), JSON.parse(text));
      }
      for (const count of [1001, 20_000]) {
        const text = around(fields(count));
        assert.throws(() => checkJsonSize(text), tooManyFields);
        assert.throws(() => parseMsgpack(packMsgpack(JSON.parse(text))), tooManyFields);
      }
    }
    // Not well formed.
    for (const text of [":".repeat(10_000), "}:".repeat(10_000), "{}:".repeat(10_000)]) checkJsonSize(text);
  });

  it("is that of its values in JSON, without the contents of strings", () => {
    const arrays = (count: number): string => `[${"[],".repeat(count - 1)}[]]`;
    checkJsonSize(arrays(VALUES_MAX / 2));
    assert.throws(() => checkJsonSize(arrays(VALUES_MAX / 2 + 1)), tooMany);
    assert.throws(() => checkJsonSize(`[${"1,".repeat(VALUES_MAX)}1]`), tooMany);
    assert.throws(() => checkJsonSize(`[${'{"a":0},'.repeat(VALUES_MAX / 2)}{}]`), tooMany);
    const commas = ",".repeat(4 * VALUES_MAX);
    for (const text of [
      `"${commas}"`,
      `["\\"${commas}\\\\", "${commas}"]`,
      `{"${commas}\\\\\\"[":"${commas}"}`,
    ]) {
      JSON.parse(text);
      checkJsonSize(text);
    }
    assert.throws(() => checkJsonSize(`["\\\\",${"1,".repeat(VALUES_MAX)}1]`), tooMany);
    // Not well formed: no loop without an end.
    for (const text of ['"'.repeat(3 * VALUES_MAX + 1), `"${"\\".repeat(3 * VALUES_MAX)}`])
      checkJsonSize(text);
  });
});
