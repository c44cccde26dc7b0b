// Tests of the soak's ledger with scripted events: each broken promise is reported, and everything
// allowed passes.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type FoundJob, JobLedger } from "./job-ledger.ts";
import type { OpenPut } from "./ledger-book.ts";
import { keyOf, makeBody } from "./soak-body.ts";
import { Violation } from "./violation.ts";

const TTR_SECONDS = 10;
const A = "A";
const B = "B";

/** A ledger with a clock that moves by a millisecond at each look. */
class Script {
  readonly ledger = new JobLedger();
  #nowMs = 1000;

  now(): number {
    return ++this.#nowMs;
  }

  pass(ms: number): void {
    this.#nowMs += ms;
  }

  /** The server is killed, or ends in order, and the next one starts with this wall clock. */
  restart(wallOffsetMs: number, inOrder = false): void {
    this.ledger.serverEnds(this.now());
    this.ledger.clock.ended(this.now(), inOrder);
    this.ledger.serverStarted(wallOffsetMs, this.now(), this.now());
  }

  /** The wall clock is set, and with `looked` the server has time to note that. */
  step(wallOffsetMs: number, looked: boolean): void {
    this.ledger.clock.stepped(wallOffsetMs, this.now());
    if (!looked) return;
    this.pass(1000);
    for (let puts = 0; puts < 2; puts++) this.ledger.clock.putTaken(this.now(), this.now(), true);
  }

  sendPut(pri = 5, delaySeconds = 0): OpenPut {
    const body = this.ledger.newBody("tube", 100, TTR_SECONDS);
    return this.ledger.putSent(A, body, pri, delaySeconds, this.now());
  }

  put(id: number, pri = 5, delaySeconds = 0): OpenPut {
    const put = this.sendPut(pri, delaySeconds);
    this.ledger.putInserted(put, id, this.now());
    return put;
  }

  body(put: OpenPut): Buffer {
    return makeBody(put.body.key, put.body.bytes);
  }

  reserve(client: string, put: OpenPut, id: number, sentMs = this.now()) {
    return this.ledger.reserved(client, id, this.body(put), sentMs, this.now());
  }

  delete(client: string, held: ReturnType<Script["reserve"]>): void {
    this.ledger.deleted(this.ledger.deleteSent(client, held.job, held.hold, this.now()), this.now());
  }

  settleFound(put: OpenPut, id: number, seen: Partial<FoundJob> = {}): void {
    const found = { body: this.body(put), tube: "tube", state: "ready", pri: 5, ...seen };
    this.ledger.settleFound(id, found, this.now(), this.now());
  }
}

function complains(what: RegExp, play: (script: Script) => void): void {
  assert.throws(
    () => play(new Script()),
    (error) => error instanceof Violation && what.test(error.message),
  );
}

