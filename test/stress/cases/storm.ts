// Wake-up storms: many threads ring one owner, and one thread rings many owners.

import { DOORBELL_WORDS, Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";
import { LOG_WORDS, LogWord, LogWords } from "../../../src/ring/shared-words.ts";
import type { ActorRun, Outcome, Shared, StressCase } from "../case.ts";
import { plain } from "../pauses.ts";
import { LateAnnouncer } from "../planted/doorbells.ts";
import { RungAt } from "../rung-at.ts";
import { SLEEP_MS, sleptThrough } from "../stopwatch.ts";

const LATE = "announces only when it sleeps";
const RINGS_FIRST = "rings before it publishes";

const LOOKED: Outcome = {
  result: "news came between the announcement and the look",
  verdict: "INTERESTING",
  why: "this is what the second look is for",
};
const SLEPT: Outcome = {
  result: "slept",
  verdict: "ACCEPTABLE",
  why: "there was no news; a ring ended the sleep, or nobody came",
  required: true,
};
const RUNG: Outcome = {
  result: "rang a sleeper",
  verdict: "ACCEPTABLE",
  why: "the owner had announced sleep, and nobody else had rung yet",
  required: true,
};
const NOT_NEEDED: Outcome = {
  result: "found it awake",
  verdict: "ACCEPTABLE",
  why: "the owner was awake, or somebody else had rung already",
  required: true,
};

/** An actor that sleeps until some ringers have news. */
class Sleeper {
  readonly #owner: DoorbellOwner;
  readonly #synced: LogWords;
  readonly #rungAt: RungAt;
  readonly #seen: Int32Array;
  readonly #ringers: number;
  readonly #run: ActorRun;

  /** `seen`: for each ringer, the last number that was seen. */
  constructor(index: number, ringers: number, seen: Int32Array, shared: Shared, run: ActorRun) {
    const words = new Int32Array(shared["doorbells"]!);
    this.#owner = run.planted === LATE ? new LateAnnouncer(words, index) : new DoorbellOwner(words, index);
    this.#synced = new LogWords(shared["synced"]!, LogWord.Synced);
    this.#rungAt = new RungAt(shared["rungAt"]!);
    this.#seen = seen;
    this.#ringers = ringers;
    this.#run = run;
  }

  /** Takes all news, or sleeps for some. */
  turn(): void {
    let news = false;
    for (let ringer = 0; ringer < this.#ringers; ringer++) {
      while (this.#hasNews(ringer)) {
        plain.add(this.#seen, ringer, 1);
        news = true;
      }
      if (news) plain.notify(this.#seen, ringer);
    }
    if (news) return;
    this.#owner.prepare();
    if (this.#anyNews()) {
      this.#owner.cancel();
      this.#run.see(LOOKED.result);
      return;
    }
    this.#owner.sleep(SLEEP_MS);
    for (let ringer = 0; ringer < this.#ringers; ringer++) {
      if (this.#hasNews(ringer) && sleptThrough(this.#rungAt.at(ringer)))
        this.#run.see("a wake-up was lost: slept on although there was news", `of ringer ${ringer}`);
    }
    this.#run.see(SLEPT.result);
  }

  #hasNews(ringer: number): boolean {
    return this.#synced.reached(ringer, plain.load(this.#seen, ringer) + 1);
  }

  #anyNews(): boolean {
    for (let ringer = 0; ringer < this.#ringers; ringer++) if (this.#hasNews(ringer)) return true;
    return false;
  }
}

/** A lull: the next publication would wake an owner that this one has failed to wake. */
function awaitSeen(seen: Int32Array, ringer: number, number: number, run: ActorRun): void {
  for (let looks = 0; !run.failed && looks < 2 * SLEEP_MS; looks++) {
    const now = plain.load(seen, ringer);
    if (now === number) return;
    plain.wait(seen, ringer, now, 1);
  }
}

function ringAll(
  ringer: number,
  bells: readonly Doorbell[],
  owners: Int32Array[],
  shared: Shared,
  run: ActorRun,
): void {
  const synced = new LogWords(shared["synced"]!, LogWord.Synced);
  const rungAt = new RungAt(shared["rungAt"]!);
  const ring = (): void => {
    for (const bell of bells) {
      const slept = bell.ring();
      run.see(slept ? RUNG.result : NOT_NEEDED.result);
    }
  };
  for (let number = 1; run.next(); number++) {
    rungAt.begin(ringer);
    if (run.planted === RINGS_FIRST) ring();
    synced.publish(ringer, number);
    if (run.planted !== RINGS_FIRST) ring();
    rungAt.over(ringer);
    if (run.random.chance(0.5)) for (const seen of owners) awaitSeen(seen, ringer, number, run);
  }
}

const RINGERS = 3;

export const manyRingersCase: StressCase = {
  name: "many-ringers",
  about: "three threads publish to one owner and ring it",
  actors: ["owner", "ringer 0", "ringer 1", "ringer 2"],
  outcomes: [LOOKED, SLEPT, RUNG, NOT_NEEDED],
  planted: [LATE],
  create: () => ({
    doorbells: new SharedArrayBuffer(DOORBELL_WORDS * 4),
    synced: new SharedArrayBuffer(RINGERS * LOG_WORDS * 4),
    rungAt: new SharedArrayBuffer(RungAt.bytes(RINGERS)),
    seen: new SharedArrayBuffer(RINGERS * 4),
  }),
  play(actor, shared, run) {
    const seen = new Int32Array(shared["seen"]!);
    if (actor > 0) {
      const words = new Int32Array(shared["doorbells"]!);
      ringAll(actor - 1, [new Doorbell(words, 0)], [seen], shared, run);
      return;
    }
    const sleeper = new Sleeper(0, RINGERS, seen, shared, run);
    while (run.next()) sleeper.turn();
  },
};

const OWNERS = 3;

export const manyOwnersCase: StressCase = {
  name: "many-owners",
  about: "one thread publishes and rings three owners in turn, as the binlog does with acceptors",
  actors: ["ringer", "owner 0", "owner 1", "owner 2"],
  outcomes: [LOOKED, SLEPT, RUNG, NOT_NEEDED],
  planted: [LATE, RINGS_FIRST],
  create: () => ({
    doorbells: new SharedArrayBuffer(OWNERS * DOORBELL_WORDS * 4),
    synced: new SharedArrayBuffer(LOG_WORDS * 4),
    rungAt: new SharedArrayBuffer(RungAt.bytes(1)),
    seen0: new SharedArrayBuffer(4),
    seen1: new SharedArrayBuffer(4),
    seen2: new SharedArrayBuffer(4),
  }),
  play(actor, shared, run) {
    const seen = Array.from({ length: OWNERS }, (_, owner) => new Int32Array(shared[`seen${owner}`]!));
    if (actor === 0) {
      const words = new Int32Array(shared["doorbells"]!);
      const bells = Array.from({ length: OWNERS }, (_, owner) => new Doorbell(words, owner));
      ringAll(0, bells, seen, shared, run);
      return;
    }
    const sleeper = new Sleeper(actor - 1, 1, seen[actor - 1]!, shared, run);
    while (run.next()) sleeper.turn();
  },
};
