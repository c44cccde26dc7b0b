import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { asciiBytes } from "../../../src/base/bytes.ts";
import { TIMEOUT_SECONDS_MAX, U32_MAX } from "../../../src/protocol/limits.ts";
import { NumberReader } from "../../../src/protocol/number-reader.ts";
import { checkProperty } from "../../support/seeded-property.ts";

type Read = "readU32" | "readU64" | "readTimeout" | "readKickBound";

/** The value and the text left over, or undefined for a malformed number. */
function read(method: Read, text: string): { value: number; rest: string } | undefined {
  const reader = new NumberReader();
  const bytes = asciiBytes(text);
  return reader[method](bytes, bytes.length)
    ? { value: reader.value, rest: text.slice(reader.at) }
    : undefined;
}

const U64_MAX = 2n ** 64n - 1n;

describe("NumberReader.readU32", () => {
  const rows: [text: string, value: number | undefined, rest: string][] = [
    ["0", 0, ""],
    ["  7", 7, ""],
    ["7 8", 7, " 8"],
    ["007", 7, ""],
    ["4294967295", 4294967295, ""],
    ["000000000000004294967295", 4294967295, ""],
    ["4294967296", undefined, ""],
    ["99999999999999999999999999", undefined, ""],
    ["", undefined, ""],
    ["   ", undefined, ""],
    ["-1", undefined, ""],
    ["+1", undefined, ""],
    ["x", undefined, ""],
    ["\t1", undefined, ""],
    ["0x10", 0, "x10"],
    ["1.5", 1, ".5"],
    ["12/", 12, "/"],
    ["12:", 12, ":"],
  ];
  for (const [text, value, rest] of rows) {
    it(`reads ${JSON.stringify(text)} as ${value ?? "malformed"}`, () => {
      assert.deepEqual(read("readU32", text), value === undefined ? undefined : { value, rest });
    });
  }

  it("accepts exactly the numbers of 32 bits, whatever blanks and zeros precede them", (t) => {
    const number = fc.oneof(
      fc.bigInt(0n, 2n ** 33n),
      fc.constantFrom(0n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 64n),
    );
    checkProperty(
      t,
      fc.property(number, fc.nat(5), fc.nat(30), (wanted, blanks, zeros) => {
        const got = read("readU32", `${" ".repeat(blanks)}${"0".repeat(zeros)}${wanted} tail`);
        if (wanted > BigInt(U32_MAX)) assert.equal(got, undefined);
        else assert.deepEqual(got, { value: Number(wanted), rest: " tail" });
      }),
    );
  });

  it("looks at no byte behind the end it is given", () => {
    const reader = new NumberReader();
    assert.equal(reader.readU32(asciiBytes("1234"), 2), true);
    assert.equal(reader.value, 12);
    reader.at = 0;
    assert.equal(reader.readU32(asciiBytes("  34"), 2), false);
  });
});

describe("NumberReader.readU64", () => {
  it("accepts exactly the numbers of 64 bits; impossible ids read as 0", (t) => {
    const number = fc.oneof(
      fc.bigInt(0n, 2n ** 70n),
      fc.bigInt(2n ** 53n - 5n, 2n ** 53n + 5n),
      fc.bigInt(U64_MAX - 20n, U64_MAX + 20n),
    );
    checkProperty(
      t,
      fc.property(number, fc.nat(60), (wanted, zeros) => {
        const got = read("readU64", `${"0".repeat(zeros)}${wanted}`);
        const value = wanted <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(wanted) : 0;
        assert.deepEqual(got, wanted > U64_MAX ? undefined : { value, rest: "" });
      }),
      500,
    );
  });

  it("refuses 64 bits and one, and 48 digits", () => {
    assert.deepEqual(read("readU64", "18446744073709551615"), { value: 0, rest: "" });
    assert.equal(read("readU64", "18446744073709551616"), undefined);
    assert.equal(read("readU64", "184467440737095516151"), undefined);
    assert.equal(read("readU64", "9".repeat(48)), undefined);
  });
});

