// Tests of admission control: slow password checks, and guesses.

import assert from "node:assert/strict";
import { scryptSync } from "node:crypto";
import { describe, it } from "node:test";
import { AdmissionControl, type Entry } from "../../../../src/acceptor/admission/admission-control.ts";
import type { FilteredConnection } from "../../../../src/acceptor/admission/line-filter.ts";
import { type ConnectionLimits, NO_LIMITS } from "../../../../src/acceptor/admission/listener-policy.ts";
import type { LineHandler } from "../../../../src/acceptor/stream/line-reader.ts";
import { drawSecret, hashOf, proofOfPassword } from "../../../../src/access/secrets.ts";
import { parseTokenFile, type Token } from "../../../../src/access/token-file.ts";
import { AUTH } from "../../../../src/protocol/commands.ts";
import { CONNECTION_COUNTS_BYTES, ConnectionCounts } from "../../../../src/ring/connection-words.ts";
import { GuardedHandDriven } from "../../../support/in-process/guarded-hand-driven.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const PASSWORD = "correct-horse-battery";
const secret = drawSecret();
const [mailer] = parseTokenFile(`mailer worker sha256:${hashOf(secret)}`).tokens;
const person: Token = { ...mailer!, name: "person", proof: await proofOfPassword(PASSWORD) };
// So cheap that many passwords take no time.
const cost = { N: 2, r: 8, p: 1 };
const hash = scryptSync(PASSWORD, "salt", 32, cost).toString("base64url");
const cheap: Token = { ...mailer!, name: "cheap", proof: { kind: "scrypt", cost, salt: "salt", hash } };

/** Two listeners: one that anybody may use, and one that demands a token. */
function controlWith(limits: Partial<ConnectionLimits>, nowMs: () => number): AdmissionControl {
  const { acceptor } = new HandDrivenServer(1);
  const token = {
    name: "test",
    tls: undefined,
    auth: "token",
    allow: undefined,
    proxyFrom: undefined,
  } as const;
  return new AdmissionControl({
    rules: { tokens: [mailer!], limits: { ...NO_LIMITS, ...limits }, policies: [undefined, token] },
    counts: new ConnectionCounts(new SharedArrayBuffer(CONNECTION_COUNTS_BYTES), 1),
    counters: acceptor.counters,
    parser: acceptor.parserWith([AUTH]),
    nowMs,
    unixMs: nowMs,
    warn: () => {},
    wake: () => {},
  });
}

