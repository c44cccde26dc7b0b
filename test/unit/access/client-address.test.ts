// Tests of the limit of failed attempts per address: one after another, all at once, and for every
// address of a client.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AddressList, FailureLimit } from "../../../src/access/client-address.ts";

const FAILURES_MAX = 10;
const MINUTE_MS = 60_000;
const identity = { name: "person" };

/** Guesses whose checks end when the test says so. */
class Guesses {
  readonly limit = new FailureLimit();
  nowMs = 1000;
  checked = 0;
  guessed = 0;
  readonly #ends: ((found: typeof identity | undefined) => void)[] = [];

  send(count: number, address = "192.0.2.1"): Promise<(typeof identity | "over" | undefined)[]> {
    const check = (): Promise<typeof identity | undefined> => {
      this.checked++;
      return new Promise((resolve) => this.#ends.push(resolve));
    };
    return Promise.all(
      Array.from({ length: count }, () =>
        this.limit.attempt(address, () => this.nowMs, { guess: `${++this.guessed}`, check }),
      ),
    );
  }

  /** Ends the checks that are under way, and lets what waited for them go on. */
  async end(found: typeof identity | undefined): Promise<number> {
    const ends = this.#ends.splice(0);
    for (const end of ends) end(found);
    await new Promise(setImmediate);
    return ends.length;
  }
}

describe("FailureLimit", () => {
  it("refuses an address after ten failures in a minute, and recovers afterwards", () => {
    const limit = new FailureLimit();
    for (let failure = 0; failure < 10; failure++) assert.ok(!limit.note("a", failure));
    assert.ok(limit.note("a", 100));
    assert.ok(!limit.note("b", 100));
    assert.ok(!limit.note("a", 60_001));
    assert.ok(!limit.note("a", 60_002));
  });

  it("remembers a bounded number of addresses", () => {
    const limit = new FailureLimit();
    for (let failure = 0; failure < 10; failure++) limit.note("old", 0);
    for (let address = 0; address < 10_000; address++) limit.note(`${address}`, 1);
    assert.ok(!limit.note("old", 2));
    for (let failure = 0; failure < 9; failure++) limit.note("9999", 2);
    assert.ok(limit.note("9999", 3));
  });

  it("checks no more concurrent guesses than failures are left", async () => {
    const guesses = new Guesses();
    const answers = guesses.send(200);
    assert.equal(guesses.checked, FAILURES_MAX);
    await guesses.end(undefined);
    assert.equal(guesses.checked, FAILURES_MAX);
    const found = await answers;
    assert.equal(found.filter((each) => each === undefined).length, FAILURES_MAX);
    assert.equal(found.filter((each) => each === "over").length, 190);
    assert.deepEqual(await guesses.send(1), ["over"]);
    guesses.nowMs += MINUTE_MS;
    const later = guesses.send(20);
    assert.equal(guesses.checked, 2 * FAILURES_MAX);
    await guesses.end(undefined);
    await later;
  });

  it("counts the checks that go on when another ends, also if none waits", async () => {
    const limit = new FailureLimit();
    const ends: ((found: typeof identity) => void)[] = [];
    const send = (count: number): Promise<unknown>[] =>
      Array.from({ length: count }, async () => {
        const check = (): Promise<typeof identity> => new Promise((resolve) => ends.push(resolve));
        return await limit.attempt("192.0.2.1", () => 0, { guess: "x", check });
      });
    const answers = send(FAILURES_MAX);
    for (let at = 0; at < FAILURES_MAX - 1; at++) {
      ends[at]!(identity);
      await answers[at];
    }
    assert.equal(ends.length, FAILURES_MAX);
    const more = send(FAILURES_MAX + 5);
    assert.equal(ends.length, 2 * FAILURES_MAX - 1, "one still goes on");
    for (let at = FAILURES_MAX - 1; at < 2 * FAILURES_MAX + 5; at++) {
      ends[at]!(identity);
      await new Promise(setImmediate);
    }
    assert.deepEqual(new Set(await Promise.all([...answers, ...more])), new Set([identity]));
  });

  it("returns the share of a right secret: any number may come at once", async () => {
    const guesses = new Guesses();
    const answers = guesses.send(500);
    let rounds = 0;
    while ((await guesses.end(identity)) > 0) rounds++;
    assert.deepEqual(new Set(await answers), new Set([identity]));
    assert.equal(guesses.checked, 500);
    assert.ok(rounds >= 50, `${rounds} rounds of ${FAILURES_MAX} at most`);
  });

  it("lets waiting guesses continue while some are right", async () => {
    const guesses = new Guesses();
    const answers = guesses.send(100);
    for (let failure = 0; failure < 9; failure++) await guesses.end(failure === 0 ? identity : undefined);
    await guesses.end(undefined);
    const found = await answers;
    assert.equal(found.filter((each) => each === undefined).length, FAILURES_MAX);
    assert.ok(found.includes("over"));
  });

  it("ignores a check that breaks off", async () => {
    const limit = new FailureLimit();
    const broken = (): Promise<undefined> => Promise.reject(new Error("no memory"));
    for (let attempt = 0; attempt < 30; attempt++)
      await assert.rejects(
        async () => await limit.attempt("a", () => 0, { guess: "x", check: broken }),
        /no memory/,
      );
    assert.equal(await limit.attempt("a", () => 0, { guess: "y", check: async () => identity }), identity);
  });

  it("limits how many wait", async () => {
    const guesses = new Guesses();
    const answers = guesses.send(2000);
    for (let round = 0; (await guesses.end(identity)) > 0; round++) assert.ok(round < 1000);
    const found = await answers;
    assert.equal(found.filter((each) => each === "over").length, 2000 - 1000 - FAILURES_MAX);
    // Their places are free again.
    const again = guesses.send(1000 + FAILURES_MAX);
    while ((await guesses.end(identity)) > 0);
    assert.ok((await again).every((each) => each === identity));
  });

  it("counts right secrets as no failure", () => {
    const limit = new FailureLimit();
    for (let guess = 0; guess < 3 * FAILURES_MAX; guess++)
      assert.equal(
        limit.attempt("a", () => 0, identity),
        identity,
      );
  });

  it("takes a valid token whatever else came from its address, and tries a password", async () => {
    const limit = new FailureLimit();
    const answers = Array.from({ length: 100 }, () => limit.attempt("a", () => 0, undefined));
    assert.equal(answers.filter((each) => each === "over").length, 100 - FAILURES_MAX);
    assert.equal(
      limit.attempt("a", () => 0, identity),
      identity,
    );
    const password = { guess: "right", check: async () => identity };
    assert.equal(await limit.attempt("a", () => 0, password), identity);
  });

  it("counts the same wrong password once, and checks it once", async () => {
    const limit = new FailureLimit();
    let checked = 0;
    const wrong = {
      guess: "wrong",
      check: async () => {
        checked++;
        return undefined;
      },
    };
    for (let attempt = 0; attempt < 100; attempt++)
      assert.equal(await limit.attempt<typeof identity>("a", () => 0, wrong), undefined);
    assert.equal(checked, 1);
    const right = { guess: "right", check: async () => identity };
    assert.equal(await limit.attempt("a", () => 0, right), identity);
    await limit.attempt<typeof identity>("a", () => MINUTE_MS, wrong);
    assert.equal(checked, 2);
  });

  it("limits no client of a unix socket", async () => {
    const limit = new FailureLimit();
    for (let guess = 0; guess < 3 * FAILURES_MAX; guess++) {
      assert.equal(
        limit.attempt("", () => 0, undefined),
        undefined,
      );
      const check = (): Promise<undefined> => Promise.resolve(undefined);
      assert.equal(await limit.attempt("", () => 0, { guess: `${guess}`, check }), undefined);
    }
  });

  it("takes an address with a colon that is none as it is", () => {
    const limit = new FailureLimit();
    for (let failure = 0; failure < FAILURES_MAX; failure++) limit.note("unix:7", 0);
    assert.ok(limit.note("unix:7", 1));
    assert.ok(!limit.note("unix:8", 1));
  });

  it("knows the network of a guess that has waited", async () => {
    const guesses = new Guesses();
    const answers = guesses.send(50, "20:20:20:20::1");
    while ((await guesses.end(undefined)) > 0);
    assert.equal(guesses.checked, FAILURES_MAX);
    assert.equal((await answers).filter((each) => each === "over").length, 40);
  });

  it("treats an IPv6 network as one address, and IPv4 in IPv6 as IPv4", () => {
    const limit = new FailureLimit();
    for (let guess = 0; guess < FAILURES_MAX; guess++) {
      limit.attempt(`2001:db8:0:7::${guess}`, () => 0, undefined);
      limit.attempt(`20:20:20:20::${guess}`, () => 0, undefined);
      limit.attempt("::ffff:192.0.2.1", () => 0, undefined);
    }
    assert.ok(limit.note("2001:db8:0:7:ffff::1", 1));
    assert.ok(!limit.note("2001:db8:0:8::1", 1));
    assert.ok(limit.note("20:20:20:20::ffff", 1));
    assert.ok(limit.note("192.0.2.1", 1));
    assert.ok(!limit.note("192.0.2.2", 1));
  });
});

// Tests of allow-lists: which addresses they admit.

describe("AddressList", () => {
  const list = new AddressList(["10.0.0.0/8", "192.0.2.7", "fd00::/8", "::1"]);
  for (const address of ["10.1.2.3", "192.0.2.7", "fd12::1", "::1", "::ffff:10.1.2.3"])
    it(`includes ${address}`, () => assert.ok(list.includes(address)));
  for (const address of ["11.0.0.1", "192.0.2.8", "fe80::1", "::2", "::ffff:11.0.0.1", "", "mail"])
    it(`does not include "${address}"`, () => assert.ok(!list.includes(address)));
  for (const text of ["", "10.0.0.0/33", "10.1", "fd00::/129", "localhost", "1", "10.0.0.0/-1"])
    it(`refuses "${text}" as an entry`, () =>
      assert.throws(() => new AddressList([text]), /is not an address/));
  it("is empty without entries", () => assert.ok(!new AddressList([]).includes("127.0.0.1")));
});