describe("NumberReader.readTimeout", () => {
  const rows: [text: string, value: number | undefined][] = [
    ["0", 0],
    ["0 abc", 0],
    ["0abc", 0],
    ["0.5", 0],
    ["0x1", 0],
    ["  3", 3],
    [`${TIMEOUT_SECONDS_MAX}`, TIMEOUT_SECONDS_MAX],
    [`${TIMEOUT_SECONDS_MAX + 1}`, undefined],
    ["4294967296", undefined],
    ["-1", Number.POSITIVE_INFINITY],
    ["  -1", Number.POSITIVE_INFINITY],
    ["-1 x", Number.POSITIVE_INFINITY],
    ["-1x", Number.POSITIVE_INFINITY],
    ["-10", undefined],
    ["-2", undefined],
    ["-", undefined],
    ["- 1", undefined],
    ["+0", undefined],
    ["", undefined],
    ["abc", undefined],
    ["\t0", undefined],
  ];
  for (const [text, value] of rows) {
    it(`reads ${JSON.stringify(text)} as ${value ?? "malformed"}`, () => {
      assert.equal(read("readTimeout", text)?.value, value);
    });
  }
});

describe("NumberReader.readUpTo", () => {
  const upTo = (text: string, max: number, at = 0, end = text.length): [boolean, number, number] => {
    const reader = new NumberReader();
    reader.at = at;
    const isNumber = reader.readUpTo(asciiBytes(text), end, max);
    return [isNumber, reader.value, reader.at];
  };

  it("reads digits at its place, up to the limit and the end", () => {
    assert.deepEqual(upTo("a12b", 12, 1), [true, 12, 3]);
    assert.deepEqual(upTo("129", 12, 0, 2), [true, 12, 2]);
    assert.deepEqual(upTo("000", 0), [true, 0, 3]);
    assert.deepEqual(upTo("9007199254740991", Number.MAX_SAFE_INTEGER)[1], Number.MAX_SAFE_INTEGER);
  });

  it("refuses larger numbers, and what has no digit", () => {
    for (const text of ["13", "012345", "", "x", " 1", "-1", "+1"])
      assert.equal(upTo(text, 12)[0], false, text);
    assert.equal(upTo("12", 12, 2)[0], false);
    assert.equal(upTo("12", 12, 0, 0)[0], false);
  });
});

describe("NumberReader looks at no byte behind the end", () => {
  it("for a sign, a blank or a digit", () => {
    const reader = new NumberReader();
    for (const [read, text, behind] of [
      ["readTimeout", "-", "1"],
      ["readTimeout", "", "-1"],
      ["readTimeout", " ", " 1"],
      ["readWait", "-", "1"],
      ["readWait", "", "-1"],
      ["readKickBound", "", "1"],
      ["readKickBound", "-", "1"],
      ["readU64", "", "0"],
      ["readDuration", "1.", "5"],
    ] as const) {
      reader.at = 0;
      assert.equal(reader[read](asciiBytes(text + behind), text.length), false, `${read} of "${text}"`);
    }
    for (const [read, text, behind] of [
      ["readU64", "0", "0"],
      ["readU64", "7", "1"],
      ["readDuration", "1", ".5"],
      ["readDuration", "1.5", "5"],
      ["readWait", "-1", "0"],
      ["readKickBound", "0", "0"],
    ] as const) {
      reader.at = 0;
      assert.equal(reader[read](asciiBytes(text + behind), text.length), true, `${read} of "${text}"`);
      assert.equal(reader.at, text.length, `${read} of "${text}"`);
    }
  });
});

describe("NumberReader.readKickBound", () => {
  const rows: [text: string, value: number | undefined][] = [
    ["1", 1],
    ["1 ", 1],
    ["1 2", 1],
    ["1x", 1],
    ["+1", 1],
    ["0x10", 0],
    [" \t1", 1],
    ["\v\f\r\n1", 1],
    ["0", 0],
    ["-0", 0],
    ["+0", 0],
    ["4294967295", U32_MAX],
    ["4294967296", U32_MAX],
    ["4294967298 junk", U32_MAX],
    ["9007199254740993", U32_MAX],
    ["18446744073709551615", U32_MAX],
    ["18446744073709551616", undefined],
    ["-1", U32_MAX],
    ["-18446744073709551615", U32_MAX],
    ["-18446744073709551616", undefined],
    ["x", undefined],
    ["", undefined],
    ["- 1", undefined],
    ["+-1", undefined],
    ["-", undefined],
  ];
  for (const [text, value] of rows) {
    it(`reads ${JSON.stringify(text)} as ${value ?? "malformed"}`, () => {
      assert.equal(read("readKickBound", text)?.value, value);
    });
  }
});