describe("AdmissionControl", () => {
  for (const [what, listener, limits] of [
    ["idle", 0, { idleMs: 5000 }],
    ["unknown", 1, {}],
  ] as const)
    it(`ends a connection that is ${what} for too long, and asks nothing of one that has left`, (t) => {
      t.mock.timers.enable({ apis: ["setInterval"] });
      let now = 1000;
      const control = controlWith(limits, () => now);
      /** Returns what the filters do with a connection. */
      const filtered = (): { entry: Entry; asked: string[] } => {
        const asked: string[] = [];
        const noted = (_: object, name: string): unknown => name === "isQuiet" || (() => asked.push(name));
        const entry = control.admit(listener, "192.0.2.1");
        assert.ok(typeof entry !== "string" && entry.filter !== undefined);
        const connection = new Proxy({}, { get: noted }) as FilteredConnection & LineHandler;
        entry.filter.guard(connection, connection);
        return { entry, asked };
      };
      const [stays, leaves] = [filtered(), filtered()];
      leaves.entry.leave();
      leaves.asked.length = 0;
      for (let second = 0; second < 60; second++) {
        now += 1000;
        t.mock.timers.tick(1000);
      }
      assert.ok(stays.asked.length > 0);
      assert.deepEqual(leaves.asked, []);
    });

  it("spares a client whose bytes are read late, because the thread was held up", (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    let now = 1000;
    const control = controlWith({ idleMs: 5000 }, () => now);
    const entry = control.admit(0, "192.0.2.1");
    assert.ok(typeof entry !== "string" && entry.filter !== undefined);
    const asked: string[] = [];
    const noted = (_: object, name: string): unknown => name === "isQuiet" || (() => asked.push(name));
    const connection = new Proxy({}, { get: noted }) as FilteredConnection & LineHandler;
    const lines = entry.filter.guard(connection, connection);
    for (let turn = 0; turn < 10; turn++) {
      now += 60_000;
      t.mock.timers.tick(1000);
      lines.onLine(Buffer.from("use a"), 0, 5, false);
    }
    assert.ok(!asked.includes("endWhenIdle"), "it sends, but is read after the timer");
    for (let second = 0; second < 60; second++) {
      now += 1000;
      t.mock.timers.tick(1000);
      lines.onPiece(Buffer.from("x"), 0, 1);
    }
    assert.ok(!asked.includes("endWhenIdle"), "a large body that arrives slowly");
    for (let second = 0; second < 7; second++) {
      now += 1000;
      t.mock.timers.tick(1000);
    }
    assert.ok(asked.includes("endWhenIdle"), "it is silent");
  });

  it("takes a listener for open only if no limit and no token asks for a look at its clients", () => {
    const open = (limits: Partial<ConnectionLimits>): boolean[] => {
      const control = controlWith(limits, () => 0);
      return [0, 1].map((listener) => control.isOpen(listener));
    };
    assert.deepEqual(open({}), [true, false]);
    for (const limits of [{ connections: 9 }, { perAddress: 9 }, { idleMs: 9 }])
      assert.deepEqual(open(limits), [false, false], JSON.stringify(limits));
  });

  it("gives back each place once: of an address that is refused, and of who leaves twice", () => {
    const control = controlWith({ connections: 3, perAddress: 2 }, () => 1000);
    const enter = (address: string): Entry => {
      const entry = control.admit(0, address);
      assert.ok(typeof entry !== "string", `${address} is let in`);
      return entry;
    };
    const first = enter("192.0.2.1");
    enter("192.0.2.1");
    for (let more = 0; more < 5; more++) assert.equal(control.admit(0, "192.0.2.1"), "full");
    const other = enter("192.0.2.2");
    assert.equal(control.admit(0, "192.0.2.3"), "full");
    first.leave();
    first.leave();
    enter("192.0.2.1");
    assert.equal(control.admit(0, "192.0.2.3"), "full");
    other.leave();
    assert.equal(control.admit(0, "192.0.2.1"), "full", "as many as of one address");
    enter("192.0.2.3");
  });

  it("answers who half-closes behind a password, when that has been checked", async () => {
    const guarded = new GuardedHandDriven([mailer!, person]);
    const client = guarded.connect();
    client.say(`auth person:${PASSWORD}\r\nuse a\r\n`);
    client.connection.onEnd();
    guarded.server.settle();
    assert.equal(client.ended, false);
    assert.equal(await guarded.answered(client), "AUTHENTICATED\r\nUSING a\r\n");
    assert.ok(client.ended);
  });

  it("lets a client quit with or without a password", () => {
    const guarded = new GuardedHandDriven([mailer!, person]);
    const client = guarded.connect();
    client.say(`auth person:${PASSWORD}\r\n`);
    guarded.server.acceptor.endAll();
    guarded.server.settle();
    assert.equal(client.take(), "");
    assert.ok(client.ended);
  });

  it("refuses silent clients, but none whose password waits to be checked", async (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const guarded = new GuardedHandDriven([mailer!, person]);
    const [silent, waiting] = [guarded.connect(), guarded.connect()];
    waiting.say(`auth person:${PASSWORD}\r\n`);
    guarded.nowMs += 60_000;
    t.mock.timers.tick(5000);
    guarded.server.settle();
    assert.equal(silent.take(), "UNAUTHORIZED\r\n");
    assert.ok(silent.ended);
    assert.equal(waiting.take(), "");
    assert.equal(await guarded.answered(waiting), "AUTHENTICATED\r\n");
    assert.equal(waiting.ended, false);
  });

  describe("AdmissionControl for a second token", () => {
    const narrow = drawSecret();
    const few = parseTokenFile(`few worker sha256:${hashOf(narrow)} tubes=mail-*`).tokens[0]!;
    const put = (tube: string): string => `put-in-tube ${tube} 0 0 60 1\r\nx\r\n`;

    it("drops the watches and jobs of the first token", () => {
      const guarded = new GuardedHandDriven([mailer!, few]);
      const client = guarded.connect();
      const said = (text: string): string => {
        client.say(text);
        guarded.server.settle();
        return client.take();
      };
      said(`auth ${secret}\r\nwatch secret\r\nwatch mail-1\r\nignore default\r\n`);
      said(put("secret") + put("secret") + put("mail-1"));
      // All in one packet: the job of the reserve is given to the first token.
      assert.equal(
        said(`reserve\r\nauth ${narrow}\r\ndelete 1\r\ntouch 1\r\ntouch-all\r\nreserve-with-timeout 0\r\n`),
        `RESERVED 1 1\r\nx\r\nAUTHENTICATED\r\n${"UNAUTHORIZED\r\n".repeat(4)}`,
      );
      assert.equal(said("reserve-batch 9 0\r\n"), "UNAUTHORIZED\r\n");
      assert.equal(said("ignore secret\r\nreserve\r\n"), "WATCHING 1\r\nRESERVED 3 1\r\nx\r\n");
      assert.equal(said("delete 3\r\n"), "DELETED\r\n");
      assert.equal(said(`auth ${secret}\r\ndelete 1\r\n`), "AUTHENTICATED\r\nDELETED\r\n");
    });

    it("keeps them if the token is the same, also after a reload", () => {
      const guarded = new GuardedHandDriven([few]);
      const client = guarded.connect();
      const said = (text: string): string => {
        client.say(text);
        guarded.server.settle();
        return client.take();
      };
      said(`auth ${narrow}\r\nwatch mail-1\r\nignore default\r\n${put("mail-1")}`);
      assert.equal(said("reserve\r\n"), "RESERVED 1 1\r\nx\r\n");
      guarded.reload([{ ...few }, mailer!]);
      assert.equal(said(`auth ${narrow}\r\ndelete 1\r\n`), "AUTHENTICATED\r\nDELETED\r\n");
    });
  });

  it("ends a wait whose token expires, without a job", (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const guarded = new GuardedHandDriven([{ ...mailer!, expiresAtMs: 5000 }]);
    const client = guarded.connect();
    client.say(`auth ${secret}\r\nreserve\r\n`);
    guarded.server.settle();
    t.mock.timers.tick(1000);
    guarded.server.settle();
    assert.equal(client.take(), "AUTHENTICATED\r\n");
    guarded.nowMs = 5000;
    t.mock.timers.tick(1000);
    guarded.server.settle();
    assert.equal(client.take(), "UNAUTHORIZED\r\n");
    assert.ok(client.ended);
  });

  it("counts each wrong secret as a guess, also from an authenticated client", () => {
    const guarded = new GuardedHandDriven([mailer!, person]);
    for (let guess = 0; guess < 10; guess++) {
      const client = guarded.connect();
      client.say(`auth ${secret}\r\nauth ${drawSecret()}\r\nuse a\r\n`);
      guarded.server.settle();
      assert.equal(client.take(), "AUTHENTICATED\r\nUNAUTHORIZED\r\n");
      assert.ok(client.ended);
    }
    const valid = guarded.connect();
    valid.say(`auth ${secret}\r\n`);
    guarded.server.settle();
    assert.equal(valid.take(), "AUTHENTICATED\r\n", "others at its address have failed");
  });

  it("checks ten concurrent guesses of an address, and refuses all behind them", async () => {
    const guarded = new GuardedHandDriven([mailer!, person, cheap]);
    const clients = Array.from({ length: 200 }, () => guarded.connect());
    for (const [index, client] of clients.entries())
      client.say(`auth cheap:${index === 150 ? PASSWORD : `wrong-${index}`}\r\n`);
    for (const client of clients) {
      assert.equal(await guarded.answered(client), "UNAUTHORIZED\r\n");
      assert.ok(client.ended);
    }
    const early = guarded.connect();
    early.say(`auth cheap:${PASSWORD}\r\n`);
    assert.equal(await guarded.answered(early), "UNAUTHORIZED\r\n");
    guarded.nowMs += 60_000;
    const late = guarded.connect();
    late.say(`auth cheap:${PASSWORD}\r\n`);
    assert.equal(await guarded.answered(late), "AUTHENTICATED\r\n");
  });

  it("accepts any number of concurrent right passwords", async () => {
    const guarded = new GuardedHandDriven([mailer!, person, cheap]);
    const clients = Array.from({ length: 200 }, () => guarded.connect());
    for (const client of clients) client.say(`auth cheap:${PASSWORD}\r\n`);
    for (const client of clients) assert.equal(await guarded.answered(client), "AUTHENTICATED\r\n");
  });
});
