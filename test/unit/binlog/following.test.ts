// Tests of the log's thread on a standby: what it answers to each order of the group's thread.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { MessageChannel } from "node:worker_threads";
import { readGroupFile, writeGroupFile } from "../../../src/binlog/disk/checked-json.ts";
import { Following, type Lead } from "../../../src/binlog/following.ts";
import { StartInterrupted } from "../../../src/binlog/recovery/open-options.ts";
import type { GroupNews, GroupOrder } from "../../../src/message/group.ts";
import { virtualOptions } from "../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../binlog/virtual-disk.ts";

const GROUP = { groupId: "g", node: 77, adoptAfter: 0 };
const DAY = "set-aside-1970-01-01T00-00-01.000Z";

class Standby {
  readonly disk = new VirtualDisk();
  isStopping = false;
  readonly lead: Promise<Lead>;
  readonly #port;
  readonly #news: GroupNews[] = [];
  #heard = () => {};
  #error: unknown;

  constructor(t: TestContext, disk?: VirtualDisk) {
    if (disk !== undefined) this.disk = disk;
    const { port1, port2 } = new MessageChannel();
    const options = { ...virtualOptions(this.disk), stopping: () => this.isStopping };
    this.lead = new Following(options, port2).untilLead();
    this.lead.catch((error: unknown) => {
      this.#error = error;
      this.#heard();
    });
    this.#port = port1;
    port1.on("message", (news: GroupNews) => {
      this.#news.push(news);
      this.#heard();
    });
    t.after(() => {
      this.isStopping = true;
      port1.close();
    });
  }

  order(order: GroupOrder): void {
    this.#port.postMessage(order);
  }

  /** The next news of this kind. */
  async news<Kind extends GroupNews["news"]>(kind: Kind): Promise<Extract<GroupNews, { news: Kind }>> {
    for (;;) {
      const at = this.#news.findIndex(({ news }) => news === kind);
      if (at >= 0) return this.#news.splice(at, 1)[0] as Extract<GroupNews, { news: Kind }>;
      if (this.#error !== undefined) throw this.#error;
      await new Promise<void>((resolve) => (this.#heard = resolve));
    }
  }

  async follows(groupId = GROUP.groupId): Promise<Extract<GroupNews, { news: "follows" }>> {
    this.order({ order: "follow", groupId });
    return this.news("follows");
  }

  /** Applies a LEAD of its own with this tag. */
  async applies(tag: number): Promise<Uint8Array> {
    this.order({ order: "lead-batch", tag, expectedLast: 3 });
    const { bytes, ...news } = await this.news("lead-batch");
    assert.deepEqual(news, { news: "lead-batch", tag, expectedLast: 3 });
    this.order({ order: "apply", batches: [bytes] });
    return bytes;
  }
}

test("a standby follows, applies, cuts and takes the lead", async (t) => {
  const standby = new Standby(t);
  const { node, ...follows } = await standby.follows();
  assert.ok(node > 0);
  assert.deepEqual(follows, { news: "follows", known: [], hasOwnJobs: false, isComplete: true });
  assert.deepEqual(readGroupFile(standby.disk), { ...GROUP, node });
  const batches = [await standby.applies(11)];
  const applied = { news: "applied", bytes: batches[0]!.length, n: 1, isComplete: true } as const;
  assert.deepEqual(await standby.news("applied"), applied);
  assert.deepEqual(await standby.news("kept"), { news: "kept", place: { epoch: 1, n: 1, tag: 11 } });
  batches.push(await standby.applies(12), await standby.applies(13));
  assert.equal((await standby.news("applied")).n, 2);
  standby.order({ order: "tail", after: 1 });
  assert.deepEqual(
    (await standby.news("tail")).batches.map(({ length }) => length),
    batches.slice(1).map(({ length }) => length),
  );
  standby.order({ order: "cut", n: 2 });
  standby.order({ order: "rename" });
  const renamed = await standby.news("follows");
  assert.deepEqual(
    [renamed.known.map(({ n, tag, node }) => [n, tag, node]), renamed.node === node],
    [
      [
        [1, 11, node],
        [2, 12, node],
      ],
      false,
    ],
  );
  assert.equal(readGroupFile(standby.disk)!.node, renamed.node);
  const place = { epoch: 2, n: 2, tag: 12 };
  standby.order({ order: "lead", place });
  assert.deepEqual(await standby.lead, { place, node: renamed.node, rewriteBelow: 1 });
  const again = new Standby(t, standby.disk);
  assert.deepEqual((await again.follows()).known, renamed.known);
});

test("a standby sets its segments aside, and only them", async (t) => {
  const standby = new Standby(t);
  await standby.follows();
  await standby.applies(11);
  standby.order({ order: "set-aside" });
  assert.deepEqual(await standby.news("set-aside"), { news: "set-aside", folder: DAY });
  assert.deepEqual(
    standby.disk
      .names()
      .filter((name) => !name.includes("/"))
      .sort(),
    ["group.json"],
  );
  assert.ok(standby.disk.names(DAY).length > 0);
  assert.equal(standby.disk.openHandles, 0);
});

test("a standby refuses another group, damage and orders too early, and stops when it must", async (t) => {
  const disk = new VirtualDisk();
  writeGroupFile(disk, GROUP);
  const stranger = new Standby(t, disk);
  stranger.order({ order: "follow", groupId: "other" });
  await assert.rejects(stranger.lead, { code: "REPLICA_OTHER_GROUP", message: /belongs to another group/ });
  const whole = new Standby(t, disk);
  await whole.follows();
  assert.equal((await whole.applies(11)).length > 0 && (await whole.news("kept")).place.n, 1);
  whole.isStopping = true;
  await assert.rejects(whole.lead, StartInterrupted);
  const name = disk.names().find((each) => each.endsWith(".log"))!;
  const bytes = disk.contentOf(name).slice();
  bytes[5]! ^= 1;
  disk.put(name, bytes);
  const damaged = new Standby(t, disk);
  damaged.order({ order: "follow", groupId: "g" });
  await assert.rejects(damaged.lead, { nextStep: /runnerbean replica status URL/ });
});
