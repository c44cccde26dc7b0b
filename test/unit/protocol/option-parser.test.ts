// Tests of the options at the end of a line: which values each kind takes, and how many fit.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes } from "../../../src/base/bytes.ts";
import { mayHaveReason, OptionParser, OptionsSyntax } from "../../../src/protocol/option-parser.ts";
import { OptionKind, type OptionRow, OptionTag } from "../../../src/protocol/option-rows.ts";
import { optionNumber, optionText } from "../../../src/protocol/options.ts";
import { Span } from "../../../src/protocol/request.ts";

const { Ok, Bad, Unknown } = OptionsSyntax;

// biome-ignore format: a table
const ROWS: readonly OptionRow[] = [
  { name: "n", tag: OptionTag.Limit, kind: OptionKind.Number, min: 2, max: 1000, usage: "" },
  { name: "any", tag: OptionTag.Bytes, kind: OptionKind.Number, usage: "" },
  { name: "wait", tag: OptionTag.Delay, kind: OptionKind.Duration, usage: "" },
  { name: "text", tag: OptionTag.Contains, kind: OptionKind.Text, usage: "" },
  { name: "word", tag: OptionTag.Missed, kind: OptionKind.Word, words: ["once", "all"], usage: "" },
  { name: "words", tag: OptionTag.State, kind: OptionKind.Words, words: ["ready", "delayed", "buried"], usage: "" },
  { name: "key", tag: OptionTag.Unique, kind: OptionKind.Key, excludes: OptionTag.Group, usage: "" },
  { name: "other-key", tag: OptionTag.Group, kind: OptionKind.Key, excludes: OptionTag.Unique, usage: "" },
  { name: "tube", tag: OptionTag.Tube, kind: OptionKind.Tube, usage: "" },
  { name: "rate", tag: OptionTag.Every, kind: OptionKind.Rate, mayBeEmpty: true, usage: "" },
  { name: "pair", tag: OptionTag.Meta, kind: OptionKind.Pair, repeats: true, usage: "" },
];

const parser = new OptionParser();
const options = new Span();

/** Parses with other text around the options. */
function parse(text: string, schedule?: Span): OptionsSyntax {
  const bytes = asciiBytes(`n=1${text}9 n=1`);
  return parser.parse(bytes, 3, 3 + text.length, ROWS, options, schedule);
}

function number(text: string, tag: OptionTag): number | undefined {
  assert.equal(parse(text), Ok, text);
  return optionNumber(options, tag);
}

function text(line: string, tag: OptionTag): string {
  assert.equal(parse(line), Ok, line);
  return Buffer.from(optionText(options, tag)!).toString("latin1");
}

function bad(lines: readonly string[]): void {
  for (const line of lines) assert.equal(parse(line), Bad, JSON.stringify(line));
}

const N200 = "a".repeat(200);

