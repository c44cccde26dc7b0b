// Words of "synced up to n": they never go back, even when int32 wraps, and never run ahead of the
// sync.

import { LOG_WORDS, LogWord, LogWords } from "../../../src/ring/shared-words.ts";
import type { ActorRun, Shared, StressCase } from "../case.ts";
import { plain } from "../pauses.ts";
import { TornSynced } from "../planted/words.ts";

const SHARD = 1;
const RECORDS = 1024;
/** Numbers wrap soon. */
const START = 2 ** 31 - 300;
const EARLY = "publishes before it has written";
const TORN = "publishes the low byte of a number after the rest";

function write(shared: Shared, run: ActorRun): void {
  const synced =
    run.planted === TORN
      ? new TornSynced(shared["synced"]!)
      : new LogWords(shared["synced"]!, LogWord.Synced);
  const records = new Int32Array(shared["records"]!);
  const readers = new Int32Array(shared["readers"]!);
  let number = START;
  while (run.next()) {
    const from = number;
    number += run.random.between(1, 5);
    if (run.planted === EARLY) synced.publish(SHARD, number);
    for (let each = from + 1; each <= number; each++) records[each % RECORDS] = each | 0;
    synced.publish(SHARD, number);
    if (from < 2 ** 31 && number >= 2 ** 31) run.see("the numbers passed 2^31");
    // Bytes that the reader may look at next must not be overwritten.
    for (let reader = 0; reader < 2; reader++) awaitReader(readers, reader, number, run);
  }
}

function awaitReader(readers: Int32Array, reader: number, number: number, run: ActorRun): void {
  for (;;) {
    const read = plain.load(readers, reader);
    if (number - (read + START) <= RECORDS / 2 || !run.next()) return;
    plain.wait(readers, reader, read, 1);
  }
}

function read(reader: number, shared: Shared, run: ActorRun): void {
  const synced = new LogWords(shared["synced"]!, LogWord.Synced);
  const records = new Int32Array(shared["records"]!);
  const readers = new Int32Array(shared["readers"]!);
  let known = START;
  while (run.next()) {
    const next = known + run.random.between(1, 4);
    if (!synced.reached(SHARD, next)) {
      run.see("not yet");
      if (!synced.reached(SHARD, known)) run.see("went back", `${known} was reached`);
      continue;
    }
    for (let each = known + 1; each <= next; each++)
      if (records[each % RECORDS] !== (each | 0)) run.see("published before it was written", `${each}`);
    run.see("reached, and there");
    known = next;
    plain.store(readers, reader, known - START);
  }
}

export const syncedCase: StressCase = {
  name: "synced",
  about: "one thread writes records and publishes how far, two others read",
  actors: ["binlog", "acceptor 0", "acceptor 1"],
  outcomes: [
    {
      result: "reached, and there",
      verdict: "ACCEPTABLE",
      why: "the records were written before the number was published",
      required: true,
    },
    { result: "not yet", verdict: "ACCEPTABLE", why: "the record is not published yet", required: true },
    {
      result: "the numbers passed 2^31",
      verdict: "INTERESTING",
      why: "numbers are int32 that wrap; only their difference counts",
      required: true,
    },
  ],
  planted: [EARLY, TORN],
  create() {
    const synced = new SharedArrayBuffer(2 * LOG_WORDS * 4);
    new LogWords(synced, LogWord.Synced).publish(SHARD, START);
    return {
      synced,
      records: new SharedArrayBuffer(RECORDS * 4),
      readers: new SharedArrayBuffer(2 * 4),
    };
  },
  play(actor, shared, run) {
    if (actor === 0) write(shared, run);
    else read(actor - 1, shared, run);
  },
};
