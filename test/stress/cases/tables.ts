// The two tables that forget: an entry for an id is that id's or missing; a newer id replaces an
// older one.

import { FileTable, JobDirectory, UNKNOWN_SHARD } from "../../../src/ring/shared-words.ts";
import type { ActorRun, Outcome, Shared, StressCase } from "../case.ts";
import { plain } from "../pauses.ts";
import { TaglessDirectory, TornDirectory, TornFiles } from "../planted/words.ts";

/** Ids this far apart have the same entry. */
const LAP = 2 ** 20;
/** Each writer uses so few entries, so that it comes around to them all the time. */
const ENTRIES_EACH = 4;
const WRITERS = 2;
const LOOKS_BACK = 6;
const LOOKS_AHEAD = 3;
/** int32 words between two writers' [begun, announced]. */
const STEP = 16;

const RIGHT: Outcome = {
  result: "right",
  verdict: "ACCEPTABLE",
  why: "the entry is one word, so id and answer belong together",
  required: true,
};
const NOT_SET: Outcome = {
  result: "unknown: not known to anybody yet",
  verdict: "ACCEPTABLE",
  why: "the entry is written before the id is told to anybody",
  required: true,
};
const FORGOTTEN: Outcome = {
  result: "unknown: forgotten",
  verdict: "INTERESTING",
  why: "a newer id has its entry; whoever asks then asks elsewhere",
  required: true,
};
const ALIAS: Outcome = {
  result: "another id with the same tag",
  verdict: "INTERESTING",
  why: "the tag has 8 bits: 256 laps later it is the same; only a line of stats-job depends on it",
};

interface Table {
  set(id: number, value: number): void;
  find(id: number): number;
}

interface TableCase {
  readonly name: string;
  readonly about: string;
  readonly bytes: number;
  /** Result of `find` for an unknown id. */
  readonly unknown: number;
  readonly planted: readonly string[];
  readonly outcomes: readonly Outcome[];
  /** Laps after which a tag comes again, Infinity for never. */
  readonly tagLaps: number;
  readonly open: (buffer: SharedArrayBuffer, planted: string | undefined) => Table;
  /** The value of a writer's n-th id. */
  readonly value: (number: number) => number;
}

const LATE = "announces an id before its entry is written";
const TORN = "writes tag and value in two steps";
const TAGLESS = "does not look at the tag";

const idOf = (writer: number, number: number): number =>
  (Math.floor(number / ENTRIES_EACH) + 1) * LAP + writer * ENTRIES_EACH + (number % ENTRIES_EACH);

function tableCase(table: TableCase): StressCase {
  const { name, about, bytes, planted, outcomes } = table;

  function write(writer: number, entries: Table, progress: Int32Array, run: ActorRun): void {
    const [begun, announced] = [writer * STEP, writer * STEP + 1];
    for (let number = 1; run.next(); number++) {
      plain.store(progress, begun, number);
      if (run.planted === LATE) plain.store(progress, announced, number);
      entries.set(idOf(writer, number), table.value(number));
      plain.store(progress, announced, number);
      // Forgetting must not be all that is seen.
      for (let spins = run.random.between(0, 100); spins > 0; spins--) plain.pause();
    }
  }

  function look(writer: number, entries: Table, progress: Int32Array, run: ActorRun): void {
    const announced = plain.load(progress, writer * STEP + 1);
    const number = announced + run.random.between(-LOOKS_BACK, LOOKS_AHEAD);
    if (number < 1) return;
    const found = entries.find(idOf(writer, number));
    const begun = plain.load(progress, writer * STEP);
    const what = `id ${number} of writer ${writer}, announced ${announced}, begun ${begun}: found ${found}`;
    if (found === table.value(number))
      run.see(number <= begun ? RIGHT.result : "known before it was set", what);
    else if (found !== table.unknown)
      run.see(isAlias(found, number, begun) ? ALIAS.result : "another id's value", what);
    else if (begun >= number + ENTRIES_EACH) run.see(FORGOTTEN.result);
    else run.see(number > announced ? NOT_SET.result : "unknown although announced", what);
  }

  function isAlias(found: number, number: number, begun: number): boolean {
    const step = table.tagLaps * ENTRIES_EACH;
    // Also an older one: the entry of `number` may not be set yet.
    for (let other = number % step; other <= begun; other += step)
      if (other > 0 && found === table.value(other)) return true;
    return false;
  }

  return {
    name,
    about,
    actors: ["writer 0", "writer 1", "reader"],
    outcomes,
    planted,
    create: (): Shared => ({
      progress: new SharedArrayBuffer(WRITERS * STEP * 4),
      table: new SharedArrayBuffer(bytes),
    }),
    play(actor, shared, run) {
      const entries = table.open(shared["table"]!, run.planted);
      const progress = new Int32Array(shared["progress"]!);
      if (actor < WRITERS) write(actor, entries, progress, run);
      else while (run.next()) look(run.random.between(0, WRITERS - 1), entries, progress, run);
    },
  };
}

export const jobDirectoryCase = tableCase({
  name: "job-directory",
  about: "acceptors note shards of ids and look them up; entries are taken over all the time",
  bytes: JobDirectory.BYTES,
  unknown: UNKNOWN_SHARD,
  planted: [LATE, TAGLESS, TORN],
  outcomes: [RIGHT, NOT_SET, FORGOTTEN],
  tagLaps: Number.POSITIVE_INFINITY,
  open: (buffer, planted) =>
    planted === TAGLESS
      ? new TaglessDirectory(buffer)
      : planted === TORN
        ? new TornDirectory(buffer)
        : new JobDirectory(buffer),
  value: (number) => Math.imul(number, 0x9e3779b1) >>> 26,
});

export const fileTableCase = tableCase({
  name: "file-table",
  about: "the binlog notes files of ids, shards look them up; entries are taken over all the time",
  bytes: FileTable.BYTES,
  unknown: 0,
  planted: [LATE, TORN],
  outcomes: [RIGHT, NOT_SET, FORGOTTEN, ALIAS],
  tagLaps: 256,
  open: (buffer, planted) => (planted === TORN ? new TornFiles(buffer) : new FileTable(buffer)),
  value: (number) => (Math.imul(number, 0x9e3779b1) >>> 8) | 1,
});
