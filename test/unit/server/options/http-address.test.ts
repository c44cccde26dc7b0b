import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  describeHttpAddress,
  isLoopback,
  parseHttpAddress,
} from "../../../../src/server/options/http-settings.ts";
import { parseOptions } from "../../../../src/server/options/options.ts";

describe("the address of --http", () => {
  for (const [text, expected] of [
    ["127.0.0.1:11380", "127.0.0.1:11380"],
    ["127.0.0.1", "127.0.0.1:11380"],
    ["8080", "127.0.0.1:8080"],
    [":8080", "127.0.0.1:8080"],
    ["localhost:0", "localhost:0"],
    ["[::1]:1", "[::1]:1"],
    ["[::1]", "[::1]:11380"],
    ["queue.example.org:80", "queue.example.org:80"],
    ["unix:/run/rb.sock", "unix:/run/rb.sock"],
  ] as const)
    it(`${text} is ${expected}`, () => assert.equal(describeHttpAddress(parseHttpAddress(text)), expected));

  for (const text of ["127.0.0.1:99999", "::1", "a b", "http://localhost", "[::1", "unix:", "a:b"])
    it(`${text} is refused`, () => assert.throws(() => parseHttpAddress(text), /invalid address: --http/));

  it("is either local or reachable", () => {
    for (const text of ["127.0.0.1", "127.1.2.3", "localhost", "[::1]", "unix:/a"])
      assert.ok(isLoopback(parseHttpAddress(text)), text);
    for (const text of ["0.0.0.0", "[::]:1", "10.0.0.1", "127.0.0.1.example.org", "queue.example.org"])
      assert.ok(!isLoopback(parseHttpAddress(text)), text);
  });

  it("is refused without --http-insecure if others can reach it", () => {
    const exit = parseOptions(["--http", "0.0.0.0"], "runnerbean");
    assert.ok("exitCode" in exit && exit.exitCode === 5 && exit.stderr.includes("--http-insecure"));
    assert.ok(!("exitCode" in parseOptions(["--http", "0.0.0.0", "--http-insecure"], "runnerbean")));
  });

  it("has a default", () => {
    const options = parseOptions(["--http"], "runnerbean");
    assert.ok("http" in options);
    assert.deepEqual(options.http, { host: "127.0.0.1", port: 11380 });
  });
});
