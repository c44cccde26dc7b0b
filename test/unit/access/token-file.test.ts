// Tests of the token file: the meaning of its lines, and that a fault is reported with its line and
// without its secret.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Permission } from "../../../src/access/identity.ts";
import { hashOf } from "../../../src/access/secrets.ts";
import { parseTokenFile, tokenLine } from "../../../src/access/token-file.ts";

const HASH = hashOf("rb1_x");
const { Put, Work, View, Bodies, Metrics, Manage } = Permission;

describe("parseTokenFile", () => {
  it("reads names, roles, proofs, tubes and days, and writes them as they were", () => {
    const lines = [
      `prometheus monitor sha256:${HASH}`,
      `mailer worker sha256:${HASH} tubes=mail-*,sms expires=2027-01-31`,
      `both viewer,producer certificate`,
      `person operator scrypt:32768:8:1:c2FsdA:${"A".repeat(43)}`,
    ];
    const { tokens, faults } = parseTokenFile(`# comment\n\n${lines.join("\r\n")}\n  # the end\n`);
    assert.deepEqual(faults, []);
    assert.deepEqual(tokens.map(tokenLine), lines);
    assert.deepEqual(
      tokens.map(({ permissions }) => permissions),
      [
        Metrics | View,
        Put | Work,
        Metrics | View | Bodies | Put,
        Metrics | View | Bodies | Put | Work | Manage,
      ],
    );
    assert.deepEqual(tokens[1]!.tubes, ["mail-*", "sms"]);
    assert.equal(tokens[1]!.expiresAtMs, Date.parse("2027-02-01T00:00:00Z"));
    assert.equal(tokens[0]!.tubes, undefined);
  });

  const faulty: [name: string, line: string, message: RegExp][] = [
    ["a name with blanks in disguise", `a\u00a0b worker sha256:${HASH}`, /is not a (valid name|role)/],
    ["a name that begins with a dash", `-x worker sha256:${HASH}`, /is not a valid name/],
    ["no role", "x", /is not a role/],
    ["what every object has for a role", `x constructor sha256:${HASH}`, /constructor is not a role/],
    ["an unknown role", `x worker,boss sha256:${HASH}`, /boss is not a role: monitor, viewer/],
    ["a hash that is too short", "x worker sha256:abc", /is not a hash/],
    ["a hash in capitals", `x worker sha256:${HASH.toUpperCase()}`, /is not a hash/],
    ["a secret instead of its hash", "x worker rb1_topsecret", /is not a hash/],
    ["scrypt that costs nothing", `x worker scrypt:2:8:1:c2FsdA:${"A".repeat(43)}`, /is not a hash/],
    [
      "scrypt that costs everything",
      `x worker scrypt:1073741824:8:1:c2FsdA:${"A".repeat(43)}`,
      /is not a hash/,
    ],
    ["a day that is none", `x worker sha256:${HASH} expires=2027-02-31`, /2027-02-31 is not a date/],
    ["a word that nobody knows", `x worker sha256:${HASH} tube=mail`, /tube=mail is neither/],
    ["an admin of some tubes", `x admin sha256:${HASH} tubes=a`, /can't be limited/],
  ];
  for (const [name, line, message] of faulty) {
    it(`finds ${name}, with its line`, () => {
      const { faults } = parseTokenFile(`ok worker sha256:${HASH}\n${line}\n`);
      assert.equal(faults.length, 1);
      assert.equal(faults[0]!.line, 2);
      assert.match(faults[0]!.message, message);
      assert.doesNotMatch(faults[0]!.message, /topsecret/);
    });
  }

  it("takes exactly the proofs that `runnerbean token add` writes, and costs that are bearable", () => {
    const isProof = (proof: string): boolean => parseTokenFile(`x worker ${proof}`).faults.length === 0;
    const key = "A".repeat(43);
    for (const N of [2 ** 14, 2 ** 15, 2 ** 17]) assert.ok(isProof(`scrypt:${N}:8:1:c2FsdA:${key}`), `${N}`);
    for (const N of ["8192", "262144", "16385", "32767", "-32768", "", "x"])
      assert.ok(!isProof(`scrypt:${N}:8:1:c2FsdA:${key}`), `scrypt with N ${N}`);
    for (const wrong of [
      ...[
        `scrypt:32768:9:1:c2FsdA:${key}`,
        `scrypt:32768:7:1:c2FsdA:${key}`,
        `scrypt:32768:8:2:c2FsdA:${key}`,
      ],
      ...[`scrypt:32768:8:0:c2FsdA:${key}`, `scrypt:32768:8:1::${key}`, `scrypt:32768:8:1:c2FsdA:${key}A`],
      ...[`scrypt:32768:8:1:c2FsdA:${key}:x`, `scrypt:32768:8:1:${key}`, `bcrypt:32768:8:1:c2FsdA:${key}`],
      ...[`sha256:${HASH}:x`, `sha1:${HASH}`, `sha256:x:${HASH}`, `sha256:${HASH}0`, "scrypt", "sha256"],
      ...["certificates", ":", `scrypt:32768:8:1:c2FsdA:${key.slice(1)}`],
    ])
      assert.ok(!isProof(wrong), wrong);
  });

  it("reads tubes and days in any order, and the last of each", () => {
    const [token] = parseTokenFile(`x worker certificate expires=2027-01-31 tubes=,a,,b-*,`).tokens;
    assert.deepEqual(token!.tubes, ["a", "b-*"]);
    assert.equal(token!.expiresAtMs, Date.parse("2027-02-01T00:00:00Z"));
    for (const word of [
      "expires=",
      "tubes=",
      "expires=2027-1-31",
      "expires=2027-01-31T00",
      "expire=2027-01-31",
    ])
      assert.equal(parseTokenFile(`x worker certificate ${word}`).faults.length, 1, word);
    assert.equal(parseTokenFile("x worker certificate expires=2028-02-29").faults.length, 0);
    assert.equal(parseTokenFile("x worker certificate expires=2027-02-29").faults.length, 1);
  });

  it("finds a duplicate name", () => {
    const { faults } = parseTokenFile(`x worker sha256:${HASH}\nx viewer sha256:${HASH}\n`);
    assert.deepEqual(faults, [{ line: 2, message: "the name x is already used in line 1" }]);
  });
});
