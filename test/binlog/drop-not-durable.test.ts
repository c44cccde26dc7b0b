// Tests that a segment counts until the DROP record for it is durable, and so do copies of its live
// records.

import assert from "node:assert/strict";
import { it } from "node:test";
import { segmentName } from "../../src/base/text.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { recoveredTexts } from "./model.ts";
import { JobWriter, virtualOptions } from "./sample/sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

const BODY = "x".repeat(400);
/** Nothing of what was not synced is there after the crash. */
const NOTHING_SURVIVES = { below: () => 0, chance: () => false } as unknown as SeededRandom;

function noRoom(): never {
  throw Object.assign(new Error("no room"), { code: "ENOSPC" });
}

/**
 * A log on a full disk that has just written a DROP, not synced, makes its next file because there
 * is room again, and loses power. Returns the ids that were durable before it, or undefined if it
 * did not come to that.
 */
async function cutAfterNextFile(disk: VirtualDisk, random: SeededRandom): Promise<number[] | undefined> {
  const { storage } = await openBinlog({ ...virtualOptions(disk), syncEvery: "never" });
  const writer = new JobWriter(storage);
  const putNumbers = new Map<number, number>();
  let nowMs = 1000;
  for (let id = 1; id <= 220; id++) {
    writer.put(id, BODY);
    putNumbers.set(id, writer.n);
    nowMs += 10;
    if (id % 10 === 0) writer.settle(nowMs);
  }
  let [isFull, isNext] = [true, false];
  let durable: number[] | undefined;
  const open = disk.open.bind(disk);
  disk.open = (name, mode) => (isFull && mode === "create" ? noRoom() : open(name, mode));
  const syncFolder = disk.syncFolder.bind(disk);
  disk.syncFolder = (folder) => {
    syncFolder(folder);
    if (!isNext || durable !== undefined) return;
    const syncedUpTo = storage.tail.synced[0]!;
    durable = [...putNumbers].filter(([, n]) => n <= syncedUpTo).map(([id]) => id);
    disk.crash(NOTHING_SURVIVES);
    throw new Error("the power is gone");
  };
  for (let step = 0; step < 3000 && !storage.room.waiting && storage.failure === undefined; step++) {
    nowMs++;
    const ids = [...putNumbers.keys()];
    if (random.below(6) === 0 && ids.length > 60) {
      const id = ids[random.below(Math.min(ids.length, 90))]!;
      putNumbers.delete(id);
      writer.delete(id);
    } else writer.update(ids[random.below(ids.length)]!, { pri: random.below(1000) });
    storage.flush(nowMs);
    const oldest = storage.table.oldest!;
    storage.work(nowMs);
    if (storage.table.oldest !== oldest || oldest.liveBytes > 0 || !storage.room.full) continue;
    // Its live records are copied, and its DROP is written.
    [isFull, isNext] = [false, true];
    nowMs += 1001;
    storage.flush(nowMs);
    storage.work(nowMs);
    return durable;
  }
  return undefined;
}

it("a new file counts a segment until its DROP is durable", async () => {
  let cuts = 0;
  for (let seed = 1; seed <= 40; seed++) {
    const disk = new VirtualDisk();
    const durable = await cutAfterNextFile(disk, new SeededRandom(seed));
    if (durable === undefined) continue;
    cuts++;
    const { open, syncFolder } = VirtualDisk.prototype;
    Object.assign(disk, { open, syncFolder });
    const found = recoveredTexts(await openBinlog(virtualOptions(disk)), 1);
    const lost = durable.filter((id) => !found.has(id));
    assert.deepEqual(lost, [], `seed ${seed}: durable jobs that a power cut took`);
  }
  assert.ok(cuts > 0, "it came to that");
});

/** A log that was killed between the write and the sync of a DROP, and its durable live jobs. */
async function killAfterDrop(): Promise<{ disk: VirtualDisk; durable: number[] }> {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog({ ...virtualOptions(disk), syncEvery: "never" });
  const writer = new JobWriter(storage);
  const putNumbers = new Map<number, number>();
  const first = storage.table.oldest!.number;
  for (let id = 1; ; id++) {
    assert.ok(id < 5000, "a segment is dropped at some time");
    writer.put(id, BODY);
    putNumbers.set(id, writer.n);
    const old = id - 60;
    // Some stay, so that their copies lie before the DROP.
    if (old > 0 && old % 20 !== 0) {
      writer.delete(old);
      putNumbers.delete(old);
    }
    storage.flush(id);
    storage.work(id);
    if (storage.table.oldest!.number !== first || storage.table.oldest!.liveBytes > 0) continue;
    const syncedUpTo = storage.tail.synced[0]!;
    storage.flush(id);
    assert.equal(storage.tail.synced[0]!, syncedUpTo, "the DROP is not synced");
    disk.kill();
    const durable = [...putNumbers].filter(([, n]) => n <= syncedUpTo).map(([put]) => put);
    return { disk, durable };
  }
}

