// Tests of finished leases: a duplicate request runs once and gets the same answer, even while the
// first one is in progress.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ControlClient } from "../../../../src/http/link/control-client.ts";
import { changeLeases, type LeaseParts } from "../../../../src/http/queue/lease-changes.ts";
import { LeaseTable } from "../../../../src/http/state/lease-table.ts";
import type { LeaseChange } from "../../../../src/message/control.ts";

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
    while (asked.length < 3) await Promise.resolve();
    asked[1]!.answer.resolve([false]);
    asked[2]!.answer.resolve([true]);
    assert.deepEqual([await same, await other], [[true], [false]]);
    assert.equal(parts.leases.ended, 1);
  });
});
