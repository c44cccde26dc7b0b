// Tests of the ids that a limited token may name, read from the replies to its client, however
// these are split and whatever bodies contain.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AdmissionControl } from "../../../../src/acceptor/admission/admission-control.ts";
import { ReservedIds } from "../../../../src/acceptor/admission/auth-filter.ts";
import { NO_LIMITS } from "../../../../src/acceptor/admission/listener-policy.ts";
import { drawSecret, hashOf } from "../../../../src/access/secrets.ts";
import { parseTokenFile } from "../../../../src/access/token-file.ts";
import { AUTH } from "../../../../src/protocol/commands.ts";
import { HandDrivenClient, HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const FORGED = "x\r\nRESERVED 5 3\r\nabc\r\n";
const LENGTH = FORGED.length;

/** Observes the replies in pieces of `size` bytes. */
function observed(replies: string, size: number): ReservedIds {
  const ids = new ReservedIds();
  const bytes = Buffer.from(replies, "latin1");
  for (let at = 0; at < bytes.length; at += size) {
    const piece = bytes.subarray(at, at + size);
    ids.observe(piece, piece.length);
  }
  return ids;
}

describe("ReservedIds", () => {
  for (const size of [1, 2, 3, 7, 1000]) {
    describe(`in pieces of ${size} bytes`, () => {
      it("knows each job that was reserved, alone and in a batch", () => {
        const ids = observed(
          "USING a\r\nRESERVED 12 1\r\nx\r\nRESERVED_BATCH 2\r\nRESERVED 7 0 mail-1\r\n\r\nRESERVED 8 2 mail-2\r\nab\r\n",
          size,
        );
        assert.deepEqual(
          [12, 7, 8, 1, 2, 0].map((id) => ids.has(id)),
          [true, true, true, false, false, false],
        );
      });

      for (const [name, head] of [
        ["a peeked job", `FOUND 9 ${LENGTH}`],
        ["a reserved job", `RESERVED 9 ${LENGTH}`],
        ["a reserved job with its tube", `RESERVED 9 ${LENGTH} mail-1`],
        ["a report", `OK ${LENGTH}`],
      ] as const) {
        it(`ignores the body of ${name}`, () => {
          const ids = observed(`${head}\r\n${FORGED}\r\nRESERVED 11 1\r\nz\r\n`, size);
          assert.equal(ids.has(5), false, "the body names it");
          assert.equal(ids.has(11), true, "the reply behind the body is read");
          assert.equal(ids.has(9), head.startsWith("RESERVED"));
        });
      }

      it("ignores other replies", () => {
        const ids = observed(
          "INSERTED 5\r\nKICKED 5\r\nWATCHING 5\r\nDELETED_BATCH 5\r\nFOUND 5 0\r\n\r\n",
          size,
        );
        assert.equal(ids.has(5), false);
      });
    });
  }

  it("forgets an id, and beyond 100,000 the oldest one", () => {
    const ids = observed("RESERVED 1 0\r\n\r\nRESERVED 2 0\r\n\r\n", 1000);
    ids.forget(1);
    assert.deepEqual([ids.has(1), ids.has(2)], [false, true]);
    for (let id = 10; id < 10 + 99_999; id++) {
      const reply = Buffer.from(`RESERVED ${id} 0\r\n\r\n`);
      ids.observe(reply, reply.length);
    }
    assert.deepEqual([ids.has(2), ids.has(10)], [true, true]);
    // Job 2 is given once more, and job 10 is then the one given longest ago.
    for (const id of [2, 3]) {
      const reply = Buffer.from(`RESERVED ${id} 0\r\n\r\n`);
      ids.observe(reply, reply.length);
    }
    assert.deepEqual(
      [2, 10, 11, 3].map((id) => ids.has(id)),
      [true, false, true, true],
    );
  });
});

// Tests of a token limited to some tubes, against every way to reach a job of another one.

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
      policies: [{ name: "test", tls: undefined, auth: "token", allow: undefined, proxyFrom: undefined }],
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
