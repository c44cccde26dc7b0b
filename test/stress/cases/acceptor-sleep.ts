// Waiting acceptor: waitAsync beside its sockets, which may end the wait first and leave it pending
// for the next.

import { DOORBELL_WORDS, Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";
import { monotonicMs } from "../../../src/ring/monotonic-clock.ts";
import { LOG_WORDS, LogWord, LogWords } from "../../../src/ring/shared-words.ts";
import type { ActorRun, Shared, StressCase } from "../case.ts";
import { plain } from "../pauses.ts";
import { LateAnnouncer, SilentBell } from "../planted/doorbells.ts";
import { RungAt } from "../rung-at.ts";
import { SLEEP_MS } from "../stopwatch.ts";

const SHARDS = 2;
const LATE = "announces only when it sleeps";
const SILENT = "notifies without clearing the word";
const LEAVES_IT = "believes in an earlier wait that has ended";

/**
 * The sleep of src/acceptor/acceptor-thread.ts, with news of shards in place of rings, and timers
 * in place of sockets.
 */
class Acceptor {
  readonly #owner: DoorbellOwner;
  readonly #synced: LogWords;
  readonly #rungAt: RungAt;
  readonly #seen: Int32Array;
  readonly #run: ActorRun;
  readonly #end: () => void;
  #scheduled = false;
  #asleep = false;
  #waitPending = false;
  #forgetSocket: () => void = () => {};
  #since = 0;

  constructor(shared: Shared, run: ActorRun, end: () => void) {
    const words = new Int32Array(shared["doorbells"]!);
    this.#owner = run.planted === LATE ? new LateAnnouncer(words, 0) : new DoorbellOwner(words, 0);
    this.#synced = new LogWords(shared["synced"]!, LogWord.Synced);
    this.#rungAt = new RungAt(shared["rungAt"]!);
    this.#seen = new Int32Array(shared["seen"]!);
    this.#run = run;
    this.#end = end;
  }

  readonly wake = (): void => {
    if (this.#asleep) {
      this.#asleep = false;
      this.#owner.cancel();
      this.#forgetSocket();
    }
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#turn);
  };

  readonly #turn = (): void => {
    this.#scheduled = false;
    if (!this.#run.next()) {
      this.#end();
      return;
    }
    for (let shard = 0; shard < SHARDS; shard++) {
      while (this.#hasNews(shard)) plain.add(this.#seen, shard, 1);
      plain.notify(this.#seen, shard);
    }
    this.#sleep();
  };

  #sleep(): void {
    this.#owner.prepare();
    this.#asleep = true;
    this.#since = monotonicMs();
    if (this.#hasNews(0) || this.#hasNews(1)) {
      this.#run.see("news came between the announcement and the look");
      this.wake();
      return;
    }
    this.#expectSocket();
    if (this.#waitPending) {
      this.#run.see("slept on the wait of an earlier sleep");
      return;
    }
    const rung = this.#owner.sleepAsync();
    if (rung === undefined) {
      if (this.#run.planted === LEAVES_IT) return;
      this.#run.see("rung before the sleep began");
      this.wake();
      return;
    }
    this.#waitPending = true;
    rung.then(() => {
      this.#run.see(this.#asleep ? "a ring ended the sleep" : "a ring ended a sleep that was over");
      this.#waitPending = false;
      this.wake();
    });
  }

  /** Bytes come at once, or in a while, or never: then only a ring can end this sleep. */
  #expectSocket(): void {
    const wakes = (): void => {
      this.#run.see("a socket ended the sleep");
      this.wake();
    };
    if (this.#run.random.chance(0.3)) {
      const immediate = setImmediate(wakes);
      this.#forgetSocket = () => clearImmediate(immediate);
      return;
    }
    const timer = this.#run.random.chance(0.3)
      ? setTimeout(wakes, 1)
      : setTimeout(() => this.#tooLong(), SLEEP_MS);
    this.#forgetSocket = () => clearTimeout(timer);
  }

  /**
   * A promise that is kept by now may still be in line behind this timer, but not behind a turn of
   * the loop.
   */
  #tooLong(): void {
    const began = this.#since;
    setImmediate(() =>
      setImmediate(() => {
        if (!this.#asleep || this.#since !== began) return;
        for (let shard = 0; shard < SHARDS; shard++) {
          if (this.#hasNews(shard) && this.#rungAt.at(shard) < began + SLEEP_MS / 2)
            this.#run.see("a wake-up was lost: slept on although there was news", `of shard ${shard}`);
        }
        this.#run.see("nobody ended the sleep");
        this.wake();
      }),
    );
  }

  #hasNews(shard: number): boolean {
    return this.#synced.reached(shard, plain.load(this.#seen, shard) + 1);
  }
}

function answer(shard: number, shared: Shared, run: ActorRun): void {
  const synced = new LogWords(shared["synced"]!, LogWord.Synced);
  const words = new Int32Array(shared["doorbells"]!);
  const bell = run.planted === SILENT ? new SilentBell(words, 0) : new Doorbell(words, 0);
  const rungAt = new RungAt(shared["rungAt"]!);
  const seen = new Int32Array(shared["seen"]!);
  for (let number = 1; run.next(); number++) {
    rungAt.begin(shard);
    synced.publish(shard, number);
    bell.ring();
    rungAt.over(shard);
    // The next publication would wake an acceptor that this one has failed to wake.
    for (let looks = 0; !run.failed && looks < 2 * SLEEP_MS; looks++) {
      const now = plain.load(seen, shard);
      if (now === number) break;
      plain.wait(seen, shard, now, 1);
    }
  }
}

export const acceptorSleepCase: StressCase = {
  name: "acceptor-sleep",
  about: "an acceptor in waitAsync, which a socket may end first, against two shards that publish and ring",
  actors: ["acceptor", "shard 0", "shard 1"],
  outcomes: [
    {
      result: "a ring ended the sleep",
      verdict: "ACCEPTABLE",
      why: "that is what it is for",
      required: true,
    },
    {
      result: "a ring ended a sleep that was over",
      verdict: "INTERESTING",
      why: "the socket and the ring came together: one turn too many",
    },
    {
      result: "a socket ended the sleep",
      verdict: "ACCEPTABLE",
      why: "the wait is left behind",
      required: true,
    },
    {
      result: "slept on the wait of an earlier sleep",
      verdict: "INTERESTING",
      why: "it waits for the same word, and its end wakes as well",
      required: true,
    },
    {
      result: "rung before the sleep began",
      verdict: "INTERESTING",
      why: "the ring came between look and sleep: the word was changed, so there is nothing to wait for",
    },
    {
      result: "news came between the announcement and the look",
      verdict: "INTERESTING",
      why: "this is what the second look is for",
    },
    {
      result: "nobody ended the sleep",
      verdict: "INTERESTING",
      why: "the shards were held up, or are at their end",
    },
  ],
  planted: [LATE, SILENT, LEAVES_IT],
  create: () => ({
    doorbells: new SharedArrayBuffer(DOORBELL_WORDS * 4),
    synced: new SharedArrayBuffer(SHARDS * LOG_WORDS * 4),
    rungAt: new SharedArrayBuffer(RungAt.bytes(SHARDS)),
    seen: new SharedArrayBuffer(SHARDS * 4),
  }),
  play(actor, shared, run) {
    if (actor > 0) return answer(actor - 1, shared, run);
    return new Promise((resolve) => new Acceptor(shared, run, resolve).wake());
  },
};
