import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { JobTable } from "../../../../src/engine/jobs/job-table.ts";
import { Session, Waiting } from "../../../../src/engine/state/session.ts";
import { Waiters } from "../../../../src/engine/state/waiters.ts";
import { TubeSettings } from "../../../../src/engine/tubes/tube-settings.ts";
import { TubeTable } from "../../../../src/engine/tubes/tube-table.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";

const EFFECTS = unheardEffects({ stillWaiting: (session) => session.index !== 9 });

interface Scene {
  readonly waiters: Waiters;
  readonly tubes: TubeTable;
  /** A session that watches `t` and so many tubes of its own. */
  readonly session: (index: number, others: number) => Session;
}

function scene(): Scene {
  const jobs = new JobTable();
  const tubes = new TubeTable(jobs, EFFECTS.nextTubeSequence, new TubeSettings());
  const waiters = new Waiters(EFFECTS);
  const session = (index: number, others: number): Session => {
    const made = new Session(index, jobs);
    waiters.watch(made, tubes.open("t"));
    for (let other = 0; other < others; other++) waiters.watch(made, tubes.open(`t${index}-${other}`));
    return made;
  };
  return { waiters, tubes, session };
}

describe("Waiters", () => {
  it("name the longest waiter among sessions with few and with many tubes", () => {
    const { waiters, tubes, session } = scene();
    const tube = tubes.open("t");
    // 20 sessions are more than are looked at before the tube's own are put in order.
    const sessions = Array.from({ length: 20 }, (_, index) => session(index, index % 3 === 0 ? 1 : 10));
    const order = sessions.map((_, place) => (place * 7) % sessions.length);
    for (const index of order) waiters.begin(sessions[index]!, Waiting.Alone, Number.POSITIVE_INFINITY);
    assert.equal(waiters.alone, sessions.length);
    for (const index of order) {
      assert.equal(waiters.longest(tube), sessions[index]);
      waiters.end(sessions[index]!);
    }
    assert.equal(waiters.longest(tube), undefined);
    assert.equal(waiters.alone, 0);
  });

  it("put a session that waits again behind all others", () => {
    const { waiters, tubes, session } = scene();
    const [first, second] = [session(1, 10), session(2, 0)];
    for (const each of [first, second]) waiters.begin(each, Waiting.Alone, Number.POSITIVE_INFINITY);
    waiters.end(first);
    waiters.begin(first, Waiting.Alone, Number.POSITIVE_INFINITY);
    assert.equal(waiters.longest(tubes.open("t")), second);
  });

  it("count those whose wait no other shard has ended", () => {
    const { waiters, tubes, session } = scene();
    for (const index of [7, 8, 9])
      waiters.begin(session(index, index), Waiting.Shared, Number.POSITIVE_INFINITY);
    assert.equal(waiters.count(tubes.open("t")), 2);
    assert.equal(waiters.count(tubes.open("t8-3")), 1);
    assert.equal(waiters.count(tubes.open("t9-3")), 0);
  });

  it("refuse a second wait, and a change of watches during a wait", () => {
    const { waiters, tubes, session } = scene();
    const waiting = session(1, 0);
    waiters.begin(waiting, Waiting.Alone, Number.POSITIVE_INFINITY);
    const again = (): void => waiters.begin(waiting, Waiting.Alone, Number.POSITIVE_INFINITY);
    assert.throws(again, /broken invariant: a session waits once/);
    assert.throws(() => waiters.watch(waiting, tubes.open("x")), /keeps its watches/);
  });
});
