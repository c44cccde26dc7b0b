// Tests of the context of jobs: what the client sends and refuses, and what of a trace fits.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { checkOptionsBytes, metaOf, metaText, withContext } from "../../../src/client/meta.ts";
import { checkProperty } from "../../support/seeded-property.ts";

const TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/** What the server counts: each value and two bytes. */
const bytesOf = (options: string): number =>
  options.split(" meta=").reduce((sum, pair, index) => sum + (index === 0 ? 0 : pair.length + 2), 0);

describe("the client's meta", () => {
  it("is an option for each pair, in UTF-8", () => {
    assert.equal(metaText({}), "");
    assert.equal(metaText({ "a.B-1_": "x:y=z", none: "" }), " meta=a.B-1_:x:y=z meta=none:");
    assert.equal(metaText({ town: "köln" }), " meta=town:k\xc3\xb6ln");
    assert.equal(metaText({ a: "x".repeat(198) }).length, " meta=".length + 200);
  });

  it("refuses what the server would refuse, and names it", () => {
    const bad: Record<string, unknown>[] = [
      { "": "x" },
      { "a b": "x" },
      { "a:b": "x" },
      { é: "x" },
      { a: "b c" },
      { a: "b\r\ndelete 1" },
      { a: "x".repeat(199) },
      { a: "ü".repeat(100) },
      { a: "\ud800" },
      { a: 5 },
      { a: null },
    ];
    for (const meta of bad) {
      const [[name, value] = []] = Object.entries(meta);
      const names = (error: Error): boolean =>
        error instanceof TypeError &&
        error.message.startsWith(`meta ${JSON.stringify(name)}: ${JSON.stringify(value)}`);
      assert.throws(() => metaText(meta as Record<string, string>), names, JSON.stringify(meta));
    }
  });

  it("has a bound together with the other options", () => {
    const five = metaText(
      Object.fromEntries(["a", "b", "c", "d", "e"].map((name) => [name, "x".repeat(198)])),
    );
    checkOptionsBytes(`${five}${metaText({ f: "12345" })}`.slice(0, -1));
    checkOptionsBytes(five + metaText({ f: "123456" }));
    assert.throws(() => checkOptionsBytes(five + metaText({ f: "1234567" })), /1021 bytes.*at most 1020/);
    assert.throws(() => checkOptionsBytes(` unique=123456789${five}`), RangeError);
  });

  it("comes back as it was", (t) => {
    const name = fc.string({ unit: fc.constantFrom(..."aZ09-_."), minLength: 1, maxLength: 20 });
    const value = fc
      .string({ unit: "grapheme", maxLength: 20 })
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a value can't have
      .map((text) => text.replace(/[\x00-\x20\x7f]/g, ""));
    checkProperty(
      t,
      fc.property(fc.dictionary(name, value, { maxKeys: 8, noNullPrototype: true }), (meta) => {
        const pairs = metaText(meta).split(" meta=").slice(1);
        assert.deepEqual(metaOf(pairs), meta);
      }),
    );
    assert.deepEqual(metaOf(["a:1", "a:2"]), { a: "2" });
    assert.deepEqual(Object.keys(metaOf(["__proto__:x"])), ["__proto__"]);
  });

  it("takes the context of a trace as far as there is room", () => {
    const all = (options: string, context: Record<string, string>): string =>
      withContext(options, context).slice(options.length);
    assert.equal(all(" unique=a", { traceparent: TRACEPARENT }), ` meta=traceparent:${TRACEPARENT}`);
    assert.equal(all("", { tracestate: "a=1, b=2" }), " meta=tracestate:a=1,b=2");
    const members = Array.from({ length: 30 }, (_, index) => `key${index}=${"v".repeat(10)}`);
    const cut = all("", { tracestate: members.join(",") });
    assert.match(cut, /^ meta=tracestate:key0=v+,(?:key\d+=v{10},?)+(?<!,)$/);
    assert.ok(cut.length <= " meta=".length + 200 && cut.length > 180);
    assert.equal(all("", { tracestate: "a=b c" }), "", "a blank can't be sent");
    assert.equal(all("", { b3: "x".repeat(300), "x y": "z" }), "", "too long; no name");
    const full = metaText(Object.fromEntries(["a", "b", "c", "d"].map((name) => [name, "x".repeat(198)])));
    for (const unique of ["", ` unique=${"k".repeat(140)}`, ` unique=${"k".repeat(180)}`]) {
      const context = { traceparent: TRACEPARENT, tracestate: members.join(","), baggage: members.join(",") };
      const text = all(full + unique, context);
      assert.ok(bytesOf(full) + Math.max(0, unique.length - 6) + bytesOf(text) <= 1020, text);
      assert.equal(text.includes(TRACEPARENT), unique.length < 180);
    }
  });
});
