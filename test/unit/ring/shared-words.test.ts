// Tests of the words that threads share: flags, the count of memory and its limit, job ids, the
// directories of jobs, and the progress of the log.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  BackupWords,
  BatchWord,
  ControlWords,
  FileTable,
  isLent,
  JobDirectory,
  JobIds,
  LentIds,
  LOG_WORDS,
  LogWord,
  LogWords,
  MEMORY_PAGE_BYTES,
  MemoryWords,
  UNKNOWN_SHARD,
} from "../../../src/ring/shared-words.ts";
import { checkProperty } from "../../support/seeded-property.ts";

const words = (): MemoryWords => new MemoryWords(new Int32Array(new SharedArrayBuffer(12)), 0, 1, 2);

describe("MemoryWords", () => {
  it("has no limit until one is set, and rounds it down to whole pages", () => {
    const memory = words();
    assert.equal(memory.limitBytes, Number.POSITIVE_INFINITY);
    assert.ok(memory.claim(1000));
    assert.ok(!memory.isFull);
    memory.limitBytes = 2000 * MEMORY_PAGE_BYTES + 5;
    assert.equal(memory.limitBytes, 2000 * MEMORY_PAGE_BYTES);
    memory.limitBytes = Number.POSITIVE_INFINITY;
    assert.equal(memory.limitBytes, Number.POSITIVE_INFINITY);
    assert.ok(memory.claim(1_000_000));
  });

  it("grants claims up to the limit, to the page", () => {
    const memory = words();
    memory.limitBytes = 10 * MEMORY_PAGE_BYTES;
    assert.ok(memory.claim(9));
    assert.ok(!memory.claim(2));
    assert.ok(memory.claim(1));
    assert.ok(!memory.claim(1));
    assert.equal(memory.usedPages, 10);
    memory.give(4);
    assert.equal(memory.usedBytes, 6 * MEMORY_PAGE_BYTES);
    assert.ok(memory.claim(4));
  });

  it("is full when a limit is set below what is used, or more is taken than it allows", () => {
    const memory = words();
    memory.take(100);
    memory.limitBytes = 100 * MEMORY_PAGE_BYTES;
    assert.ok(!memory.isFull);
    memory.limitBytes = 99 * MEMORY_PAGE_BYTES;
    assert.ok(memory.isFull);
    const other = words();
    other.limitBytes = 100 * MEMORY_PAGE_BYTES;
    other.take(100);
    assert.ok(!other.isFull);
    other.take(1);
    assert.ok(other.isFull);
    const small = words();
    small.limitBytes = MEMORY_PAGE_BYTES;
    small.take(2);
    assert.ok(small.isFull, "a limit of one page");
    const late = words();
    late.take(2);
    late.limitBytes = MEMORY_PAGE_BYTES;
    assert.ok(late.isFull, "the same, set later");
  });

  it("grants no page twice to two threads that claim at the same moment", (t) => {
    const memory = words();
    memory.limitBytes = 10 * MEMORY_PAGE_BYTES;
    const real = Atomics.compareExchange;
    let others = [7, 0];
    t.mock.method(Atomics, "compareExchange", (...args: Parameters<typeof real>) => {
      const pages = others.shift() ?? 0;
      if (pages > 0) memory.take(pages);
      return real(...args);
    });
    assert.ok(memory.claim(3), "seven and three");
    assert.equal(memory.usedPages, 10);
    memory.give(5);
    others = [3];
    assert.ok(!memory.claim(3), "only two are left");
    assert.equal(memory.usedPages, 8);
  });

  it("takes jobs again only below 98 % of the limit", () => {
    const memory = words();
    memory.limitBytes = 100 * MEMORY_PAGE_BYTES;
    assert.ok(memory.claim(100));
    memory.noteFull();
    memory.give(1);
    assert.ok(memory.isFull);
    memory.give(1);
    assert.ok(!memory.isFull);
    assert.ok(memory.claim(2));
    assert.ok(!memory.isFull, "it is full when someone was refused, not before");
  });
});

const HINT_UNIT = 2 ** 24;

function idsFrom(next: number): JobIds {
  const ids = new JobIds(new Int32Array(new SharedArrayBuffer(16)), 1);
  ids.reset(next);
  return ids;
}

for (const boundary of [
  1,
  HINT_UNIT,
  3 * HINT_UNIT,
  2 ** 31,
  2 ** 32,
  2 ** 32 + HINT_UNIT,
  2 ** 33,
  2 ** 40,
  2 ** 52,
]) {
  it(`JobIds counts over ${boundary}`, () => {
    const first = Math.max(1, boundary - 3);
    const ids = idsFrom(first);
    for (let i = 0; i < 8; i++) assert.equal(ids.take(), first + i);
  });
}