describe("soak ledger: complains", () => {
  it("of an acknowledged job that is lost", () => {
    complains(/job 1 .*lost/, (script) => {
      script.put(1);
      script.ledger.settleAbsent(1, script.now());
    });
    complains(/job 1 .*lost/, (script) => {
      script.put(1);
      script.ledger.notFound(B, 1, script.now());
    });
  });

  it("of a deleted job that is back: held again, found by peek, found after a restart, found much later", () => {
    complains(/deleted it, and B was given it/, (script) => {
      const put = script.put(1);
      script.delete(A, script.reserve(A, put, 1));
      script.reserve(B, put, 1);
    });
    complains(/B found it by peek/, (script) => {
      const put = script.put(1);
      script.delete(A, script.reserve(A, put, 1));
      script.ledger.found(B, 1, script.body(put), script.now(), script.now());
    });
    complains(/deleted, and found again/, (script) => {
      const put = script.put(1);
      script.delete(A, script.reserve(A, put, 1));
      script.restart(0);
      script.settleFound(put, 1);
    });
    complains(/deleted long ago/, (script) => {
      const put = script.put(1);
      script.delete(A, script.reserve(A, put, 1));
      script.ledger.settleAbsent(1, script.now());
      script.settleFound(put, 1);
    });
  });

  it("of two holders at once, until the TTR, and again after a touch", () => {
    complains(/A holds it until .*, and B was given it/, (script) => {
      const put = script.put(1);
      script.reserve(A, put, 1);
      script.pass(TTR_SECONDS * 1000 - 100);
      script.reserve(B, put, 1);
    });
    complains(/A holds it until/, (script) => {
      const put = script.put(1);
      const { job, hold } = script.reserve(A, put, 1);
      script.pass(TTR_SECONDS * 1000 - 100);
      script.ledger.touched(job, hold, script.now(), script.now());
      script.pass(200);
      script.reserve(B, put, 1);
    });
  });

  it("of a holder that gets NOT_FOUND before its TTR can have ended", () => {
    complains(/was told NOT_FOUND/, (script) => {
      const { job, hold } = script.reserve(A, script.put(1), 1);
      script.ledger.deleteRefused(script.ledger.deleteSent(A, job, hold, script.now()), script.now());
    });
    complains(/was told NOT_FOUND/, (script) => {
      const { job, hold } = script.reserve(A, script.put(1), 1);
      script.ledger.changeRefused(
        script.ledger.changeSent(job, hold, "ready", 1, 0, script.now()),
        script.now(),
      );
    });
  });

  it("of a reused id", () => {
    complains(/id was given again/, (script) => {
      script.put(1);
      script.put(1);
    });
    complains(/id was given again/, (script) => {
      const put = script.put(1);
      script.delete(A, script.reserve(A, put, 1));
      script.ledger.settleAbsent(1, script.now());
      script.put(1);
    });
    complains(/answered INSERTED 2, but the job was seen as 1/, (script) => {
      const put = script.sendPut();
      script.reserve(B, put, 1);
      script.ledger.putInserted(put, 2, script.now());
    });
  });

  it("of other bytes, another tube, another pri, another state", () => {
    complains(/other bytes/, (script) => {
      const put = script.put(1);
      const body = script.body(put);
      body[50]! ^= 1;
      script.ledger.reserved(B, 1, body, script.now(), script.now());
    });
    for (const [what, seen] of [
      [/found in tube other/, { tube: "other" }],
      [/found ready with pri 6/, { pri: 6 }],
      [/found buried/, { state: "buried" }],
      [/found reserved/, { state: "reserved" }],
      [/found delayed/, { state: "delayed" }],
    ] as const) {
      complains(what, (script) => script.settleFound(script.put(1), 1, seen));
    }
  });

  it("of a delay that ends early or never", () => {
    complains(/by a reserve sent/, (script) => {
      const put = script.put(1, 5, 3);
      script.pass(2900);
      script.reserve(B, put, 1);
    });
    complains(/found delayed/, (script) => {
      const put = script.put(1, 5, 3);
      script.pass(7000);
      script.settleFound(put, 1, { state: "delayed" });
    });
  });

  it("of a delay that ends early or late after a restart, by the log's clock", () => {
    const lateMs = 105_000;
    for (const { steps, restartsAt, inOrder, afterMs, seen } of [
      // A step that was noted, in time or at the end, moves nothing.
      { steps: [[60_000, true]], restartsAt: 60_000, afterMs: 50_000, seen: "ready" },
      { steps: [[60_000, false]], restartsAt: 60_000, inOrder: true, afterMs: 50_000, seen: "ready" },
      { steps: [[-60_000, true]], restartsAt: -60_000, afterMs: lateMs, seen: "delayed" },
      // So does one that may not have been, if the log's clock would show a time before the put.
      { steps: [[-60_000, false]], restartsAt: -60_000, afterMs: lateMs, seen: "delayed" },
      // The clock goes ahead while no server runs, or back: then no time has passed.
      { steps: [], restartsAt: 60_000, afterMs: 30_000, seen: "ready" },
      { steps: [], restartsAt: 60_000, afterMs: 45_000, seen: "delayed" },
      { steps: [], restartsAt: -60_000, afterMs: 95_000, seen: "ready" },
      { steps: [], restartsAt: -60_000, afterMs: lateMs, seen: "delayed" },
      { steps: [[60_000, true]], restartsAt: 90_000, afterMs: 60_000, seen: "ready" },
      { steps: [[60_000, true]], restartsAt: 90_000, afterMs: 75_000, seen: "delayed" },
      // A step that may not have been noted leaves two ends, none before, and none after.
      { steps: [[60_000, false]], restartsAt: 60_000, afterMs: 30_000, seen: "ready" },
      { steps: [[60_000, false]], restartsAt: 60_000, afterMs: lateMs, seen: "delayed" },
    ] as const)
      for (const answered of [true, false]) {
        if (!answered && seen === "delayed") continue;
        complains(new RegExp(`found ${seen}`), (script) => {
          const put = answered ? script.put(1, 5, 100) : script.sendPut(5, 100);
          for (const [offsetMs, looked] of steps) script.step(offsetMs, looked);
          script.restart(restartsAt, inOrder);
          script.pass(afterMs);
          script.settleFound(put, 1, { state: seen });
        });
      }
  });

  it("of a delay that lasts longer than it was asked to", () => {
    complains(/found delayed/, (script) => {
      const put = script.put(1, 5, 3);
      script.pass(2000);
      script.restart(-3_600_000);
      script.pass(7100);
      script.settleFound(put, 1, { state: "delayed" });
    });
  });

  it("of a buried job that a reserve gets", () => {
    complains(/is buried/, (script) => {
      const put = script.put(1);
      const { job, hold } = script.reserve(A, put, 1);
      script.ledger.changeDone(
        script.ledger.changeSent(job, hold, "buried", 7, 0, script.now()),
        script.now(),
      );
      script.reserve(B, put, 1);
    });
  });

  it("of a job that was never put, was refused, exists twice, or appears after a settlement", () => {
    complains(/nobody put it/, (script) => {
      script.ledger.reserved(B, 1, makeBody(77, 50), script.now(), script.now());
    });
    complains(/nobody put it/, (script) => {
      const put = script.sendPut();
      script.ledger.putRefused(put, script.now());
      script.settleFound(put, 1);
    });
    complains(/it exists twice/, (script) => {
      const put = script.sendPut();
      script.reserve(A, put, 1);
      script.reserve(B, put, 2);
    });
    complains(/nobody put it/, (script) => {
      const put = script.sendPut();
      script.ledger.settled(5, script.now());
      script.settleFound(put, 1);
    });
  });
});

