// Tests of a put that is kept until its body has arrived.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Request } from "../../../src/protocol/request.ts";

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