describe("OptionParser", () => {
  it("takes options in any order, with any blanks before each and none behind the last", () => {
    assert.equal(parse(""), Ok);
    assert.equal(options.length, 0);
    assert.equal(parse("  wait=1.5   n=7"), Ok);
    assert.equal(optionNumber(options, OptionTag.Delay), 1500);
    assert.equal(optionNumber(options, OptionTag.Limit), 7);
    assert.equal(optionNumber(options, OptionTag.Bytes), undefined);
    assert.equal(options.length % 4, 0);
    bad([" ", " n=7 ", "n=7", " n=7\tany=1", "\tn=7"]);
  });

  it("takes each once, unless it may be repeated", () => {
    bad([" n=7 n=7", " rate= rate=", " rate=1/1 rate=", " key=a key=b"]);
    assert.equal(text(" pair=a:1 pair=b:2", OptionTag.Meta), "a:1");
  });

  it("refuses two that exclude each other", () => {
    bad([" key=a other-key=b", " other-key=b key=a"]);
    assert.equal(parse(" key=a n=7"), Ok);
  });

  it("names an unknown option, and nothing that is no name", () => {
    for (const name of ["m", "nn", "wor", "words-", "a".repeat(32), "z-a"]) {
      assert.equal(parse(` ${name}=1`), Unknown, name);
      assert.equal(parser.unknown.text, name);
    }
    bad([" m", " =1", " N=1", " n1=1", " n =1", ` ${"a".repeat(33)}=1`, " {=1", " `=1", " n", " n:1"]);
    // Its equals sign is beyond the end.
    const bytes = asciiBytes(" n=7");
    assert.equal(parser.parse(bytes, 0, 2, ROWS, options), Bad);
    assert.equal(parser.parse(asciiBytes(" m=7"), 0, 2, ROWS, options), Bad);
  });

  it("takes values of 200 bytes, and none of 0 but where that removes a setting", () => {
    assert.equal(text(` key=${N200}`, OptionTag.Unique), N200);
    bad([` key=${N200}a`, " key=", " n=", " tube="]);
    assert.equal(text(" rate=", OptionTag.Every), "");
    assert.equal(text(" rate= n=7", OptionTag.Every), "");
    assert.equal(optionNumber(options, OptionTag.Limit), 7);
  });

  it("takes as many as fit into 1020 bytes", () => {
    // Each takes its value and two bytes.
    const pair = ` pair=a:${"x".repeat(198)}`;
    assert.equal(parse(pair.repeat(5)), Ok);
    assert.equal(options.length, 5 * 202 + 2);
    assert.equal(parse(`${pair.repeat(5)} pair=a:12345`), Ok, "1019 bytes");
    assert.equal(options.length, 1020);
    assert.equal(parse(`${pair.repeat(5)} pair=a:123456`), Ok, "1020 bytes");
    assert.equal(options.length, 1020);
    bad([`${pair.repeat(5)} pair=a:1234567`, `${pair.repeat(5)} n=7 any=1`, pair.repeat(6)]);
    assert.equal(parse(`${pair.repeat(5)} pair=a:123456 rate=`), Bad);
  });

  it("puts the name of a schedule before them", () => {
    const name = new Span();
    name.set(asciiBytes("(nightly)"), 1, 8);
    assert.equal(parse(" n=7", name), Ok);
    assert.equal(options.bytes[options.start], OptionTag.Schedule);
    assert.equal(Buffer.from(optionText(options, OptionTag.Schedule)!).toString(), "nightly");
    assert.equal(optionNumber(options, OptionTag.Limit), 7);
    assert.equal(parse(" n=7"), Ok);
    assert.equal(optionText(options, OptionTag.Schedule), undefined);
  });
});

