// Ring and doorbells together: the reader sleeps when the ring is empty, the writer when it is
// full.

import { DOORBELL_WORDS, Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";
import { createRing, EMPTY, RING_BYTES_MIN, RingReader, RingWriter } from "../../../src/ring/ring.ts";
import type { ActorRun, Shared, StressCase } from "../case.ts";
import { faultOf, lengthOf, writeMessage } from "../numbered-message.ts";
import { plain } from "../pauses.ts";
import { LateAnnouncer } from "../planted/doorbells.ts";
import { ForgetfulReader } from "../planted/rings.ts";
import { RungAt } from "../rung-at.ts";
import { SLEEP_MS, sleptThrough } from "../stopwatch.ts";

const WRITER = 0;
const READER = 1;
const BATCH_MAX = 12;
const LATE = "announces only when it sleeps";
const WANT_LATE = "wants room only after looking for it";
const FORGETFUL = "looks for the wish before it gives room";

/** Base class of writer and reader: a bell of their own, and the other's. */
class End {
  readonly bell: DoorbellOwner;
  readonly #other: Doorbell;
  readonly #rungAt: RungAt;
  readonly #side: number;
  readonly #run: ActorRun;

  constructor(side: number, shared: Shared, run: ActorRun) {
    const words = new Int32Array(shared["doorbells"]!);
    const Owner = run.planted === LATE ? LateAnnouncer : DoorbellOwner;
    this.bell = new Owner(words, side);
    this.#other = new Doorbell(words, 1 - side);
    this.#rungAt = new RungAt(shared["rungAt"]!);
    this.#side = side;
    this.#run = run;
  }

  /** Does `change`, and rings if it says so. */
  tell(change: () => boolean): void {
    this.#rungAt.begin(this.#side);
    if (change()) this.#other.ring();
    this.#rungAt.over(this.#side);
  }

  /** Sleeps unless there is work; the caller has announced it. */
  lookAndSleep(hasWork: () => boolean): void {
    if (hasWork()) {
      this.bell.cancel();
      this.#run.see("work came between the announcement and the look");
    } else this.sleep(hasWork);
  }

  sleep(hasWork: () => boolean): void {
    this.bell.sleep(SLEEP_MS);
    // In this order: work that comes now is under way, or its ring is over too late to count.
    if (hasWork() && sleptThrough(this.#rungAt.at(1 - this.#side)))
      this.#run.see("a wake-up was lost: slept on although there was work");
    else this.#run.see("slept");
  }
}

function write(shared: Shared, run: ActorRun): void {
  const writer = new RingWriter(shared["ring"]!);
  const end = new End(WRITER, shared, run);
  const done = new Int32Array(shared["done"]!);
  let number = 0;
  while (run.next()) {
    const batch = run.random.between(1, BATCH_MAX);
    let full = false;
    for (let i = 0; i < batch && !full; i++) {
      full = !writeMessage(writer, number);
      if (!full) number++;
    }
    end.tell(() => writer.publish());
    if (full) sleepForRoom(writer, number, end, run.planted);
    else if (run.random.chance(0.5)) awaitReader(done, number, run);
  }
}

function sleepForRoom(writer: RingWriter, number: number, end: End, planted: string | undefined): void {
  const hasRoom = (): boolean => writer.hasRoom(lengthOf(number));
  end.bell.prepare();
  if (planted !== WANT_LATE) {
    writer.wantRoom();
    end.lookAndSleep(hasRoom);
  } else if (hasRoom()) end.bell.cancel();
  else {
    writer.wantRoom();
    end.sleep(hasRoom);
  }
}

/** A lull: the next publication would wake a reader that this one has failed to wake. */
function awaitReader(done: Int32Array, number: number, run: ActorRun): void {
  for (let looks = 0; !run.failed && looks < 2 * SLEEP_MS; looks++) {
    const seen = plain.load(done, 0);
    if (seen === number) return;
    plain.wait(done, 0, seen, 1);
  }
}

function read(shared: Shared, run: ActorRun): void {
  const Reader = run.planted === FORGETFUL ? ForgetfulReader : RingReader;
  const reader = new Reader(shared["ring"]!);
  const end = new End(READER, shared, run);
  const done = new Int32Array(shared["done"]!);
  let number = 0;
  while (run.next()) {
    const batch = run.random.between(1, BATCH_MAX);
    let taken = 0;
    for (; taken < batch; taken++) {
      const offset = reader.next();
      if (offset === EMPTY) break;
      const fault = faultOf(reader, offset, number);
      if (fault === undefined) run.see("a message whole and in order");
      else run.see("a message torn, lost or twice", fault);
      if (run.failed) return;
      number++;
    }
    end.tell(() => reader.release());
    plain.store(done, 0, number);
    plain.notify(done, 0);
    if (taken > 0) continue;
    end.bell.prepare();
    end.lookAndSleep(() => reader.hasMessage);
  }
}

export const ringSleepCase: StressCase = {
  name: "ring-sleep",
  about: "a ring of 4 KiB whose reader sleeps while it is empty and whose writer sleeps while it is full",
  actors: ["writer", "reader"],
  outcomes: [
    {
      result: "a message whole and in order",
      verdict: "ACCEPTABLE",
      why: "what is published is filled, and stays until it is released",
      required: true,
    },
    {
      result: "slept",
      verdict: "ACCEPTABLE",
      why: "there was no work, and a ring ended the sleep, or nobody had work for it",
      required: true,
    },
    {
      result: "work came between the announcement and the look",
      verdict: "INTERESTING",
      why: "this is what the second look is for",
    },
  ],
  planted: [LATE, WANT_LATE, FORGETFUL],
  create: () => ({
    ring: createRing(RING_BYTES_MIN),
    doorbells: new SharedArrayBuffer(2 * DOORBELL_WORDS * 4),
    rungAt: new SharedArrayBuffer(RungAt.bytes(2)),
    done: new SharedArrayBuffer(4),
  }),
  play(actor, shared, run) {
    if (actor === WRITER) write(shared, run);
    else read(shared, run);
  },
};
