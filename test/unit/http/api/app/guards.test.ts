// Tests of the guards by host name and by site.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkHost, checkSite } from "../../../../../src/http/api/app/guards.ts";
import { Problem } from "../../../../../src/http/api/problem.ts";

const codeOf = (act: () => void): string => {
  try {
    act();
    return "let in";
  } catch (error) {
    assert.ok(error instanceof Problem);
    return error.code;
  }
};

describe("the host of a request", () => {
  const hosts = new Set(["queue.example.org"]);
  for (const host of [
    "127.0.0.1:11380",
    "localhost",
    "LOCALHOST:1",
    "[::1]:11380",
    "10.0.0.7",
    "queue.example.org:80",
    "",
  ])
    it(`may be "${host}"`, () =>
      assert.equal(
        codeOf(() => checkHost({ host }, hosts)),
        "let in",
      ));
  for (const host of [
    "evil.example",
    "evil.example:11380",
    "127.0.0.1.evil.example",
    "localhost.evil",
    "queue.example.org.evil",
  ])
    it(`may not be "${host}"`, () =>
      assert.equal(
        codeOf(() => checkHost({ host }, hosts)),
        "wrong-host",
      ));
  it("may be missing, as no browser does", () =>
    assert.equal(
      codeOf(() => checkHost({}, hosts)),
      "let in",
    ));
});

describe("a change", () => {
  const cases: [headers: Record<string, string>, expected: string][] = [
    [{ host: "a:1" }, "let in"],
    [{ host: "a:1", origin: "http://a:1" }, "let in"],
    [{ host: "a:1", origin: "http://a:2" }, "cross-site"],
    [{ host: "a:1", origin: "null" }, "cross-site"],
    [{ host: "a:1", "sec-fetch-site": "same-origin", origin: "http://a:1" }, "let in"],
    [{ host: "a:1", "sec-fetch-site": "none" }, "let in"],
    [{ host: "a:1", "sec-fetch-site": "cross-site" }, "cross-site"],
    [{ host: "a:1", "sec-fetch-site": "same-site", origin: "http://a:1" }, "cross-site"],
  ];
  for (const [headers, expected] of cases)
    it(`with ${JSON.stringify(headers)}: ${expected}`, () => {
      assert.equal(
        codeOf(() => checkSite("POST", headers)),
        expected,
      );
      assert.equal(
        codeOf(() => checkSite("GET", headers)),
        "let in",
        "what changes nothing is not asked",
      );
    });
});
