// Tests of options as they travel to a shard.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes } from "../../../src/base/bytes.ts";
import { OPTIONS_BYTES_MAX, OptionTag } from "../../../src/protocol/option-rows.ts";
import {
  nextOption,
  numberAt,
  OptionWriter,
  optionNumber,
  optionText,
} from "../../../src/protocol/options.ts";
import { Span } from "../../../src/protocol/request.ts";
import { SETTINGS } from "../../../src/schema/setting.ts";

const TEXT = asciiBytes("[mails]");
const writer = new OptionWriter();

function written(): Span {
  const into = new Span();
  writer.finish(into);
  return into;
}

it("the tags of settings are their own, and fit into a byte", () => {
  const settings = new Set<number>(SETTINGS.map(({ tag }) => tag));
  assert.equal(settings.size, SETTINGS.length);
  for (const tag of Object.values(OptionTag)) assert.ok(!settings.has(tag), `${tag}`);
  assert.ok(Math.max(...settings) <= 255);
});

describe("OptionWriter", () => {
  it("writes a tag, a length and a value, and zeros up to a multiple of 4", () => {
    writer.begin();
    assert.ok(writer.text(OptionTag.Tube, TEXT, 1, 6));
    assert.ok(writer.number(OptionTag.Pri, 1));
    const { bytes, start, end } = written();
    assert.deepEqual(
      [...bytes.subarray(start, end)],
      [OptionTag.Tube, 5, ...asciiBytes("mails"), OptionTag.Pri, 8, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0],
    );
  });

  it("knows which it has, and forgets them for the next line", () => {
    writer.begin();
    assert.ok(!writer.has(OptionTag.Pri));
    writer.number(OptionTag.Pri, 1);
    writer.text(OptionTag.Tube, TEXT, 1, 1);
    assert.ok(writer.has(OptionTag.Pri) && writer.has(OptionTag.Tube) && !writer.has(OptionTag.Ttl));
    writer.begin();
    assert.ok(!writer.has(OptionTag.Pri));
    assert.equal(written().length, 0);
  });

  it("takes 1020 bytes in all", () => {
    const long = new Uint8Array(255).fill(0x61);
    writer.begin();
    for (let i = 0; i < 3; i++) assert.ok(writer.text(OptionTag.Meta, long, 0, 250));
    // 756 bytes so far.
    assert.ok(writer.text(OptionTag.Meta, long, 0, 254));
    assert.ok(!writer.number(OptionTag.Pri, 1), "8 bytes left");
    assert.ok(!writer.text(OptionTag.Meta, long, 0, 7));
    assert.ok(writer.text(OptionTag.Meta, long, 0, 6));
    assert.ok(!writer.text(OptionTag.Meta, long, 0, 0));
    assert.equal(written().length, OPTIONS_BYTES_MAX);
  });
});

describe("numbers", () => {
  it("are whole, whatever was read before", () => {
    const options = new Span();
    for (const value of [2 ** 53 - 1, 0.1, 0, -1.7, 2 ** 52 + 255, 1]) {
      writer.begin();
      writer.number(OptionTag.Pri, value);
      writer.finish(options);
      assert.equal(optionNumber(options, OptionTag.Pri), value);
    }
  });
});

describe("options that have arrived", () => {
  const options = new Span();
  const place = new Uint8Array(64).fill(0xaa);

  function place3(): void {
    writer.begin();
    writer.number(OptionTag.Pri, 4294967295);
    writer.text(OptionTag.Tube, TEXT, 1, 6);
    writer.number(OptionTag.Ttl, 1500.25);
    const end = written().copyTo(place, 5);
    options.set(place, 5, end);
  }

  it("are found by their tag, wherever they lie", () => {
    place3();
    assert.equal(optionNumber(options, OptionTag.Pri), 4294967295);
    assert.equal(optionNumber(options, OptionTag.Ttl), 1500.25);
    assert.equal(Buffer.from(optionText(options, OptionTag.Tube)!).toString(), "mails");
    assert.equal(optionNumber(options, OptionTag.Delay), undefined);
    assert.equal(optionText(options, OptionTag.Group), undefined);
    // A tag that only other bytes have, and one beyond the end.
    assert.equal(optionText(options, "m".charCodeAt(0) as OptionTag), undefined);
    place.fill(OptionTag.Delay, options.end);
    assert.equal(optionText(options, OptionTag.Delay), undefined);
  });

  it("are read one after the other up to the padding", () => {
    place3();
    const { bytes, start, end } = options;
    const first = nextOption(bytes, start, end);
    assert.deepEqual([first, bytes[first - 2], bytes[first - 1]], [start + 2, OptionTag.Pri, 8]);
    assert.equal(numberAt(bytes, first), 4294967295);
    const second = nextOption(bytes, first + 8, end);
    assert.deepEqual([bytes[second - 2], bytes[second - 1]], [OptionTag.Tube, 5]);
    const third = nextOption(bytes, second + 5, end);
    assert.equal(numberAt(bytes, third), 1500.25);
    assert.equal(nextOption(bytes, third + 8, end), -1);
    assert.equal(nextOption(bytes, end, end), -1);
    assert.equal(nextOption(bytes, end - 1, end), -1);
    assert.equal(nextOption(asciiBytes("ab"), 0, 2), 2, "an empty value at the end");
  });
});
