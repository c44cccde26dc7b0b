// Tests of what the validator says about a request: which field is wrong, and what it may be.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { validator } from "../../../../src/http/app/validator.ts";

const Job = Type.Object(
  {
    pri: Type.Optional(Type.Integer({ minimum: 0, maximum: 10 })),
    body: Type.Optional(Type.String()),
  },
  { additionalProperties: false },
);
const Batch = Type.Object({ jobs: Type.Array(Job, { minItems: 1 }) }, { additionalProperties: false });
const check = validator(Type.Union([Batch, Job]), false);

function faultOf(value: unknown): string {
  const result = check(value);
  assert.ok("error" in result, JSON.stringify(value));
  return result.error.message;
}

it("A fault is told of the alternative that is meant, with the value and what is allowed", () => {
  assert.equal(faultOf({ pri: -1 }), '"/pri" must be at least 0, not -1.');
  assert.equal(faultOf({ pri: 11 }), '"/pri" must be at most 10, not 11.');
  assert.equal(faultOf({ pri: "5" }), '"/pri" must be a whole number, not "5".');
  assert.equal(faultOf({ bdy: "x" }), '"/bdy" is unknown; allowed: pri, body.');
  assert.equal(faultOf({ jobs: [{}, { bdy: 1 }] }), '"/jobs/1/bdy" is unknown; allowed: pri, body.');
  assert.equal(faultOf({ jobs: [] }), '"/jobs" must not have fewer than 1 items.');
  assert.equal(faultOf([]), "The request must be an object.");
  assert.equal(faultOf({ pri: "x".repeat(1000) }), '"/pri" must be a whole number.');
});

it("A fault repeats nothing that may be a secret", () => {
  const login = validator(Type.Object({ token: Type.String({ maxLength: 5 }) }), false);
  for (const given of [{ token: "secret" }, { token: 123456 }, "secret", ["secret"]]) {
    const result = login(given);
    assert.ok("error" in result);
    assert.doesNotMatch(result.error.message, /secret|123456/);
  }
});

it("A valid request is what was given", () => {
  const given = { jobs: [{ pri: 3 }] };
  assert.deepEqual(check(given), { value: given });
});

it("Many unknown fields are told in one short error, wherever they are", () => {
  const crowd = (fields: number) =>
    Object.fromEntries(Array.from({ length: fields }, (_, i) => [`k${i}`, i]));
  assert.equal(faultOf(crowd(33)), "The request has many unknown fields, such as k0, k1, k2.");
  assert.equal(faultOf({ pri: 1, ...crowd(32) }), '"/k0" is unknown; allowed: pri, body.');
  const inside = { jobs: [{ pri: 1 }, crowd(1000)] };
  assert.equal(faultOf(inside), '"/jobs/1" has many unknown fields, such as k0, k1, k2.');
  const long = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`${i}${"x".repeat(1000)}`, i]));
  assert.equal(faultOf(long), "The request has many unknown fields.");
});

it("the items of a list with too many are not examined again for an error", () => {
  let examined = 0;
  const item = new Proxy(
    {},
    {
      ownKeys: () => {
        examined++;
        return [];
      },
    },
  );
  const lists = Type.Object({ all: Type.Array(Type.Array(Job, { maxItems: 2 }), { maxItems: 10 }) });
  for (const [all, fault] of [
    [Array(1000).fill([item]), '"/all" must not have more than 10 items.'],
    [[[], Array(1000).fill(item)], '"/all/1" must not have more than 2 items.'],
  ] as const) {
    examined = 0;
    assert.equal(Compile(lists).Check({ all }), false);
    const once = examined;
    const result = validator(lists, false)({ all });
    assert.ok("error" in result);
    assert.equal(result.error.message, fault);
    assert.equal(examined, 2 * once);
  }
});

it("a request is refused, however deep it is", () => {
  const deep: unknown = JSON.parse("[".repeat(100_000) + "]".repeat(100_000));
  for (const value of [deep, { id: 1, batch: deep }, { jobs: deep }]) assert.ok("error" in check(value));
});