it("a start removes nothing before the DROP that a killed server wrote is durable", async () => {
  let isOver = false;
  let cuts = 0;
  for (; !isOver; cuts++) {
    const { disk, durable } = await killAfterDrop();
    assert.equal(durable[0], 20, "a durable job of the dropped segment lies in the copies");
    let left = cuts;
    disk.fault = () => {
      if (left-- === 0) throw new Error("the power is gone");
    };
    isOver = await openBinlog(virtualOptions(disk)).then(
      () => true,
      () => false,
    );
    disk.fault = () => {};
    disk.crash(NOTHING_SURVIVES);
    const found = recoveredTexts(await openBinlog(virtualOptions(disk)), 1);
    assert.deepEqual(
      durable.filter((id) => !found.has(id)),
      [],
      `durable jobs that a power cut at call ${cuts} of the start took`,
    );
  }
  assert.ok(cuts > 10, `${cuts} places of a cut`);
});

it("--salvage does not believe a DROP behind a tear", async () => {
  let tried = 0;
  for (let seed = 1; seed <= 60; seed++) {
    const random = new SeededRandom(seed);
    const disk = new VirtualDisk();
    const { storage } = await openBinlog({ ...virtualOptions(disk), syncEvery: "never" });
    const writer = new JobWriter(storage);
    const live = new Set<number>();
    let torn: VirtualDisk | undefined;
    let nowMs = 1000;
    for (let id = 1; id <= 400 && torn === undefined; id++) {
      writer.put(id, BODY);
      live.add(id);
      if (id > 40 && random.below(3) > 0) {
        const gone = [...live][random.below(Math.min(live.size, 60))]!;
        live.delete(gone);
        writer.delete(gone);
      }
      storage.flush(nowMs++);
      for (let slice = 0; slice < 4 && torn === undefined; slice++) {
        const oldest = storage.table.oldest!;
        const currentSegment = storage.tail.segments.current.number;
        const [liveBytes, from] = [oldest.liveBytes, storage.table.get(currentSegment)!.usedBytes];
        storage.work(nowMs);
        storage.flush(nowMs);
        const isCopied = oldest.sealed && liveBytes > 0 && oldest.liveBytes === 0;
        if (!isCopied || storage.tail.segments.current.number !== currentSegment) continue;
        // The power cut kept only the last record of this slice: the DROP.
        torn = disk.clone();
        const content = torn.contentOf(segmentName(currentSegment));
        let end = content.length;
        while (end > 0 && content[end - 1] === 0) end--;
        content.fill(0, from, Math.max(from, end - 40));
      }
    }
    if (torn === undefined) continue;
    tried++;
    // Damage that makes the salvage necessary.
    const [, , old] = torn
      .names()
      .filter((name) => name.endsWith(".log"))
      .sort();
    torn.contentOf(old!)[5000]! ^= 1;
    const opened = await openBinlog({ ...virtualOptions(torn), salvage: true });
    const found = recoveredTexts(opened, 1);
    const lost = [...live].filter((id) => !found.has(id));
    assert.ok(
      lost.length <= 3,
      `seed ${seed}: ${lost.length} of ${live.size} jobs are lost by one flipped bit`,
    );
  }
  assert.ok(tried > 10, `${tried} tears`);
});

it("a file that can't be removed without room is removed once there is room", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog(virtualOptions(disk));
  const writer = new JobWriter(storage);
  let isRefused = true;
  disk.fault = (call) => {
    if (isRefused && call === "unlink") noRoom();
  };
  let nowMs = 0;
  for (let id = 1; id <= 300; id++) {
    writer.put(id, BODY);
    if (id > 5) writer.delete(id - 5);
    writer.settle((nowMs += 10));
  }
  assert.equal(storage.failure, undefined);
  const kept = disk.names().filter((name) => name.endsWith(".log")).length;
  isRefused = false;
  for (let round = 0; round < 20; round++) writer.settle((nowMs += 1001));
  const left = disk.names().filter((name) => name.endsWith(".log")).length;
  assert.ok(kept > 4 && left <= 4, `${kept} files while removal was refused, ${left} after it`);
  assert.equal(left, storage.table.all.length);
});