it("JobIds gives consecutive ids from any start", (t) => {
  checkProperty(
    t,
    fc.property(fc.integer({ min: 1, max: 2 ** 53 - 10 }), (first) => {
      const ids = idsFrom(first);
      for (let i = 0; i < 3; i++) assert.equal(ids.take(), first + i);
    }),
    500,
  );
});

it("JobIds completes an id while the hint is up to 2^31 ids behind or a few ahead", (t) => {
  checkProperty(
    t,
    fc.property(
      fc.integer({ min: 1, max: 2 ** 44 }),
      fc.integer({ min: -1, max: 126 }),
      (next, unitsBehind) => {
        const words = new Int32Array(new SharedArrayBuffer(8));
        const ids = new JobIds(words, 0);
        ids.reset(next);
        // Another thread took an id at a boundary and was held up before it stored its hint.
        words[1] = Math.max(0, Math.floor(next / HINT_UNIT) - unitsBehind);
        assert.equal(ids.take(), next);
      },
    ),
    500,
  );
});

it("JobIds completes an id below a multiple of 2^32 though the hint is above it already", () => {
  for (const multiple of [2 ** 32, 2 ** 33, 7 * 2 ** 32]) {
    const words = new Int32Array(new SharedArrayBuffer(8));
    const ids = new JobIds(words, 0);
    ids.reset(multiple - 5);
    // Stored by a thread that took later ids.
    words[1] = multiple / HINT_UNIT;
    assert.equal(ids.next, multiple - 5);
    assert.deepEqual([ids.lastSince(multiple - 5), ids.lastSince(multiple - 6)], [0, multiple - 6]);
    assert.equal(ids.take(), multiple - 5);
  }
});

it("JobIds gives each id once to two threads", () => {
  const words = new Int32Array(new SharedArrayBuffer(8));
  const [one, two] = [new JobIds(words, 0), new JobIds(words, 0)];
  one.reset(2 ** 32 - 2);
  const taken = [one.take(), two.take(), two.take(), one.take(), two.take()];
  assert.deepEqual(
    taken,
    [0, 1, 2, 3, 4].map((i) => 2 ** 32 - 2 + i),
  );
});

it("JobIds stays right over several times 2^32 while any thread takes the ids at which the hint grows", () => {
  const words = new Int32Array(new SharedArrayBuffer(8));
  const ids = new JobIds(words, 0);
  ids.reset(HINT_UNIT);
  for (let unit = 1; unit <= 700; unit++) {
    assert.equal(ids.next, unit * HINT_UNIT);
    assert.equal(ids.take(), unit * HINT_UNIT);
    // Other threads take all up to the next one.
    Atomics.add(words, 0, HINT_UNIT - 1);
  }
});

it("JobIds refuses an invalid start", () => {
  for (const bad of [0, -1, 2 ** 53]) assert.throws(() => idsFrom(bad), /ids are positive safe integers/);
});

const ENTRIES = JobDirectory.BYTES / 4;
const directory = (): JobDirectory => new JobDirectory(new SharedArrayBuffer(JobDirectory.BYTES));

it("JobDirectory knows nothing at first", () => {
  for (const id of [0, 1, ENTRIES, 2 ** 40]) assert.equal(directory().find(id), UNKNOWN_SHARD);
});

it("JobDirectory shows by an entry that a job has moved, or that another took its place", () => {
  const table = directory();
  const id = 3 * ENTRIES + 5;
  table.set(id, 2);
  const before = table.entry(id);
  assert.equal(table.entry(id), before);
  table.set(id + 1, 3);
  assert.equal(table.entry(id), before);
  table.set(id, 3);
  assert.notEqual(table.entry(id), before);
  const moved = table.entry(id);
  table.set(ENTRIES + 5, 3);
  assert.notEqual(table.entry(id), moved);
  assert.equal(table.entry(id), table.entry(ENTRIES + 5));
});

it("JobDirectory finds the shards of the latest ids, never of another job", (t) => {
  const id = fc.oneof(
    fc.integer({ min: 1, max: 50 }),
    fc.integer({ min: 1, max: 5 }).map((lap) => lap * ENTRIES + 3),
    fc.integer({ min: 2 ** 32 - 3, max: 2 ** 32 + 3 }),
    fc.integer({ min: 2 ** 43 - 3, max: 2 ** 43 + 3 }),
  );
  checkProperty(
    t,
    fc.property(fc.array(fc.tuple(id, fc.nat(63)), { minLength: 1, maxLength: 60 }), (entries) => {
      const table = directory();
      const shards = new Map<number, number>();
      const latest = new Map<number, number>();
      for (const [job, wanted] of entries) {
        const shard = shards.get(job) ?? wanted;
        shards.set(job, shard);
        latest.set(job % ENTRIES, job);
        table.set(job, shard);
        for (const [known, its] of shards)
          assert.equal(table.find(known), latest.get(known % ENTRIES) === known ? its : UNKNOWN_SHARD);
      }
    }),
    40,
  );
});

