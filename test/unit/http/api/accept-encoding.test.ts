import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { takesGzip } from "../../../../src/http/app/request-bodies.ts";

describe("an Accept-Encoding", () => {
  const cases: [accepted: string | undefined, takes: boolean][] = [
    [undefined, false],
    ["", false],
    ["gzip", true],
    ["br, GZIP;q=0.5", true],
    ["x-gzip", true],
    ["gzip;q=0, identity", false],
    ["gzip ; q=0.000", false],
    ["gzip;Q=0, *", false],
    ["*", true],
    ["*;q=0", false],
    ["identity, *;q=0.1", true],
    ["notgzip", false],
  ];
  for (const [accepted, takes] of cases)
    it(`${accepted}: ${takes ? "gzip" : "as it is"}`, () => assert.equal(takesGzip(accepted), takes));
});
