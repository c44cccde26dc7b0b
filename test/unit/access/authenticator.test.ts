// Tests of authentication: which identity is found.

import assert from "node:assert/strict";
import { scryptSync } from "node:crypto";
import { describe, it } from "node:test";
import { Authenticator } from "../../../src/access/authenticator.ts";
import { type Identity, mayTouchTube } from "../../../src/access/identity.ts";
import { drawSecret, hashOf, proofOfPassword } from "../../../src/access/secrets.ts";
import { parseTokenFile, type Token, tokenLine } from "../../../src/access/token-file.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");

function tokensOf(...lines: string[]): readonly Token[] {
  const { tokens, faults } = parseTokenFile(lines.join("\n"));
  assert.deepEqual(faults, []);
  return tokens;
}

/** Proves a name and a password, whatever it costs. */
async function byPassword(
  authenticator: Authenticator,
  ...given: Parameters<Authenticator["byPassword"]>
): Promise<Identity | undefined> {
  const proof = authenticator.byPassword(...given);
  return proof !== undefined && "guess" in proof ? await proof.check() : proof;
}

describe("Authenticator", () => {
  const secret = drawSecret();
  const line = (name: string, rest = ""): string => `${name} worker sha256:${hashOf(secret)} ${rest}`;

  it("draws distinct secrets of 256 bits", () => {
    assert.match(secret, /^rb1_[\w-]{43}$/);
    assert.notEqual(drawSecret(), drawSecret());
  });

  it("knows a token by its secret alone", () => {
    const authenticator = new Authenticator(tokensOf(line("mailer")));
    assert.equal(authenticator.byToken(secret, NOW)?.name, "mailer");
    for (const wrong of ["", "mailer", `${secret}x`, secret.slice(0, -1), hashOf(secret), "x".repeat(10_000)])
      assert.equal(authenticator.byToken(wrong, NOW), undefined);
  });

  it("takes no secret for valid that is longer than 256 characters", async () => {
    for (const [length, name] of [
      [256, "long"],
      [257, undefined],
    ] as const) {
      const long = "s".repeat(length);
      const authenticator = new Authenticator(tokensOf(`long worker sha256:${hashOf(long)}`));
      assert.equal(authenticator.byToken(long, NOW)?.name, name);
      assert.equal((await byPassword(authenticator, "long", long, NOW))?.name, name);
    }
  });

  it("refuses expired tokens", () => {
    const authenticator = new Authenticator(tokensOf(line("mailer", "expires=2026-11-21")));
    assert.equal(authenticator.byToken(secret, NOW)?.name, "mailer");
    assert.equal(authenticator.byToken(secret, Date.parse("2026-11-22T00:00:00Z")), undefined);
  });

  it("takes an identity for valid while its line stands and has not expired", () => {
    const [mailer] = tokensOf(line("mailer", "expires=2026-11-22"));
    const after = Date.parse("2026-11-23T00:00:00Z");
    const same = new Authenticator(tokensOf(line("mailer", "expires=2026-11-22")));
    assert.ok(same.stillValid(mailer!, NOW));
    assert.ok(!same.stillValid(mailer!, after));
    const changed = new Authenticator(tokensOf(line("mailer", "expires=2026-11-24")));
    assert.ok(!changed.stillValid(mailer!, NOW));
    const gone = new Authenticator(tokensOf(line("other")));
    for (let times = 0; times < 2; times++) assert.ok(!gone.stillValid(mailer!, NOW));
  });

  it("knows a name with its secret, drawn or chosen", async () => {
    const [chosen] = tokensOf("person viewer certificate");
    const password = "correct horse battery";
    const person = { ...chosen!, proof: await proofOfPassword(password) };
    const authenticator = new Authenticator([...tokensOf(line("mailer")), ...tokensOf(tokenLine(person))]);
    assert.equal((await byPassword(authenticator, "mailer", secret, NOW))?.name, "mailer");
    assert.equal(await byPassword(authenticator, "mailer", password, NOW), undefined);
    assert.equal(await byPassword(authenticator, "mailer", "", NOW), undefined);
    assert.equal((await byPassword(authenticator, "person", password, NOW))?.name, "person");
    assert.equal(await byPassword(authenticator, "person", "wrong", NOW), undefined);
    assert.equal(await byPassword(authenticator, "person", secret, NOW), undefined);
    assert.equal(await byPassword(authenticator, "nobody", password, NOW), undefined);
    assert.equal(authenticator.byToken(password, NOW), undefined);
  });

  it("checks few chosen passwords at a time, and refuses a flood", async () => {
    const [chosen] = tokensOf("person viewer certificate");
    const person = { ...chosen!, proof: await proofOfPassword("correct horse battery") };
    const authenticator = new Authenticator([person], 8);
    const ask = () => byPassword(authenticator, "person", "correct horse battery", NOW);
    const some = await Promise.all(Array.from({ length: 12 }, ask));
    assert.ok(some.every((identity) => identity?.name === "person"));
    const flood = Array.from({ length: 14 }, ask);
    // Checks beyond the queue fail at once, while the others still wait.
    assert.deepEqual(await Promise.all(flood.slice(12)), [undefined, undefined]);
    await Promise.all(flood);
  });

  it("lets a thousand passwords wait by default", async () => {
    const [chosen] = tokensOf("person viewer certificate");
    // So cheap that a thousand take no time.
    const cost = { N: 2, r: 8, p: 1 };
    const hash = scryptSync("correct horse battery", "salt", 32, cost).toString("base64url");
    const person = { ...chosen!, proof: { kind: "scrypt", cost, salt: "salt", hash } } as const;
    const authenticator = new Authenticator([person]);
    const all = await Promise.all(
      Array.from({ length: 1010 }, () => byPassword(authenticator, "person", "correct horse battery", NOW)),
    );
    const served = all.filter((identity) => identity?.name === "person");
    assert.equal(served.length, 1004, "four are checked, a thousand wait");
  });

  it("knows a certificate by the name in a line for certificates", () => {
    const authenticator = new Authenticator(tokensOf("spiffe://x/mailer worker certificate", line("mailer")));
    assert.equal(
      authenticator.byCertificate(["nobody", "spiffe://x/mailer"], NOW)?.name,
      "spiffe://x/mailer",
    );
    assert.equal(authenticator.byCertificate(["mailer"], NOW), undefined);
  });
});

describe("mayTouchTube", () => {
  it("matches globs, and allows all tubes without any", () => {
    assert.ok(mayTouchTube({ tubes: undefined }, "anything"));
    assert.ok(mayTouchTube({ tubes: ["sms", "mail-*"] }, "mail-eu"));
    assert.ok(!mayTouchTube({ tubes: ["sms", "mail-*"] }, "mail"));
    assert.ok(!mayTouchTube({ tubes: [] }, "mail"));
  });
});
