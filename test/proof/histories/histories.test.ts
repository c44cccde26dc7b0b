// Tests of the checker of histories: what it accepts and refuses, that it finds planted bugs, and a
// few histories of a running server.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { skipVariant } from "../../support/whole.ts";
import { emptyTally, playParty, type Tally } from "./campaign.ts";
import { checkHistory } from "./check-history.ts";
import { OUR_SERVERS, type StartedServer, startHistoryServer } from "./history-servers.ts";
import { ForeignJudge, OurJudge } from "./judges.ts";
import { BLANK, NEVER_US, type Recorded } from "./operation.ts";
import type { LieName } from "./planted-lies.ts";

const SECOND_US = 1_000_000;
const LIES_MAX = 60;

/** Operations one after the other, a millisecond each, unless they say when. */
function verdictOn(...operations: readonly Partial<Recorded>[]): string {
  const history = operations.map((operation, index): Recorded => {
    const callUs = operation.callUs ?? index * 1000;
    return { ...BLANK, client: 1, callUs, returnUs: callUs + 500, body: "b", ...operation };
  });
  return checkHistory({ name: "by hand", operations: history }).verdict;
}

const put = (job: number, pri = 0): Partial<Recorded> => ({ kind: "put", job, pri, result: "inserted" });
const reserved = (job: number, client = 1): Partial<Recorded> => ({
  kind: "reserve",
  job,
  client,
  ttrSeconds: 100,
  result: "reserved",
});
const timedOut: Partial<Recorded> = { kind: "reserve", client: 2, result: "timed-out" };
const about = (
  kind: Recorded["kind"],
  job: number,
  result: Recorded["result"] = "done",
): Partial<Recorded> => ({
  kind,
  job,
  result,
});

describe("the checker of histories", () => {
  it("accepts the life of a job, and the best of two first", () => {
    assert.equal(verdictOn(put(1, 3), put(2, 2), reserved(2), about("delete", 2), reserved(1)), "accepted");
    assert.equal(verdictOn(put(1), reserved(1), about("release", 1), reserved(1, 2)), "accepted");
    assert.equal(
      verdictOn(put(1), reserved(1), { ...about("delete", 1, "not-found"), client: 2 }, timedOut),
      "accepted",
    );
  });

  it("accepts any order of commands that overlap, and no other", () => {
    const late = { ...put(1), callUs: 0, returnUs: 5000 };
    assert.equal(verdictOn(late, timedOut, { ...reserved(1), callUs: 3000 }), "accepted");
    assert.equal(verdictOn(late, { ...timedOut, callUs: 6000 }), "refused");
  });

  it("refuses a job given twice, one passed over, and a lost release", () => {
    assert.equal(verdictOn(put(1), reserved(1), reserved(1, 2)), "refused");
    assert.equal(verdictOn(put(1, 1), put(2, 0), reserved(1)), "refused");
    assert.equal(verdictOn(put(1), reserved(1), about("release", 1), timedOut), "refused");
  });

  it("refuses another body, another state, and a count that is wrong", () => {
    assert.equal(verdictOn(put(1), { ...reserved(1), body: "other" }), "refused");
    assert.equal(verdictOn(put(1), { ...about("stats-job", 1, "counted"), state: "buried" }), "refused");
    assert.equal(
      verdictOn(put(1), { kind: "stats-tube", result: "counted", counts: [0, 0, 0, 0] }),
      "refused",
    );
  });

  it("ends delays and reservations in their time, neither before nor after", () => {
    const delayed = { ...put(1), delaySeconds: 1 };
    assert.equal(verdictOn(delayed, { ...reserved(1), callUs: SECOND_US }), "accepted");
    assert.equal(verdictOn(delayed, { ...reserved(1), callUs: SECOND_US / 2 }), "refused");
    assert.equal(verdictOn(delayed, { ...timedOut, callUs: 3 * SECOND_US }), "refused");
    const short = { ...reserved(1), ttrSeconds: 2 };
    const soon: Partial<Recorded> = { kind: "reserve", result: "deadline-soon" };
    assert.equal(verdictOn(put(1), short, { ...reserved(1, 2), callUs: 2 * SECOND_US }), "accepted");
    assert.equal(verdictOn(put(1), short, { ...reserved(1, 2), callUs: SECOND_US }), "refused");
    assert.equal(verdictOn(put(1), short, { ...soon, callUs: 1.5 * SECOND_US }), "accepted");
    assert.equal(verdictOn(put(1), short, { ...soon, callUs: SECOND_US / 2 }), "refused");
    assert.equal(
      verdictOn(
        put(1),
        short,
        { ...about("touch", 1), ttrSeconds: 2 },
        { ...timedOut, callUs: 5 * SECOND_US },
      ),
      "refused",
    );
  });
});

