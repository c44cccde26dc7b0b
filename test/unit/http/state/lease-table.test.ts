// Tests of lease tokens: what they name, their owner, and what is remembered of finished ones.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { describe, it } from "node:test";
import {
  FinishedLeases,
  LEASES_MAX,
  type Lease,
  LeaseTable,
  leaseMac,
} from "../../../../src/http/state/lease-table.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

function lease(id: number, reserves: number, owner = "worker"): Omit<Lease, "token"> {
  return { id, shard: 3, reserves, tube: "t", ttr: 10, owner, address: "", sinceMs: 0, untilMs: 10_000 };
}

describe("LeaseBook", () => {
  it("recognises a token of its owner, also after the lease has ended", () => {
    let nowMs = 0;
    const book = new LeaseTable(() => nowMs);
    for (const id of [1, 2 ** 31, 2 ** 53 - 1]) {
      const { token } = book.give(lease(id, 7));
      const named = { id, shard: 3, reserves: 7 };
      const facts = (owner: string) => {
        const read = book.read(token, owner);
        return read && { id: read.id, shard: read.shard, reserves: read.reserves };
      };
      assert.deepEqual(facts("worker"), named);
      assert.equal(facts("other"), undefined);
      nowMs += 20_000;
      book.sweep();
      assert.equal(book.size, 0);
      assert.deepEqual(facts("worker"), named);
      assert.equal(facts("other"), undefined);
      for (let at = 0; at < 26; at++) {
        const changed = `${token.slice(0, at)}${token[at] === "A" ? "B" : "A"}${token.slice(at + 1)}`;
        assert.equal(book.read(changed, "worker"), undefined, `character ${at}`);
      }
    }
  });

  it("assigns a job that was leased again to the later lease only", () => {
    const book = new LeaseTable(() => 0);
    const first = book.give(lease(1, 1));
    const second = book.give(lease(1, 2));
    assert.equal(book.size, 1);
    assert.equal(book.renew(first.token, "worker"), undefined);
    book.forget(first);
    assert.equal(book.size, 1, "the later one stays");
    book.finish(first, "delete");
    assert.deepEqual([book.finishedBy(first), book.finishedBy(second), book.size], ["delete", undefined, 1]);
    assert.equal(book.renew(second.token, "other"), undefined);
    assert.equal(book.renew(second.token, "worker"), second);
  });
});

describe("LeaseTable", () => {
  it("renews for the whole time to run", () => {
    let nowMs = 0;
    const table = new LeaseTable(() => nowMs);
    const { token } = table.give(lease(1, 1));
    nowMs = 5000;
    assert.equal(table.renew(token, "worker")?.untilMs, 15_000);
  });

  it("lists a job that was leased again behind those leased before", () => {
    const table = new LeaseTable(() => 0);
    for (const [id, reserves] of [[1, 1] as const, [2, 1] as const, [1, 2] as const])
      table.give(lease(id, reserves));
    assert.deepEqual(
      table.list().map(({ id, reserves }) => [id, reserves]),
      [
        [2, 1],
        [1, 2],
      ],
    );
  });

  it("has room again when leases have expired", () => {
    let nowMs = 0;
    const table = new LeaseTable(() => nowMs);
    for (let id = 1; id <= LEASES_MAX; id++) table.give(lease(id, 1));
    assert.equal(table.room, 0);
    nowMs = 11_000;
    assert.equal(table.room, 0, "they end a second later");
    nowMs = 11_001;
    assert.equal(table.room, LEASES_MAX);
  });

  it("ends the finishing of a lease by the same act alone", async () => {
    const table = new LeaseTable(() => 0);
    const [key, next] = [table.give(lease(1, 1)), lease(1, 2)];
    table.beginFinish(key, "delete");
    table.beginFinish(key, "release");
    const over = table.whenFinishedBy(key, "delete");
    assert.ok(over !== undefined);
    assert.equal(table.whenFinishedBy(key, "release"), undefined);
    assert.equal(table.whenFinishedBy(next, "delete"), undefined);
    table.endFinish(key, "release");
    table.endFinish(next, "delete");
    assert.equal(table.whenFinishedBy(key, "delete"), over, "it goes on");
    table.endFinish(key, "delete");
    await over;
    assert.equal(table.whenFinishedBy(key, "delete"), undefined);
  });
});

describe("leaseMac", () => {
  it("is HMAC-SHA256", () => {
    const random = new SeededRandom(1);
    for (const length of [0, 1, 8, 100, 400, 600, 5000]) {
      const key = Buffer.from(Array.from({ length: 32 }, () => random.below(256)));
      const text = "é".repeat(length);
      const bytes = Buffer.from(Array.from({ length: 12 }, () => random.below(256)));
      const expected = createHmac("sha256", key).update(bytes).update(text).digest("latin1");
      assert.equal(leaseMac(key)(bytes, text), expected, `${length}`);
    }
  });
});

describe("FinishedLeases", () => {
  it("remember a bounded number, the latest longest", () => {
    const random = new SeededRandom(2);
    const max = 50;
    const finished = new FinishedLeases(max, 1000);
    const acts = ["delete", "release", "bury", "touch"] as const;
    const model: { id: number; reserves: number; act: (typeof acts)[number]; atMs: number }[] = [];
    for (let nowMs = 0; nowMs < 20_000; nowMs += random.below(60)) {
      // Ids that differ by 2^32 stand in the same bucket.
      const id = 1 + random.below(3) + 2 ** 32 * random.below(20);
      const reserves = 1 + random.below(1000);
      if (model.some((each) => each.id === id && each.reserves === reserves)) continue;
      const act = acts[random.below(4)]!;
      finished.add(id, reserves, act, nowMs);
      model.push({ id, reserves, act, atMs: nowMs });
      for (const [index, each] of model.slice(-60).entries()) {
        const isKept = index >= Math.min(60, model.length) - max && nowMs - each.atMs <= 1000;
        assert.equal(finished.actOf(each.id, each.reserves, nowMs), isKept ? each.act : undefined);
      }
      assert.equal(finished.actOf(id, reserves + 1000, nowMs), undefined);
    }
    assert.ok(model.length > 3 * max);
  });

  it("forget the oldest alone, also if others stand before it in its bucket", () => {
    const max = 4;
    const finished = new FinishedLeases(max, 1000);
    // They stand in one bucket, as they differ by 2^32 and have been reserved as often.
    const ids = Array.from({ length: 5 * max }, (_, n) => 7 + 2 ** 32 * n);
    for (const [count, id] of ids.entries()) {
      finished.add(id, 1, "delete", 0);
      const known = ids.filter((each) => finished.actOf(each, 1, 0) === "delete");
      assert.deepEqual(known, ids.slice(Math.max(0, count + 1 - max), count + 1));
    }
  });
});
