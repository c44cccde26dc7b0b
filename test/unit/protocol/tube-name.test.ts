// Tests of tube names, patterns and lists of ids within other bytes.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes } from "../../../src/base/bytes.ts";
import { IdList } from "../../../src/protocol/number-reader.ts";
import { Span } from "../../../src/protocol/request.ts";
import { isEveryTube, isTubeName, isTubePattern, tubeNameEnd } from "../../../src/protocol/tube-name.ts";

const N200 = "a".repeat(200);

function span(text: string): Span {
  const all = new Span();
  all.set(asciiBytes(`7${text}8*`), 1, 1 + text.length);
  return all;
}

describe("tube names", () => {
  const isName = (text: string): boolean => {
    const { bytes, start, end } = span(text);
    return isTubeName(bytes, start, end);
  };
  const isPattern = (text: string): boolean => {
    const { bytes, start, end } = span(text);
    return isTubePattern(bytes, start, end);
  };

  it("have 1 to 200 bytes, the first no hyphen", () => {
    for (const name of ["a", "a-", N200]) assert.ok(isName(name), name);
    for (const name of ["", "-", "-a", `${N200}a`, "a*", "a b"]) assert.ok(!isName(name), name);
    assert.equal(tubeNameEnd(asciiBytes("ab cd"), 0, 5), 2);
    assert.equal(tubeNameEnd(asciiBytes("abcd"), 1, 3), 3);
    assert.equal(tubeNameEnd(asciiBytes(" abcd"), 0, 5), 0);
  });

  it("may end in a star as patterns", () => {
    for (const pattern of ["*", "a*", "a", `${N200}*`, N200]) assert.ok(isPattern(pattern), pattern);
    for (const pattern of ["", "**", "a**", "*a", "-*", "a*b", "a!", "!", `${N200}a*`])
      assert.ok(!isPattern(pattern));
  });

  it("have one that stands for all", () => {
    assert.ok(isEveryTube(span("*")));
    for (const other of ["", "a", "**", "a*", "*a"]) assert.ok(!isEveryTube(span(other)), other);
  });
});

describe("IdList", () => {
  function read(text: string): [number, string][] {
    const ids = new IdList(span(text));
    const found: [number, string][] = [];
    while (ids.next()) found.push([ids.id, ids.text]);
    assert.equal(ids.next(), false);
    return found;
  }

  it("gives each id as a number and as the client wrote it", () => {
    assert.deepEqual(read(" 1  0022 333"), [
      [1, "1"],
      [22, "0022"],
      [333, "333"],
    ]);
    assert.deepEqual(read(" 18446744073709551615"), [[0, "18446744073709551615"]]);
    assert.deepEqual(read("5"), [[5, "5"]]);
    assert.deepEqual(read(""), []);
    assert.deepEqual(read("  "), []);
  });

  it("begins where its bytes begin", () => {
    const ids = new IdList(span(" 41 42"));
    assert.equal(ids.id, 0);
    assert.ok(ids.next());
    assert.deepEqual([ids.start, ids.end], [2, 4]);
  });
});
