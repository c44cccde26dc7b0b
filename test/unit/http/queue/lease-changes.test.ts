// Tests of finished leases: a duplicate request runs once and gets the same answer, even while the
// first one is in progress; and of many changes, which take several questions.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Packr } from "msgpackr";
import type { ControlClient } from "../../../../src/http/link/control-client.ts";
import { changeLeases, type LeaseParts } from "../../../../src/http/queue/lease-changes.ts";
import { LeaseTable } from "../../../../src/http/state/lease-table.ts";
import type { LeaseChange } from "../../../../src/message/control.ts";
import { REASON_BYTES_MAX } from "../../../../src/protocol/job-failure.ts";
import { soon } from "../../../support/eventually.ts";

interface Question {
  readonly changes: readonly LeaseChange[];
  readonly answer: PromiseWithResolvers<boolean[]>;
}

function scene(): { parts: LeaseParts; asked: Question[]; token: string } {
  const asked: Question[] = [];
  const control = {
    shards: 1,
    ask(_shard: number, _verb: string, { changes }: { changes: readonly LeaseChange[] }) {
      const answer = Promise.withResolvers<boolean[]>();
      asked.push({ changes, answer });
      return answer.promise;
    },
  } as unknown as ControlClient;
  const leases = new LeaseTable(() => 0);
  const times = { sinceMs: 0, untilMs: 10_000 };
  const { token } = leases.give({
    ...{ id: 5, shard: 0, reserves: 1, tube: "t", ttr: 10, owner: "", address: "", ...times },
  });
  return { parts: { leases, control }, asked, token };
}

describe("changeLeases", () => {
  it("answers a repeated request equally while a slow disk delays the first", async () => {
    const { parts, asked, token } = scene();
    const change = { act: "delete", token } as const;
    const first = changeLeases(parts, "", [change]);
    const second = changeLeases(parts, "", [change, change]);
    // The shard's present state; its answer to a later request needn't wait.
    for (const { changes, answer } of asked.slice(1)) answer.resolve(changes.map(() => false));
    asked[0]!.answer.resolve([true]);
    assert.deepEqual(await first, [true]);
    assert.deepEqual(await second, [true, true]);
    assert.equal(asked.length, 1);
    assert.equal(parts.leases.ended, 0);
  });

  it("tries again after a failure, and refuses late requests", async () => {
    const { parts, asked, token } = scene();
    const first = changeLeases(parts, "", [{ act: "delete", token }]);
    const same = changeLeases(parts, "", [{ act: "delete", token }]);
    const other = changeLeases(parts, "", [{ act: "bury", token }]);
    assert.equal(asked.length, 2);
    asked[0]!.answer.reject(new Error("busy"));
    await assert.rejects(first, /busy/);
    await soon("it tries again", () => asked.length === 3);
    asked[1]!.answer.resolve([false]);
    asked[2]!.answer.resolve([true]);
    assert.deepEqual([await same, await other], [[true], [false]]);
    assert.equal(parts.leases.ended, 1);
  });
});

/** As ControlClient packs a question. */
const packr = new Packr({ useRecords: false, moreTypes: false, int64AsType: "number" });

/** Changes `count` leases by questions of at most `bytesMax`; the jobs in `refused` are gone. */
async function changeMany(
  {
    count,
    bytesMax,
    reason,
    shards = 1,
  }: { count: number; bytesMax: number; reason?: string; shards?: number },
  refused: (id: number) => boolean = () => false,
) {
  const questions: { shard: number; ids: number[] }[] = [];
  const control = {
    shards,
    questionBytesMax: bytesMax,
    ask(shard: number, verb: string, details: { changes: readonly LeaseChange[] }) {
      const bytes = packr.pack([verb, details]).length;
      assert.ok(bytes <= bytesMax, `a question of ${bytes} bytes`);
      questions.push({ shard, ids: details.changes.map(({ id }) => id % 1e6) });
      return Promise.resolve(details.changes.map(({ id }) => !refused(id % 1e6)));
    },
  } as unknown as ControlClient;
  const leases = new LeaseTable(() => 0);
  const times = { sinceMs: 0, untilMs: 10_000 };
  const changes = Array.from({ length: count }, (_, index) => {
    const key = { id: 8e15 + index, shard: index % shards, reserves: 2 ** 32 - 1 };
    const { token } = leases.give({ ...key, tube: "t", ttr: 10, owner: "", address: "", ...times });
    const times32 = { pri: 2 ** 32 - 1, delay: 2 ** 32 - 1.5 };
    return { act: "release", token, ...times32, ...(reason === undefined ? {} : { reason }) } as const;
  });
  return { done: await changeLeases({ leases, control }, "", changes), questions, leases };
}

describe("many changes of leases", () => {
  const HEAD_BYTES = 64;
  const CHANGE_BYTES = 128;

  for (const [what, reason, bytes] of [
    ["changes", undefined, CHANGE_BYTES],
    ["changes with the longest reasons", "é".repeat(REASON_BYTES_MAX), CHANGE_BYTES + REASON_BYTES_MAX],
  ] as const)
    it(`are divided into questions that are full, for all numbers of ${what}`, async () => {
      for (const fitting of [1, 2, 10])
        for (const count of [
          0,
          1,
          fitting - 1,
          fitting,
          fitting + 1,
          2 * fitting,
          2 * fitting + 1,
          5 * fitting,
        ]) {
          const asked = { count, bytesMax: HEAD_BYTES + fitting * bytes, ...(reason && { reason }) };
          const { done, questions } = await changeMany(asked);
          assert.deepEqual(
            questions.flatMap(({ ids }) => ids),
            Array.from({ length: count }, (_, index) => index),
          );
          assert.equal(questions.length, Math.ceil(count / fitting), `${count} by ${fitting}`);
          assert.ok(done.length === count && done.every((each) => each));
        }
    });

  it("tell of each whether it was done, and forget the leases that have ended", async () => {
    const isGone = (id: number): boolean => id % 3 === 1;
    const { done, questions, leases } = await changeMany(
      { count: 20, bytesMax: HEAD_BYTES + 4 * CHANGE_BYTES, shards: 2 },
      isGone,
    );
    assert.deepEqual(
      questions.map(({ shard, ids }) => [shard, ids.length]),
      [
        [0, 4],
        [0, 4],
        [0, 2],
        [1, 4],
        [1, 4],
        [1, 2],
      ],
    );
    assert.deepEqual(
      done,
      Array.from({ length: 20 }, (_, index) => !isGone(index)),
    );
    assert.deepEqual([leases.size, leases.ended], [0, done.filter((each) => !each).length]);
  });
});
