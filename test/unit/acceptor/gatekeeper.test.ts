// Who is let in, and who is turned away: passwords that take their time, and guesses.

import assert from "node:assert/strict";
import { scryptSync } from "node:crypto";
import { describe, it } from "node:test";
import { Gatekeeper } from "../../../src/acceptor/gatekeeper.ts";
import { NO_LIMITS } from "../../../src/acceptor/listener-policy.ts";
import { drawSecret, hashOf, proofOfPassword } from "../../../src/access/secrets.ts";
import { parseTokenFile, type Token } from "../../../src/access/token-file.ts";
import { AUTH } from "../../../src/protocol/commands.ts";
import { HandDrivenClient, HandDrivenServer } from "../../support/hand-driven-server.ts";

const ADDRESS = "192.0.2.1";
const PASSWORD = "correct-horse-battery";
const secret = drawSecret();
const [mailer] = parseTokenFile(`mailer worker sha256:${hashOf(secret)}`).tokens;
const person: Token = { ...mailer!, name: "person", proof: await proofOfPassword(PASSWORD) };
// So cheap that many passwords take no time.
const cost = { N: 2, r: 8, p: 1 };
const hash = scryptSync(PASSWORD, "salt", 32, cost).toString("base64url");
const cheap: Token = { ...mailer!, name: "cheap", proof: { kind: "scrypt", cost, salt: "salt", hash } };

/** A server with one listener that demands a token, on a clock of its own. */
class GuardedHandDriven {
  readonly server = new HandDrivenServer(1);
  nowMs = 1000;
  #onWoken: () => void = () => {};
  readonly gatekeeper = new Gatekeeper({
    rules: {
      tokens: [mailer!, person, cheap],
      limits: NO_LIMITS,
      policies: [{ name: "test", tls: undefined, auth: "token", allow: undefined }],
    },
    counts: undefined,
    counters: this.server.acceptor.counters,
    parser: this.server.acceptor.parserWith([AUTH]),
    nowMs: () => this.nowMs,
    unixMs: () => this.nowMs,
    warn: () => {},
    wake: () => this.#onWoken(),
  });

  connect(): HandDrivenClient {
    const entry = this.gatekeeper.admit(0, ADDRESS);
    assert.ok(typeof entry !== "string", "it is let in");
    const client = new HandDrivenClient(true);
    client.connection = this.server.acceptor.connect(entry.wrap(client), entry.gate)!;
    return client;
  }

  /** What the client is answered when its password has been checked. */
  async answered(client: HandDrivenClient): Promise<string> {
    for (;;) {
      const reply = client.take();
      if (reply !== "") return reply;
      await new Promise<void>((resolve) => {
        this.#onWoken = resolve;
      });
      this.server.settle();
    }
  }
}

describe("Gatekeeper", () => {
  it("answers who half-closes behind a password, when that has been checked", async () => {
    const guarded = new GuardedHandDriven();
    const client = guarded.connect();
    client.say(`auth person:${PASSWORD}\r\nuse a\r\n`);
    client.connection.onEnd();
    guarded.server.settle();
    assert.equal(client.ended, false);
    assert.equal(await guarded.answered(client), "AUTHENTICATED\r\nUSING a\r\n");
    assert.ok(client.ended);
  });

  it("has who is to end do so, password or not", () => {
    const guarded = new GuardedHandDriven();
    const client = guarded.connect();
    client.say(`auth person:${PASSWORD}\r\n`);
    guarded.server.acceptor.endAll();
    guarded.server.settle();
    assert.equal(client.take(), "");
    assert.ok(client.ended);
  });

  it("turns away who says nothing in time, and nobody whose password waits to be checked", async (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const guarded = new GuardedHandDriven();
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

  it("counts each wrong secret as a guess, also of who has a token", () => {
    const guarded = new GuardedHandDriven();
    for (let guess = 0; guess < 10; guess++) {
      const client = guarded.connect();
      client.say(`auth ${secret}\r\nauth ${drawSecret()}\r\nuse a\r\n`);
      guarded.server.settle();
      assert.equal(client.take(), "AUTHENTICATED\r\nUNAUTHORIZED\r\n");
      assert.ok(client.ended);
    }
    assert.equal(guarded.gatekeeper.admit(0, ADDRESS), "auth");
  });

  it("checks ten of the passwords that an address guesses at once, and lets nobody in behind them", async () => {
    const guarded = new GuardedHandDriven();
    const clients = Array.from({ length: 200 }, () => guarded.connect());
    for (const [index, client] of clients.entries())
      client.say(`auth cheap:${index === 150 ? PASSWORD : `wrong-${index}`}\r\n`);
    for (const client of clients) {
      assert.equal(await guarded.answered(client), "UNAUTHORIZED\r\n");
      assert.ok(client.ended);
    }
    assert.equal(guarded.gatekeeper.admit(0, ADDRESS), "auth");
    guarded.nowMs += 60_000;
    const person = guarded.connect();
    person.say(`auth cheap:${PASSWORD}\r\n`);
    assert.equal(await guarded.answered(person), "AUTHENTICATED\r\n");
  });

  it("lets in any number who come at once with the right password", async () => {
    const guarded = new GuardedHandDriven();
    const clients = Array.from({ length: 200 }, () => guarded.connect());
    for (const client of clients) client.say(`auth cheap:${PASSWORD}\r\n`);
    for (const client of clients) assert.equal(await guarded.answered(client), "AUTHENTICATED\r\n");
  });
});