// Tests of the table of the files of recent jobs.

describe("file table", () => {
  const ENTRIES = 2 ** 20;

  it("FileTable knows the file of a job until another job takes its place", () => {
    const table = new FileTable(new SharedArrayBuffer(FileTable.BYTES));
    assert.equal(table.find(ENTRIES + 5), 0);
    table.set(5, 1);
    table.set(6, 2 ** 24 - 1);
    table.set(ENTRIES - 1, 77);
    assert.deepEqual(
      [5, 6, ENTRIES - 1].map((id) => table.find(id)),
      [1, 2 ** 24 - 1, 77],
    );
    assert.equal(table.find(ENTRIES + 5), 0, "of another lap");
    table.set(ENTRIES + 5, 9);
    table.set(200 * ENTRIES + 6, 10);
    table.set(8, 2 ** 24 + 5);
    assert.equal(table.find(8), 5, "24 bits of a file's number");
    table.set(256 * ENTRIES + 7, 11);
    assert.equal(table.find(256 * ENTRIES + 7), 11, "of a lap whose number fills its bits");
    assert.deepEqual(
      [5, ENTRIES + 5, 6, 200 * ENTRIES + 6].map((id) => table.find(id)),
      [0, 9, 0, 10],
    );
  });
});

const SHARDS = 3;

describe("LogWords", () => {
  const buffer = new SharedArrayBuffer(4 * LOG_WORDS * SHARDS);
  const synced = new LogWords(buffer, LogWord.Synced);

  it("reports progress of a shard since the last look, also over a wrap of its number", () => {
    const seen = new Int32Array(SHARDS);
    assert.equal(synced.differFrom(seen), false);
    for (const [shard, number] of [
      [0, 1],
      [2, 7],
      [2, 2 ** 31 - 1],
      [2, 2 ** 31],
      [1, 2 ** 32 + 5],
    ] as const) {
      synced.publish(shard, number);
      assert.equal(synced.differFrom(seen), true, `shard ${shard} has record ${number}`);
      synced.copyTo(seen);
      assert.equal(synced.differFrom(seen), false);
    }
  });

  it("doesn't confuse another word of the same shard with progress", () => {
    const seen = new Int32Array(SHARDS);
    synced.copyTo(seen);
    new LogWords(buffer, LogWord.Written).publish(1, 99);
    assert.equal(synced.differFrom(seen), false);
  });
});

// Tests of a batch's number in one word that wraps.

it("BatchWord gives back each number, beyond 32 bits too", () => {
  const word = new BatchWord(new Int32Array(new SharedArrayBuffer(8)), 1);
  assert.equal(word.read(0), 0);
  for (const n of [1, 7, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 5 * 2 ** 32 + 3]) {
    word.publish(n);
    assert.equal(word.lowBits, n % 2 ** 32);
    for (const ahead of [0, 1, 1000, 2 ** 31 - 1]) assert.equal(word.read(n + ahead), n);
  }
});

// Tests of the small words that threads share: flags, lent ids, cuts of a backup, progress of the
// log.

/** Longer than any answer that comes. */
const LONG_MS = 60_000;

describe("ControlWords", () => {
  it("are set and cleared one by one, for all who share them", () => {
    const buffer = new SharedArrayBuffer(12);
    const words = new ControlWords(buffer);
    const others = new ControlWords(buffer);
    const set = (): boolean[] => [0, 1, 2].map((word) => others.isSet(word));
    assert.deepEqual(set(), [false, false, false]);
    words.set(1);
    assert.deepEqual(set(), [false, true, false]);
    words.set(2);
    words.clear(1);
    words.clear(0);
    assert.deepEqual(set(), [false, false, true]);
    words.words[0] = -5;
    assert.ok(others.isSet(0), "any number but 0");
  });
});

