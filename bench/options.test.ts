// Tests of the bench's command line.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseOptions } from "./options.ts";

const parse = (...args: string[]) => parseOptions("bench", "", args);

test("parseOptions: --theirs may repeat; the default is beanstalkd, --no-theirs means none", () => {
  assert.deepEqual(parse().theirs, ["beanstalkd"]);
  assert.deepEqual(parse("--theirs", "beanstalkd", "--theirs", "fork=/x/beanstalkd -D").theirs, [
    "beanstalkd",
    "fork=/x/beanstalkd -D",
  ]);
  assert.equal(parse("--no-theirs").theirs, false);
});

test("parseOptions: --burn is a number of processes", () => {
  assert.equal(parse().burn, undefined);
  assert.equal(parse("--burn", "2").burn, 2);
});
