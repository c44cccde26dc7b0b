// Tests of the options of a put over HTTP: each becomes its own option of the line, from the job or
// else from the query string.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Problem } from "../../../../src/http/api/problem.ts";
import { optionsOf } from "../../../../src/http/jobs/put-routes.ts";
import { OPTION_VALUE_BYTES_MAX } from "../../../../src/protocol/option-rows.ts";

type Options = Parameters<typeof optionsOf>[0];

/** For each option: its value, the option of the line, and another value with its option. */
const EACH: readonly (readonly [Options, string, Options, string])[] = [
  [{ unique: "schön" }, "unique=sch\xc3\xb6n", { unique: "other" }, "unique=other"],
  [{ uniqueFor: 1.5 }, "unique-for=1.5", { uniqueFor: 2 }, "unique-for=2"],
  [{ uniqueUntil: "reserve" }, "unique-until=reserve", { uniqueUntil: "delete" }, "unique-until=delete"],
  [{ onDuplicate: "keep" }, "on-duplicate=keep", { onDuplicate: "replace" }, "on-duplicate=replace"],
  [{ debounceMax: 3.0004 }, "debounce-max=3", { debounceMax: 4 }, "debounce-max=4"],
  [{ ttl: 5.25 }, "ttl=5.25", { ttl: 6 }, "ttl=6"],
  [{ group: "grün" }, "group=gr\xc3\xbcn", { group: "g" }, "group=g"],
  [{ weight: 7 }, "weight=7", { weight: 8 }, "weight=8"],
  [{ cost: 7 }, "cost=7", { cost: 8 }, "cost=8"],
  [{ batch: "import/7" }, "batch=import/7", { batch: "b" }, "batch=b"],
  [{ after: "import/6" }, "after=import/6", { after: "a" }, "after=a"],
  [{ afterAny: "import/5" }, "after-any=import/5", { afterAny: "c" }, "after-any=c"],
];
const KEY: Options = { unique: "k" };
const NEED_A_KEY = new Set(["uniqueFor", "uniqueUntil", "onDuplicate", "debounceMax"]);

const wordsOf = (text: string): string[] => text.split(" ").slice(1).sort();

const detailOf = (job: Options, query: Options = {}): string => {
  try {
    optionsOf(job, query);
    return "taken";
  } catch (error) {
    assert.ok(error instanceof Problem);
    assert.equal(error.code, "bad-request");
    return error.message;
  }
};

for (const [job, word, query, otherWord] of EACH)
  it(`${Object.keys(job)} comes from the job, or else from the query`, () => {
    const needsKey = NEED_A_KEY.has(Object.keys(job)[0]!);
    const key = needsKey ? KEY : {};
    const words = (text: string): string[] => [...(needsKey ? ["unique=k"] : []), text].sort();
    assert.deepEqual(wordsOf(optionsOf({ ...job, ...key }, {})), words(word));
    assert.deepEqual(wordsOf(optionsOf({}, { ...query, ...key })), words(otherWord));
    assert.deepEqual(wordsOf(optionsOf({ ...job, ...key }, query)), words(word), "the job's counts");
    if (needsKey) assert.match(detailOf(job), /need a key in "\/unique"/);
    if (needsKey) assert.match(detailOf({}, query), /need a key in "\/unique"/);
  });

it("all options together become a line, and none of them nothing", () => {
  assert.equal(optionsOf({}, {}), "");
  const [all, words] = [EACH.map(([job]) => job), EACH.map(([, word]) => word)];
  const { afterAny: _, ...job } = Object.assign({}, ...all) as Options;
  const meta = { city: "köln", traceparent: "00-1-2-01" };
  assert.deepEqual(
    wordsOf(optionsOf({ ...job, meta }, {})),
    [
      ...words.filter((word) => !word.startsWith("after-any")),
      "meta=city:k\xc3\xb6ln",
      "meta=traceparent:00-1-2-01",
    ].sort(),
  );
});

it("a job waits for one batch", () => {
  for (const [job, query] of [
    [{ after: "a", afterAny: "b" }, {}],
    [{ after: "a" }, { afterAny: "b" }],
    [{ afterAny: "a" }, { after: "b" }],
  ] as const)
    assert.match(detailOf(job, query), /one batch/);
});

it("a key, a group and each value of the context fit into a line, and into an option", () => {
  const most = "x".repeat(OPTION_VALUE_BYTES_MAX);
  for (const field of ["unique", "group"] as const) {
    assert.equal(optionsOf({ [field]: most }, {}), ` ${field}=${most}`);
    const bad = [`${most}x`, `ö${most.slice(1)}`, "a b", "a\u007f", "a\nb", "a\u0000", "\ud800"];
    for (const value of bad) assert.match(detailOf({ [field]: value }), new RegExp(`^"/${field}" must be`));
  }
  const fits = "x".repeat(OPTION_VALUE_BYTES_MAX - "name:".length);
  assert.equal(optionsOf({ meta: { name: fits } }, {}), ` meta=name:${fits}`);
  assert.match(detailOf({ meta: { name: `${fits}x` } }), /^"\/meta\/name" must be/);
});

it("a duration below a millisecond is refused, and none is 0", () => {
  for (const field of ["uniqueFor", "debounceMax", "ttl"] as const) {
    assert.match(detailOf({ ...KEY, [field]: 0.0009 }), new RegExp(`"/${field}" must be 0 or at least`));
    assert.match(optionsOf({ ...KEY, [field]: 0.001 }, {}), /=0\.001$/);
    assert.match(optionsOf({ ...KEY, [field]: 0 }, {}), /=0$/);
  }
});
