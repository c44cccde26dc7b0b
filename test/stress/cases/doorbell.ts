// One owner who looks and sleeps against one publisher who publishes and rings, in step: no wake-up
// may be lost.

import { DOORBELL_WORDS, Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";
import { LOG_WORDS, LogWord, LogWords } from "../../../src/ring/shared-words.ts";
import type { ActorRun, Shared, StressCase } from "../case.ts";
import { lastWait, plain } from "../pauses.ts";
import { LateAnnouncer, SilentBell } from "../planted/doorbells.ts";
import { RungAt } from "../rung-at.ts";
import { SLEEP_MS, sleptThrough } from "../stopwatch.ts";

const OWNER = 0;
const LATE = "announces only when it sleeps";
const LOOKS_FIRST = "looks before it announces";
const SILENT = "notifies without clearing the word";
const RINGS_FIRST = "rings before it publishes";
const NOT_RUNG = 1;
const RUNG = 2;

/**
 * `steps`: the owner's number of rounds done, and the publisher's (round * 4 + NOT_RUNG or RUNG).
 */
const OWNER_DONE = 0;
const RINGER_DONE = 16;

function publish(shared: Shared, run: ActorRun): void {
  const synced = new LogWords(shared["synced"]!, LogWord.Synced);
  const words = new Int32Array(shared["doorbells"]!);
  const bell = run.planted === SILENT ? new SilentBell(words, 0) : new Doorbell(words, 0);
  const rungAt = new RungAt(shared["rungAt"]!);
  const steps = new Int32Array(shared["steps"]!);
  for (let round = 1; run.next(); round++) {
    run.meet(round);
    rungAt.begin(0);
    let rung = run.planted === RINGS_FIRST && bell.ring();
    synced.publish(0, round);
    if (run.planted !== RINGS_FIRST) rung = bell.ring();
    rungAt.over(0);
    plain.store(steps, RINGER_DONE, round * 4 + (rung ? RUNG : NOT_RUNG));
    plain.notify(steps, RINGER_DONE);
    for (;;) {
      const done = plain.load(steps, OWNER_DONE);
      if (done === round) break;
      if (run.failed) return;
      plain.wait(steps, OWNER_DONE, done, 10);
    }
  }
  plain.store(steps, RINGER_DONE, -1);
  // The owner may sleep already, for a round that will not come.
  bell.ring();
}

function own(shared: Shared, run: ActorRun): void {
  const synced = new LogWords(shared["synced"]!, LogWord.Synced);
  const words = new Int32Array(shared["doorbells"]!);
  const owner = run.planted === LATE ? new LateAnnouncer(words, 0) : new DoorbellOwner(words, 0);
  const rungAt = new RungAt(shared["rungAt"]!);
  const steps = new Int32Array(shared["steps"]!);
  for (let round = 1; ; round++) {
    run.meet(round);
    let how = "";
    while (how === "") {
      if (seenBeforeSleep(owner, () => synced.reached(0, round), run.planted === LOOKS_FIRST)) {
        how = "seen before the sleep";
        break;
      }
      owner.sleep(SLEEP_MS);
      if (plain.load(steps, RINGER_DONE) === -1 || run.failed) return;
      if (synced.reached(0, round)) how = wakeWithNews(rungAt);
      else if (lastWait.result !== "timed-out") how = "woken without news";
    }
    run.see(`${how}, ${ringing(steps, round, run)}`);
    if (run.failed) return;
    plain.store(steps, OWNER_DONE, round);
    plain.notify(steps, OWNER_DONE);
  }
}

/** Announces the sleep and looks, as is right, or looks first. */
function seenBeforeSleep(owner: DoorbellOwner, looks: () => boolean, looksFirst: boolean): boolean {
  if (looksFirst && looks()) return true;
  owner.prepare();
  if (looksFirst || !looks()) return false;
  owner.cancel();
  return true;
}

function wakeWithNews(rungAt: RungAt): string {
  if (sleptThrough(rungAt.at(0))) return "a wake-up was lost: slept on";
  if (lastWait.result === "timed-out") return "the publisher came when the sleep was over";
  return lastWait.result === "ok" ? "slept" : "would have slept";
}

function ringing(steps: Int32Array, round: number, run: ActorRun): string {
  for (;;) {
    const done = plain.load(steps, RINGER_DONE);
    if (done >> 2 === round) return (done & 3) === RUNG ? "rung" : "not rung";
    if (run.failed) return "no word of the publisher";
    plain.wait(steps, RINGER_DONE, done, 10);
  }
}

export const doorbellCase: StressCase = {
  name: "doorbell",
  about: "announce, look, sleep against publish, ring: every publication is seen or wakes",
  actors: ["owner", "publisher"],
  outcomes: [
    {
      result: "seen before the sleep, not rung",
      verdict: "ACCEPTABLE",
      why: "the publisher looked at the bell before the announcement, so its publication came before the look",
      required: true,
    },
    {
      result: "seen before the sleep, rung",
      verdict: "INTERESTING",
      why: "the ring came between announcement and look, and nobody needs it",
    },
    { result: "slept, rung", verdict: "ACCEPTABLE", why: "the ring ended the sleep", required: true },
    {
      result: "would have slept, rung",
      verdict: "INTERESTING",
      why: "the ring came between look and sleep: the word was changed, so the wait returned at once",
    },
    {
      result: "the publisher came when the sleep was over, rung",
      verdict: "INTERESTING",
      why: "it was held up longer than the owner sleeps, and rang before the owner was awake",
    },
    {
      result: "the publisher came when the sleep was over, not rung",
      verdict: "INTERESTING",
      why: "it was held up longer than the owner sleeps",
    },
  ],
  planted: [LATE, LOOKS_FIRST, SILENT, RINGS_FIRST],
  create: () => ({
    doorbells: new SharedArrayBuffer(DOORBELL_WORDS * 4),
    synced: new SharedArrayBuffer(LOG_WORDS * 4),
    rungAt: new SharedArrayBuffer(RungAt.bytes(1)),
    steps: new SharedArrayBuffer(32 * 4),
  }),
  play(actor, shared, run) {
    if (actor === OWNER) own(shared, run);
    else publish(shared, run);
  },
};
