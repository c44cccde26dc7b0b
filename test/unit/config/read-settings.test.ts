// Tests of the line numbers of keys in TOML, in every notation.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nearestWord, type Path, TomlSource } from "../../../src/config/read-settings.ts";

const TEXT = `# comment
port = 1

many = [
  "a",
  "b",
]
text = """
port = 2
"""
dotted.key = 3
[http] # [listen]
listen = "x"
tls = { cert = "c", key = "k" }
[[listen]]
address = "a"
[[listen]]
address = "b"
[listen.tls]
cert = "c"
`;

function sourceOf(text: string): TomlSource {
  const source = TomlSource.read(text);
  assert.ok(source instanceof TomlSource, JSON.stringify(source));
  return source;
}

describe("TomlSource.lineOf", () => {
  const source = sourceOf(TEXT);
  for (const [path, line] of [
    [["port"], 2],
    [["many"], 4],
    [["text"], 8],
    [["dotted", "key"], 11],
    [["http"], 12],
    [["http", "listen"], 13],
    [["http", "tls", "key"], 14],
    [["listen", 0], 15],
    [["listen", 0, "address"], 16],
    [["listen", 1], 17],
    [["listen", 1, "address"], 18],
    [["listen", 1, "tls", "cert"], 20],
    [["listen", 1, "nothing"], 17],
    [["nothing"], 0],
  ] as [Path, number][]) {
    it(`finds ${path.join(".")}`, () => assert.equal(source.lineOf(path), line));
  }
});

describe("TomlSource.read", () => {
  it("reports line and cause of bad syntax", () => {
    const fault = TomlSource.read("a = 1\nb = \n");
    assert.ok(!(fault instanceof TomlSource));
    assert.equal(fault.line, 2);
    assert.match(fault.message, /^invalid value$/);
  });

  it("refuses a file that is too large", () => {
    const fault = TomlSource.read(`a = "${"x".repeat(300_000)}"`);
    assert.ok(!(fault instanceof TomlSource));
    assert.match(fault.message, /larger than/);
  });

  it("counts bytes, however many a character takes", () => {
    const fits = `a = "${"é".repeat((256 * 1024 - 6) / 2)}"`;
    assert.equal(Buffer.byteLength(fits), 256 * 1024);
    assert.ok(TomlSource.read(fits) instanceof TomlSource);
    assert.deepEqual(TomlSource.read(`${fits}\n`), { line: 0, message: "is larger than 262144 bytes" });
  });
});

// Tests of the nearest known word for an unknown one.

const WORDS = ["max-memory", "max-connections", "port", "listen", "shards"];

describe("nearestWord", () => {
  for (const [word, nearest] of [
    ["max-memoy", "max-memory"],
    ["shardz", "shards"],
    ["prot", "port"],
    ["lissten", "listen"],
    ["something-else-altogether", undefined],
    ["", undefined],
  ] as const) {
    it(`suggests ${nearest} for "${word}"`, () => assert.equal(nearestWord(word, WORDS), nearest));
  }
});
