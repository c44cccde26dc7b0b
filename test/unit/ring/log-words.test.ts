import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LOG_WORDS, LogWord, LogWords } from "../../../src/ring/log-words.ts";

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
