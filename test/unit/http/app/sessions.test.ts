// Tests of sessions: they end with their time, with their token, and by age if there are too many.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseTokenFile } from "../../../../src/access/token-file.ts";
import { Sessions } from "../../../../src/http/app/authentication.ts";

const NOW = 1_000_000;
const HOURS_12 = 12 * 3_600_000;
const SESSIONS_MAX = 10_000;
const tokenNamed = (name: string, digit: string) =>
  parseTokenFile(`${name} viewer sha256:${digit.repeat(64)}`).tokens[0]!;
const identity = tokenNamed("someone", "0");

const cookieOf = (setCookie: string): string => setCookie.split(";")[0]!;
const stands = (): boolean => true;

describe("Sessions", () => {
  it("end after 12 hours, in the browser and in the server", () => {
    const sessions = new Sessions();
    const setCookie = sessions.begin(identity, NOW, true);
    assert.match(setCookie, /; Max-Age=43200;/);
    const cookie = cookieOf(setCookie);
    assert.equal(sessions.find(cookie, NOW + HOURS_12 - 1, stands), identity);
    assert.equal(sessions.find(cookie, NOW + HOURS_12, stands), undefined);
    assert.equal(sessions.find(cookie, NOW, stands), undefined, "it is forgotten");
  });

  it("end when their token is gone", () => {
    const sessions = new Sessions();
    const cookie = cookieOf(sessions.begin(identity, NOW, true));
    assert.equal(
      sessions.find(cookie, NOW, () => false),
      undefined,
    );
    assert.equal(sessions.find(cookie, NOW, stands), undefined, "it is forgotten");
  });

  it("end the oldest beyond their number", () => {
    const sessions = new Sessions();
    const [first, second, ...others] = Array.from({ length: SESSIONS_MAX + 1 }, () =>
      cookieOf(sessions.begin(identity, NOW, true)),
    );
    assert.equal(sessions.find(first, NOW, stands), undefined);
    assert.equal(sessions.find(second, NOW, stands), identity);
    assert.equal(sessions.find(others.at(-1), NOW, stands), identity);
  });

  it("of one token end none of another, however often it signs in", () => {
    const sessions = new Sessions();
    const other = tokenNamed("another", "1");
    const before = cookieOf(sessions.begin(other, NOW, true));
    const [first] = Array.from({ length: SESSIONS_MAX + 1 }, () =>
      cookieOf(sessions.begin(identity, NOW, true)),
    );
    assert.equal(sessions.find(before, NOW, stands), other);
    assert.equal(sessions.find(first, NOW, stands), undefined);
    // There is room for the other token all the same, also after its sessions have ended.
    sessions.end(before);
    const later = [1, 2, 3].map(() => cookieOf(sessions.begin(other, NOW, true)));
    for (const each of later) assert.equal(sessions.find(each, NOW, stands), other);
  });
});
