// Tests of a token limited to some tubes, against every way to reach a job of another one.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AdmissionControl } from "../../../src/acceptor/admission/admission-control.ts";
import { NO_LIMITS } from "../../../src/acceptor/admission/listener-policy.ts";
import { drawSecret, hashOf } from "../../../src/access/secrets.ts";
import { parseTokenFile } from "../../../src/access/token-file.ts";
import { AUTH } from "../../../src/protocol/commands.ts";
import { HandDrivenClient, HandDrivenServer } from "../../support/in-process/hand-driven-server.ts";

const DAY = "2026-11-22";
const END_OF_DAY_MS = Date.parse("2026-11-23T00:00:00Z");
const secret = drawSecret();
/** Of a token that is limited to more tubes. */
const wideSecret = drawSecret();
/** Of a token that is limited to tubes with a name of one character. */
const shortSecret = drawSecret();

/** A server of two shards, and a client of each kind. */
class Guarded {
  readonly server = new HandDrivenServer(2);
  unixMs = Date.parse(`${DAY}T12:00:00Z`);
  readonly #admission = new AdmissionControl({
    rules: {
      tokens: parseTokenFile(
        [
          `limited operator sha256:${hashOf(secret)} tubes=mail,mail-* expires=${DAY}`,
          `wide operator sha256:${hashOf(wideSecret)} tubes=mail,secret`,
          `short operator sha256:${hashOf(shortSecret)} tubes=?`,
        ].join("\n"),
      ).tokens,
      limits: NO_LIMITS,
      policies: [{ name: "test", tls: undefined, auth: "token", allow: undefined }],
    },
    counts: undefined,
    counters: this.server.acceptor.counters,
    parser: this.server.acceptor.parserWith([AUTH]),
    nowMs: () => 1000,
    unixMs: () => this.unixMs,
    warn: () => {},
    wake: () => {},
  });
  /** May do everything. */
  readonly owner: HandDrivenClient = this.server.connect(true);
  readonly limited = new HandDrivenClient(true);

  constructor() {
    const entry = this.#admission.admit(0, "192.0.2.1");
    assert.ok(typeof entry !== "string", "it is let in");
    this.limited.connection = this.server.acceptor.connect(entry.wrap(this.limited), entry.filter)!;
    assert.equal(this.ask(this.limited, `auth ${secret}`), "AUTHENTICATED\r\n");
  }

  ask(client: HandDrivenClient, line: string): string {
    client.say(`${line}\r\n`);
    this.server.settle();
    return client.take();
  }

  /** The id of a new job. */
  put(tube: string, body = "x"): number {
    const reply = this.ask(this.owner, `put-in-tube ${tube} 0 0 60 ${body.length}\r\n${body}`);
    return Number(/^INSERTED (\d+)\r\n$/.exec(reply)![1]);
  }

  /** Has the limited client reserve a job of its own tube. */
  reserve(): number {
    const id = this.put("mail");
    this.ask(this.limited, "watch mail");
    this.ask(this.limited, "ignore default");
    assert.match(this.ask(this.limited, "reserve-with-timeout 0"), new RegExp(`^RESERVED ${id} `));
    return id;
  }
}

const exists = (guarded: Guarded, id: number): boolean =>
  guarded.ask(guarded.owner, `peek ${id}`).startsWith("FOUND");

