// Tests that a job that a lease gets has each of the facts in its line.

import assert from "node:assert/strict";
import { it } from "node:test";
import { reservedJob } from "../../../../src/http/queue/reservations.ts";

const body = Buffer.from("hello");
const FACTS = {
  ...{ id: 2 ** 40 + 1, tube: "mails", reserves: 3, pri: 4_294_967_295, ttr: 5, timeLeftMs: -678 },
  ...{ ageMs: 9012, timeouts: 6, releases: 7, buries: 8, kicks: 10, disconnects: 11, body },
};
const LINE = `RESERVED ${FACTS.id} 5 4294967295 5 -678 9012 3 6 7 8 10 11 mails`;

it("a reserved job has each of its facts, and its context", () => {
  assert.deepEqual(reservedJob({ line: LINE, body }), { ...FACTS, meta: [] });
  assert.deepEqual(reservedJob({ line: `${LINE} meta=a:b meta=c:d=e`, body }), {
    ...FACTS,
    meta: ["a:b", "c:d=e"],
  });
});

it("other replies bring no job", () => {
  for (const line of ["TIMED_OUT", "DEADLINE_SOON", "RESERVEDX 1"])
    assert.equal(reservedJob({ line, body: undefined }), undefined);
  assert.equal(reservedJob({ line: LINE, body: undefined }), undefined);
  assert.equal(reservedJob({ line: "OK 5", body }), undefined);
});
