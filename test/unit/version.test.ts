import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { VERSION } from "../../src/server/version.ts";

test("VERSION is the package's, of the form A.B.C that clients parse", () => {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  assert.equal(VERSION, version);
  assert.match(VERSION, /^\d+\.\d+\.\d+$/);
});