describe("a token that is limited to some tubes", () => {
  for (const order of ["the other job last", "the other job first", "the other job in the middle"]) {
    it(`deletes none of several jobs if one isn't its own: ${order}`, () => {
      const guarded = new Guarded();
      const [first, second] = [guarded.reserve(), guarded.reserve()];
      const other = guarded.put("secret");
      const ids = {
        "the other job last": [first, second, other],
        "the other job first": [other, first, second],
        "the other job in the middle": [first, other, second],
      }[order]!;
      assert.equal(guarded.ask(guarded.limited, `delete-batch ${ids.join(" ")}`), "UNAUTHORIZED\r\n");
      for (const id of ids) assert.ok(exists(guarded, id), `job ${id} exists`);
      assert.match(guarded.ask(guarded.limited, `delete-batch ${first} ${second}`), /^DELETED_BATCH 2/);
      assert.ok(exists(guarded, other));
      // Deleted jobs no longer count as its own.
      for (const id of [first, second])
        assert.equal(guarded.ask(guarded.limited, `delete-batch ${id}`), "UNAUTHORIZED\r\n");
    });
  }

  for (const [name, tell] of [
    ["a peeked job", (guarded: Guarded) => guarded.ask(guarded.limited, "peek-ready")],
    ["a job that it reserves", (guarded: Guarded) => guarded.ask(guarded.limited, "reserve-with-timeout 0")],
    ["a job of a batch", (guarded: Guarded) => guarded.ask(guarded.limited, "reserve-batch 5 0")],
    ["a listed job", (guarded: Guarded) => guarded.ask(guarded.limited, "list-jobs mail show=1000")],
  ] as const) {
    it(`gets no job through the body of ${name}`, () => {
      const guarded = new Guarded();
      const other = guarded.put("secret");
      guarded.ask(guarded.limited, "use mail");
      guarded.ask(guarded.limited, "watch mail");
      guarded.ask(guarded.limited, "ignore default");
      guarded.put("mail", `x\r\nRESERVED ${other} 3\r\nabc\r\nRESERVED ${other} 3\r\n`);
      assert.match(tell(guarded), /RESERVED/);
      for (const command of [`delete ${other}`, `delete-batch ${other}`, `stats-job ${other}`])
        assert.equal(guarded.ask(guarded.limited, command), "UNAUTHORIZED\r\n", command);
      assert.ok(exists(guarded, other));
    });
  }

  it("gets no job of the tubes that the connection watches under a token before it", () => {
    const guarded = new Guarded();
    const ask = (command: string): string => guarded.ask(guarded.limited, command);
    assert.equal(ask(`auth ${wideSecret}`), "AUTHENTICATED\r\n");
    ask("watch mail");
    ask("watch secret");
    ask("ignore default");
    // The check of all watched tubes is remembered.
    assert.equal(ask("reserve-with-timeout 0"), "TIMED_OUT\r\n");
    guarded.put("secret");
    const id = guarded.put("mail");
    assert.equal(ask(`auth ${secret}`), "AUTHENTICATED\r\n");
    for (const command of ["reserve-with-timeout 0", "reserve-batch 5 0"])
      assert.equal(ask(command), "UNAUTHORIZED\r\n", command);
    ask("ignore secret");
    assert.match(ask("reserve-with-timeout 0"), new RegExp(`^RESERVED ${id} `));
  });

  it("lists no jobs of all tubes, though its glob matches the asterisk that means them", () => {
    const guarded = new Guarded();
    const ask = (command: string): string => guarded.ask(guarded.limited, command);
    guarded.put("secret");
    assert.equal(ask(`auth ${shortSecret}`), "AUTHENTICATED\r\n");
    assert.match(ask("list-jobs a"), /^(?:OK|NOT_FOUND)/);
    assert.equal(ask("list-jobs *"), "UNAUTHORIZED\r\n");
  });

  it("is valid on an open connection until its last day is over", () => {
    const guarded = new Guarded();
    guarded.unixMs = END_OF_DAY_MS - 1;
    assert.equal(guarded.ask(guarded.limited, "use mail"), "USING mail\r\n");
    guarded.unixMs = END_OF_DAY_MS;
    assert.equal(guarded.ask(guarded.limited, "use mail"), "UNAUTHORIZED\r\n");
    assert.ok(guarded.limited.ended);
  });

  it("can't put after its last day", () => {
    const guarded = new Guarded();
    guarded.unixMs = END_OF_DAY_MS;
    assert.equal(guarded.ask(guarded.limited, "put-in-tube mail 0 0 60 1\r\nx"), "UNAUTHORIZED\r\n");
    assert.ok(guarded.limited.ended);
    assert.equal(guarded.ask(guarded.owner, "stats-tube mail"), "NOT_FOUND\r\n");
  });
});
