import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ControlWords } from "../../../src/ring/control-words.ts";
import { isLent, LentIds } from "../../../src/ring/job-ids.ts";
import { BackupWords, BatchWord, LOG_WORDS, LogWord, LogWords } from "../../../src/ring/log-words.ts";

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