describe("OptionParser reads", () => {
  it("numbers within their limits", () => {
    assert.equal(number(" n=2", OptionTag.Limit), 2);
    assert.equal(number(" n=0001000", OptionTag.Limit), 1000);
    assert.equal(number(" any=0", OptionTag.Bytes), 0);
    assert.equal(number(" any=4294967295", OptionTag.Bytes), 4294967295);
    bad([" n=1", " n=1001", " any=4294967296", " n=-2", " n=+2", " n=2x", " n=x", " n=2.0", " n=/", " n=:"]);
  });

  it("durations to the millisecond", () => {
    assert.equal(number(" wait=0", OptionTag.Delay), 0);
    assert.equal(number(" wait=4294967295.999", OptionTag.Delay), 4294967295999);
    assert.equal(number(" wait=0.05", OptionTag.Delay), 50);
    bad([" wait=1.", " wait=1.0000", " wait=.5", " wait=1s", " wait=4294967296", " wait=-1", " wait=1.5.5"]);
  });

  it("texts in which %XX is a byte", () => {
    assert.equal(text(" text=a%20b%0Ac%ff%C3", OptionTag.Contains), "a b\nc\u00ff\u00c3");
    assert.equal(text(" text=%00", OptionTag.Contains), "\0");
    assert.equal(text(" text=%7e", OptionTag.Contains), "~");
    bad([
      " text=%",
      " text=%4",
      " text=%4g",
      " text=%g4",
      " text=%-1",
      " text=% 1",
      " text=a\x7f",
      " text=\x1f",
    ]);
    bad([" text=%zz", " text=a%"]);
  });

  it("one word, or several with commas", () => {
    assert.equal(number(" word=once", OptionTag.Missed), 0);
    assert.equal(number(" word=all", OptionTag.Missed), 1);
    bad([" word=al", " word=alle", " word=once,all", " word=ALL", " word=,"]);
    assert.equal(number(" words=ready", OptionTag.State), 1);
    assert.equal(number(" words=buried", OptionTag.State), 4);
    assert.equal(number(" words=buried,ready", OptionTag.State), 5);
    assert.equal(number(" words=delayed,buried,ready", OptionTag.State), 7);
    assert.equal(number(" words=ready,ready", OptionTag.State), 1);
    bad([" words=ready,", " words=,ready", " words=ready,,buried", " words=reserved", " words=ready;buried"]);
  });

  it("keys without control characters", () => {
    assert.equal(text(" key=a%20=\u00ff!~", OptionTag.Unique), "a%20=\u00ff!~");
    assert.equal(
      parser.parse(asciiBytes(" key=a\r\n"), 0, 6, ROWS, options),
      Ok,
      "the end of a line follows",
    );
    bad([" key=a\x7f", " key=\x1fa", " key=a\t"]);
  });

  it("tubes", () => {
    assert.equal(text(" tube=mails-eu", OptionTag.Tube), "mails-eu");
    bad([" tube=-x", " tube=a*", " tube=a,b"]);
  });

  it("rates of whole numbers above 0", () => {
    for (const rate of ["1/1", "4294967295/4294967295"])
      assert.equal(text(` rate=${rate}`, OptionTag.Every), rate);
    bad([
      " rate=0/1",
      " rate=1/0",
      " rate=1",
      " rate=1/",
      " rate=/1",
      " rate=1/1/1",
      " rate=1:1",
      " rate=1/1x",
    ]);
    bad([" rate=4294967296/1", " rate=1/4294967296"]);
    assert.equal(parser.parse(asciiBytes(" rate=1/"), 0, 8, ROWS, options), Bad);
  });

  it("pairs of a name and a value, which may be empty", () => {
    for (const pair of ["a:", "trace-id:x=:y", "A_z.Z-09:\u00e9", "Z:1", "a:1", "0:", "9:", "_:", ".:", "-:"])
      assert.equal(text(` pair=${pair}`, OptionTag.Meta), pair);
    bad([" pair=:1", " pair=a", " pair=a b:1", " pair=a/b:1", " pair=@:1", " pair=[:1", " pair=a:\x7f"]);
    // The byte before 0 and that after 9, those around the letters, and one that isn't ASCII.
    bad([" pair=/:1", " pair=;:1", " pair=`:1", " pair={:1", " pair=\u00e9:1"]);
    // Its colon is beyond the end.
    assert.equal(parser.parse(asciiBytes(" pair=a:"), 0, 7, ROWS, options), Bad);
  });
});

describe("OptionParser.reason", () => {
  const reason = (line: string, end = line.length): string | undefined => {
    const into = new Span();
    return parser.reason(asciiBytes(line), 1, end, into) ? into.text : undefined;
  };

  it("reads exactly one reason up to the end", () => {
    assert.equal(reason("1 reason=x"), "x");
    assert.equal(reason("1   reason=a%3db"), "a=b");
    for (const line of [
      "1 reason=",
      "1reason=x",
      "1 reason=x ",
      "1 reason=x y",
      "1 Reason=x",
      "1 reasons=x",
      "1 ",
    ])
      assert.equal(reason(line), undefined, line);
    assert.equal(reason("1 reason=xyz", 10), "x");
    assert.equal(reason("1 reason=xyz", 9), undefined);
  });

  it("takes 1024 bytes", () => {
    const long = "r".repeat(1024);
    assert.equal(reason(`1 reason=${long}`), long);
    assert.equal(reason(`1 reason=${long}r`), undefined);
    assert.equal(reason(`1 reason=${long}${long}`), undefined);
  });

  it("is looked for behind a blank only", () => {
    const looked = (line: string, start = 0, end = line.length): boolean =>
      mayHaveReason(asciiBytes(line), start, end);
    assert.ok(looked("bury 1 2 reason=x"));
    assert.ok(looked(" reason="));
    assert.ok(!looked("bury 1 2reason=x"));
    assert.ok(!looked("bury 1 2 reason"));
    assert.ok(!looked("bury reason=x", 5));
    assert.ok(!looked("bury reason=x", 0, 11));
  });
});