describe("soak ledger: lets pass", () => {
  it("either outcome of an unanswered command", () => {
    for (const isThere of [true, false]) {
      const script = new Script();
      const lost = script.sendPut();
      const put = script.put(2);
      const { job, hold } = script.reserve(A, put, 2);
      script.ledger.deleteSent(A, job, hold, script.now());
      script.restart(0);
      if (isThere) {
        script.settleFound(lost, 1);
        script.settleFound(put, 2);
      } else {
        script.ledger.settleAbsent(1, script.now());
        script.ledger.settleAbsent(2, script.now());
      }
      assert.equal(script.ledger.liveJobs, isThere ? 2 : 0);
    }
  });

  it("a second holder after TTR, release, the end of the connection or of the server", () => {
    const endings: ((script: Script, held: ReturnType<Script["reserve"]>) => void)[] = [
      (script) => script.pass(TTR_SECONDS * 1000),
      (script, { job, hold }) => void script.ledger.changeSent(job, hold, "ready", 5, 0, script.now()),
      (script, { hold }) => script.ledger.clientLeft([hold], script.now()),
      (script) => {
        script.restart(0);
      },
    ];
    for (const end of endings) {
      const script = new Script();
      const put = script.put(1);
      end(script, script.reserve(A, put, 1));
      script.reserve(B, put, 1);
    }
  });

  it("replies that are read in another order than sent", () => {
    const script = new Script();
    const put = script.sendPut();
    const slowMs = script.now();
    // B's TTR ends before A gets the job and deletes it; B reads last.
    script.pass(TTR_SECONDS * 1000 + 1);
    const held = script.reserve(A, put, 1);
    script.ledger.putInserted(put, 1, script.now());
    script.delete(A, held);
    script.reserve(B, put, 1, slowMs);
  });

  it("either end of a delay if a step of the wall clock may have been noted", () => {
    for (const seen of ["ready", "delayed"]) {
      const script = new Script();
      const put = script.put(1, 5, 100);
      script.step(60_000, false);
      script.restart(60_000);
      script.pass(60_000);
      script.settleFound(put, 1, { state: seen });
    }
  });

  it("many restarts that may each have moved a delay", () => {
    const script = new Script();
    const put = script.put(1, 5, 1000);
    for (let offsetMs = 1000; offsetMs <= 20_000; offsetMs += 1000) {
      script.step(offsetMs, false);
      script.restart(offsetMs);
      script.settleFound(put, 1, { state: "delayed" });
    }
    assert.ok(script.ledger.jobs.get(1)!.rests.length <= 8, "the alternatives do not grow without end");
    script.pass(980_000);
    for (const state of ["delayed", "ready"]) script.settleFound(put, 1, { state });
  });

  it("a delay that ends as the wall clock goes ahead over a restart, and kicked jobs", () => {
    const script = new Script();
    const put = script.put(1, 5, 100);
    script.restart(200_000);
    script.settleFound(put, 1);
    const unanswered = script.sendPut(5, 100);
    script.restart(400_000);
    script.settleFound(unanswered, 3);
    const other = script.put(2, 5, 100);
    script.ledger.kickSent("tube");
    script.settleFound(other, 2);
  });
});

describe("soak body", () => {
  it("has a key and a checksum, whatever its length", () => {
    for (const bytes of [0, 30, 1000, 1 << 20]) {
      const body = makeBody(12345, bytes);
      assert.equal(body.length, Math.max(bytes, 24));
      assert.equal(keyOf(body), 12345);
      body[body.length - 1]! ^= 1;
      assert.equal(keyOf(body), undefined);
    }
  });
});