describe("LentIds", () => {
  it("show ids up to the limit, on each side of a wrap of the word", () => {
    const words = new Int32Array(new SharedArrayBuffer(12)).fill(77);
    const lent = new LentIds(words, 1);
    for (const limit of [1, 1000, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 5, 2 ** 52]) {
      lent.publish(limit);
      assert.equal(lent.low, limit | 0);
      for (const below of [0, 1, 500, 2 ** 31 - 1])
        if (limit > below) assert.ok(isLent(lent.low, limit - below), `${limit - below} of ${limit}`);
      for (const above of [1, 2, 500, 2 ** 31 - 1])
        assert.ok(!isLent(lent.low, limit + above), `${limit + above} of ${limit}`);
    }
    assert.deepEqual([words[0], words[2]], [77, 77], "the words beside it are not its own");
  });
});

describe("LogWords", () => {
  it("say which records have reached a point, on each side of a wrap of their numbers", () => {
    const buffer = new SharedArrayBuffer(4 * LOG_WORDS * 2);
    const written = new LogWords(buffer, LogWord.Written);
    const synced = new LogWords(buffer, LogWord.Synced);
    for (const number of [1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 9]) {
      written.publish(1, number);
      assert.ok(written.reached(1, number));
      assert.ok(written.reached(1, number - 1));
      assert.ok(!written.reached(1, number + 1));
      assert.ok(!written.reached(1, number + 1000));
    }
    assert.ok(written.reached(0, 0) && !written.reached(0, 1), "another shard");
    assert.ok(!synced.reached(1, 1), "written isn't synced");
    synced.publish(1, 3);
    assert.ok(synced.reached(1, 3) && !synced.reached(1, 4));
  });

  it("may be published again without progress, never back", () => {
    const words = new LogWords(new SharedArrayBuffer(4 * LOG_WORDS), LogWord.Synced);
    words.publish(0, 5);
    words.publish(0, 5);
    assert.throws(() => words.publish(0, 4), /never goes back/);
  });

  it("copy the numbers of all shards", () => {
    const buffer = new SharedArrayBuffer(4 * LOG_WORDS * 3);
    const words = new LogWords(buffer, LogWord.Written);
    for (const shard of [0, 1, 2]) words.publish(shard, 7 + shard);
    const seen = new Int32Array(3);
    words.copyTo(seen);
    assert.deepEqual([...seen], [7, 8, 9]);
    words.publish(2, 10);
    assert.ok(words.differFrom(seen));
  });
});

describe("BackupWords", () => {
  const pair = (): { words: Int32Array; http: BackupWords; log: BackupWords } => {
    const words = new Int32Array(new SharedArrayBuffer(32)).fill(0);
    return { words, http: new BackupWords(words, 1, 2), log: new BackupWords(words, 1, 2) };
  };

  it("carry a question and its cut", async () => {
    const { words, http, log } = pair();
    assert.equal(log.asked, 0);
    http.ask(7);
    assert.equal(log.asked, 7);
    assert.equal(http.isRefused(7), false);
    log.grant(7, { oldest: 3, last: 2 ** 32 - 1 });
    assert.deepEqual(await http.answer(7, LONG_MS), { oldest: 3, last: 2 ** 32 - 1 });
    http.ask(0);
    assert.equal(log.asked, 0);
    assert.deepEqual([words[0], words[6], words[7]], [0, 0, 0], "the words beside them are not theirs");
  });

  it("wake the one that waits for the answer, and no earlier answer does", { timeout: 30_000 }, async () => {
    const { http, log } = pair();
    log.refuse(6);
    http.ask(7);
    let isAnswered = false;
    const answer = http.answer(7, LONG_MS).finally(() => {
      isAnswered = true;
    });
    const alive = setInterval(() => undefined, 1000);
    await new Promise(setImmediate);
    assert.equal(isAnswered, false);
    log.refuse(5);
    await new Promise(setImmediate);
    assert.equal(isAnswered, false);
    log.grant(7, { oldest: 1, last: 0 });
    assert.deepEqual(await answer, { oldest: 1, last: 0 });
    clearInterval(alive);
  });

  it("carry a refusal, which may also take a cut back", async () => {
    const { http, log } = pair();
    http.ask(8);
    log.refuse(8);
    assert.equal(await http.answer(8, LONG_MS), "refused");
    assert.ok(http.isRefused(8) && !http.isRefused(7));
    log.grant(9, { oldest: 1, last: 2 });
    assert.equal(http.isRefused(9), false);
    log.refuse(9);
    assert.equal(http.isRefused(9), true);
  });

  it("are late when nothing answers", async () => {
    const { http } = pair();
    http.ask(7);
    assert.equal(await http.answer(7, 1), "late");
  });

  it("count the segments that are kept", () => {
    const { http, log } = pair();
    assert.equal(http.kept, 0);
    log.setKept(12);
    assert.equal(http.kept, 12);
    log.grant(7, { oldest: 1, last: 2 });
    assert.equal(http.kept, 12);
  });
});