describe("the checker, of what was not answered", () => {
  const unknown = { result: "unknown", returnUs: NEVER_US } as const;
  const lost = (operation: Partial<Recorded>): Partial<Recorded> => ({ ...operation, ...unknown });
  /** Another server has the lead from here on. */
  const until = (operation: Partial<Recorded>, returnUs: number): Partial<Recorded> => ({
    ...lost(operation),
    returnUs,
  });
  const gone = (job: number, client = 1): Partial<Recorded> => ({
    ...about("leave", job),
    client,
    callUs: 1800,
    returnUs: SECOND_US,
  });

  it("takes effect at any later moment, or never", () => {
    const deletion = lost(about("delete", 1));
    assert.equal(verdictOn(put(1), deletion, reserved(1, 2)), "accepted");
    assert.equal(verdictOn(put(1), deletion, timedOut), "accepted");
    assert.equal(verdictOn(put(1), deletion, timedOut, reserved(1, 2)), "refused");
    assert.equal(verdictOn(reserved(1, 2), lost({ kind: "put", body: "b" })), "refused");
    assert.equal(verdictOn(lost({ kind: "put", body: "b" }), timedOut), "accepted");
    assert.equal(verdictOn(lost({ kind: "put", body: "b" }), timedOut, reserved(1, 2)), "accepted");
    assert.equal(verdictOn(put(1, 3), lost({ ...put(2, 1), job: 0, body: "c" }), reserved(1, 2)), "accepted");
  });

  it("may have taken a job, until the client is surely gone", () => {
    const taken = lost({ kind: "reserve", client: -3 });
    assert.equal(verdictOn(put(1), taken, timedOut, reserved(1, 2), gone(0, -3)), "accepted");
    assert.equal(verdictOn(put(1), taken, timedOut, reserved(1, 2)), "refused");
  });

  it("may be undone by another lead, and nothing that was answered may", () => {
    const unborn = { kind: "put", body: "b" } as const;
    const end = { ...timedOut, callUs: 9000 };
    assert.equal(verdictOn(until(unborn, 5000), reserved(1), gone(1), end), "accepted");
    assert.equal(verdictOn(lost(unborn), reserved(1), gone(1), end), "accepted", "it is still held");
    assert.equal(verdictOn(put(1), reserved(1), gone(1), { ...end, callUs: 2 * SECOND_US }), "refused");
    const counted = { kind: "stats-tube", result: "counted", counts: [1, 0, 0, 0] } as const;
    assert.equal(verdictOn(until(unborn, 5000), { ...counted, callUs: 2000 }, end), "accepted");
    assert.equal(verdictOn(until(unborn, 5000), { ...counted, callUs: 6000 }, end), "refused");
    const deletion = until(about("delete", 1), 5000);
    assert.equal(verdictOn(put(1), deletion, timedOut, { ...reserved(1, 2), callUs: 6000 }), "accepted");
    const late = until({ ...about("delete", 1), callUs: 7000 }, 5000);
    assert.equal(verdictOn(put(1), late, { ...timedOut, callUs: 8000 }), "refused", "it came too late");
    const buried = [put(1), reserved(1), about("bury", 1), reserved(1, 2)];
    assert.equal(verdictOn(...buried), "refused");
    assert.equal(
      verdictOn(put(1), reserved(1), until(about("bury", 1), 5000), { ...timedOut, callUs: 3000 }, gone(1), {
        ...reserved(1, 2),
        callUs: 6000,
      }),
      "accepted",
    );
  });
});

describe("histories of a running server", () => {
  const judge = new OurJudge();
  let started: StartedServer | undefined;
  let parties = 0;
  before(async () => {
    started = await startHistoryServer(OUR_SERVERS.find(({ name }) => name === "4x2-libuv")!);
  });
  after(async () => {
    await judge.close();
    await started?.end();
  });
  const play = async (tubes: number, tally: Tally, lie?: LieName): Promise<void> => {
    const lying = lie === undefined ? {} : { lie };
    await playParty(
      started!.server,
      { name: "test", seed: 1, judge, party: ++parties, tubes, ...lying },
      tally,
    );
  };

  it("are accepted, by another checker too", async () => {
    const foreign = new ForeignJudge(
      `${process.execPath} ${fileURLToPath(new URL("check-lines.ts", import.meta.url))}`,
      judge,
    );
    const tally = emptyTally();
    const options = { name: "test", seed: 1, judge: foreign, party: ++parties, tubes: 3 };
    await Promise.all([play(3, tally), playParty(started!.server, options, tally)]);
    assert.deepEqual(tally.finds, []);
    assert.equal(tally.accepted, 6);
    await foreign.close();
  });

  const lies = ["a job is given twice", "a better job is passed over", "a release is lost"] as const;
  for (const [index, lie] of lies.entries())
    it(`are refused if ${lie}`, { skip: skipVariant(index, 3) }, async () => {
      const tally = emptyTally();
      // One lie in two is hidden by what other clients do at that moment.
      while (tally.refused === 0 && tally.lies < LIES_MAX)
        await Promise.all([play(1, tally, lie), play(1, tally, lie), play(1, tally, lie)]);
      assert.ok(tally.refused > 0, `none of ${tally.lies} lies was noticed`);
    });
});
