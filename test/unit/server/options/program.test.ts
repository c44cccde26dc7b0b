import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { VERSION } from "../../../../src/server/options/program.ts";

test("VERSION is the package's, in the form A.B.C that clients parse", () => {
  const { version } = JSON.parse(readFileSync(new URL("../../../../package.json", import.meta.url), "utf8"));
  assert.equal(VERSION, version);
  assert.match(VERSION, /^\d+\.\d+\.\d+$/);
});

test("VERSION passes for a beanstalkd of 1.4.4 or later, which a client for Java demands", () => {
  const [major, minor, patch] = VERSION.split(".").map(Number) as [number, number, number];
  assert.ok(major * 1e6 + minor * 1e3 + patch >= 1_004_004, VERSION);
});
