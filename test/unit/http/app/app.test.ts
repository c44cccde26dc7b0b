// Tests of the guards by host name and by site.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Problem } from "../../../../src/http/api/problem.ts";
import { checkForm, checkHost, checkSite, hostOf } from "../../../../src/http/app/app.ts";

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
        codeOf(() => checkHost(host, hosts)),
        "let in",
      ));
  for (const host of [
    "evil.example",
    "evil.example:11380",
    "127.0.0.1.evil.example",
    "localhost.evil",
    "queue.example.org.evil",
    "[::1]evil.example",
    "[::1].evil.example:80",
    "localhost@evil.example",
  ])
    it(`may not be "${host}"`, () =>
      assert.equal(
        codeOf(() => checkHost(host, hosts)),
        "wrong-host",
      ));
  it("may be missing, as no browser does", () =>
    assert.equal(
      codeOf(() => checkHost(undefined, hosts)),
      "let in",
    ));
});

describe("a change", () => {
  const cases: [headers: Record<string, string>, expected: string][] = [
    [{ host: "a:1" }, "let in"],
    [{ host: "a:1", origin: "http://a:1" }, "let in"],
    [{ host: "a:1", origin: "http://a:2" }, "cross-site"],
    [{ host: "a:1", origin: "null" }, "cross-site"],
    [{ host: "a:1", origin: "https://a:1" }, "cross-site"],
    [{ host: "a:80", origin: "http://a" }, "let in"],
    [{ host: "a", origin: "https://a" }, "cross-site"],
    [{ host: "a", origin: "https://a", "x-forwarded-proto": "https" }, "let in"],
    [{ host: "a", origin: "http://a", "x-forwarded-proto": "https" }, "cross-site"],
    [{ host: "a:1", "sec-fetch-site": "same-origin", origin: "http://a:1" }, "let in"],
    [{ host: "a:1", "sec-fetch-site": "none" }, "let in"],
    [{ host: "a:1", "sec-fetch-site": "cross-site" }, "cross-site"],
    [{ host: "a:1", "sec-fetch-site": "same-site", origin: "http://a:1" }, "cross-site"],
  ];
  for (const [headers, expected] of cases)
    it(`with ${JSON.stringify(headers)}: ${expected}`, () => {
      assert.equal(
        codeOf(() => checkSite("POST", headers, false)),
        expected,
      );
      assert.equal(
        codeOf(() => checkSite("GET", headers, false)),
        "let in",
        "what changes nothing is not asked",
      );
    });

  it("over TLS is of the site with https only", () => {
    const ofOrigin = (origin: string): string =>
      codeOf(() => checkSite("POST", { host: "a:1", origin }, true));
    assert.equal(ofOrigin("https://a:1"), "let in");
    assert.equal(ofOrigin("http://a:1"), "cross-site");
  });
});

describe("the form of a request", () => {
  const formOf = (httpVersion: string, ...rawHeaders: string[]): string => {
    const headers: Record<string, string> = {};
    for (let at = 0; at < rawHeaders.length; at += 2)
      headers[rawHeaders[at]!.toLowerCase()] ??= rawHeaders[at + 1]!;
    return codeOf(() => checkForm({ httpVersion, url: "/", headers, rawHeaders }));
  };
  const cases: [expected: string, ...Parameters<typeof formOf>][] = [
    ["let in", "1.1", "Host", "a"],
    ["let in", "1.0"],
    ["bad-request", "1.1"],
    ["let in", "1.1", "Host", ""],
    ["let in", "1.1", "Host", "a", "Expect", "100-Continue"],
    ["expectation-failed", "1.1", "Host", "a", "Expect", "banana"],
    ["let in", "1.0", "Expect", "banana"],
    ["bad-request", "0.9"],
    ["bad-request", "2.0", "Host", "a"],
    ["let in", "1.1", "Host", "a", "Transfer-Encoding", "Chunked"],
    ["bad-request", "1.1", "Host", "a", "Transfer-Encoding", "gzip, chunked"],
    ["bad-request", "1.0", "Host", "a", "Transfer-Encoding", "chunked"],
    ["bad-request", "1.1", "Host", "a", "host", "a"],
  ];
  for (const [expected, ...form] of cases)
    it(`${form.join(" ")}: ${expected}`, () => assert.equal(formOf(...form), expected));

  it("an absolute target says for which host it is", () => {
    const headers = { host: "localhost" };
    assert.equal(hostOf({ url: "/v1/server", headers }), "localhost");
    assert.equal(hostOf({ url: "*", headers }), "localhost");
    assert.equal(hostOf({ url: "http://evil.example:80/v1/server", headers }), "evil.example:80");
    assert.equal(hostOf({ url: "HTTPS://localhost@evil.example?x", headers }), "localhost@evil.example");
  });
});
