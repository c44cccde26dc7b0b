// Tests of the URL of a group.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseGroupUrl } from "../../../src/replica/group-url.ts";

const PLAIN = { servers: ["a:4222"], group: "G", tls: false, credentials: "", user: "", password: "" };

const READ = [
  ["nats://a/G", PLAIN],
  ["nats://a:1,b,c:3/G-1_x", { ...PLAIN, servers: ["a:1", "b:4222", "c:3"], group: "G-1_x" }],
  ["tls://a/G", { ...PLAIN, tls: true }],
  ["nats://a/G?creds=/etc/a%20b.creds", { ...PLAIN, credentials: "/etc/a b.creds" }],
  ["nats://u@a/G", { ...PLAIN, user: "u" }],
  ["nats://u:p@a/G", { ...PLAIN, user: "u", password: "p" }],
  ["nats://u:p:q@a/G", { ...PLAIN, user: "u", password: "p:q" }],
  ["nats://u%3a1:p%40@a/G", { ...PLAIN, user: "u:1", password: "p@" }],
] as const;

for (const [url, parts] of READ)
  test(`a group's URL ${url} is read whole`, () => assert.deepEqual(parseGroupUrl(url), parts));

test("a group's URL that can't be meant so is refused with what is wrong", () => {
  for (const url of ["", "a/G", "http://a/G", "nats://a", "nats:///G"])
    assert.throws(() => parseGroupUrl(url), /^Error: invalid URL: .* \(expected: nats:/);
  for (const group of ["", "a.b", "a/b", "x".repeat(33)])
    assert.throws(() => parseGroupUrl(`nats://a/${group}`), {
      message: new RegExp(`^invalid group: "${group}"`),
    });
  assert.throws(() => parseGroupUrl("nats://a/G?cred=x"), /unknown parameter .*: cred \(only creds=FILE/);
});
