// Tests of a request that is kept, copied and used again.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Request, Span } from "../../../src/protocol/request.ts";

test("beginPut: keeps tube and options until the next put, even if the line's bytes change", () => {
  const line = Buffer.from("mails-of-all unique=1234");
  const said = new Request();
  const kept = new Request();
  said.tube.set(line, 0, 12);
  said.options.set(line, 13, 24);
  kept.beginPut(said);
  line.fill("#");
  assert.deepEqual([kept.tube.text, kept.options.text], ["mails-of-all", "unique=1234"]);
  const copy = kept.clone();
  const next = Buffer.from("jobs");
  said.tube.set(next, 0, 4);
  said.options.clear();
  kept.beginPut(said);
  assert.deepEqual([kept.tube.text, kept.options.text], ["jobs", ""]);
  assert.deepEqual([copy.tube.text, copy.options.text], ["mails-of-all", "unique=1234"]);
});

test("beginPut: takes the numbers of the put, and nothing of an earlier one", () => {
  const said = new Request();
  Object.assign(said, { op: 3, flags: 9, counted: 8, slot: 7, id: 1, pri: 2, delaySeconds: 3 });
  Object.assign(said, { delayMillis: 4, ttrSeconds: 5, bodyBytes: 6, atMs: 7.5 });
  const kept = new Request();
  kept.flags = 1;
  kept.beginPut(said);
  const { op, flags, id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes, atMs } = kept;
  assert.deepEqual([op, flags, id, pri], [3, 0, 1, 2]);
  assert.deepEqual([delaySeconds, delayMillis, ttrSeconds, bodyBytes, atMs], [3, 4, 5, 6, 7.5]);
});

test("begin: clears all but the slot", () => {
  const request = new Request();
  const fresh: Record<string, unknown> = { ...request, op: 5, slot: 7 };
  for (const [name, value] of Object.entries(request))
    if (typeof value === "number") Object.assign(request, { [name]: 7 });
  for (const span of [request.tube, request.options, request.body]) span.set(Buffer.from("abc"), 1, 3);
  assert.equal(request.begin(5), request);
  for (const [name, value] of Object.entries(request))
    if (typeof value === "number") assert.equal(value, fresh[name], name);
  for (const span of [request.tube, request.options, request.body])
    assert.deepEqual([span.start, span.end, span.text], [0, 0, ""]);
});

test("clone: has numbers and bytes of its own", () => {
  const line = Buffer.from("[body]");
  const request = new Request();
  request.begin(5).pri = 7;
  request.body.set(line, 1, 5);
  const copy = request.clone();
  line.fill("#");
  request.begin(6);
  assert.deepEqual([copy.op, copy.pri, copy.body.text], [5, 7, "body"]);
});

test("Span: is a part of its bytes, and copies exactly that part", () => {
  const span = new Span();
  assert.deepEqual([span.length, span.text], [0, ""]);
  span.set(Buffer.from("[mails]"), 1, 6);
  assert.deepEqual([span.length, span.text], [5, "mails"]);
  const target = Buffer.from("..........");
  assert.equal(span.copyTo(target, 2), 7);
  assert.equal(target.toString(), "..mails...");
  const copy = new Span();
  copy.copyOf(span);
  span.set(Buffer.from("-sms-"), 1, 4);
  assert.equal(copy.text, "mails");
  const memory = copy.bytes;
  copy.copyOf(span);
  assert.deepEqual([copy.text, copy.bytes === memory], ["sms", true]);
  span.set(Buffer.from("[slams]"), 1, 6);
  copy.copyOf(span);
  assert.deepEqual([copy.text, copy.bytes === memory], ["slams", true]);
  copy.clear();
  assert.deepEqual([copy.length, copy.text], [0, ""]);
});
