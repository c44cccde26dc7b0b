// Tests that values are found in the text of requests as they were written, wherever they are and
// whatever surrounds them.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { Problem } from "../../../../src/http/api/problem.ts";
import { jsonText, jsonValues } from "../../../../src/http/app/request-bodies.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

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
