import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AsyncQueue, Busy } from "../../../../src/http/link/control-client.ts";

const HERE = { destroyed: false };

describe("in turn", () => {
  it("starts each task when the one before is done, also if that failed", async () => {
    const turns = new AsyncQueue();
    const first = Promise.withResolvers<string>();
    const began: string[] = [];
    const begin = (name: string, result: Promise<string>) =>
      turns.run(HERE, () => {
        began.push(name);
        return result;
      });
    const made = [begin("a", first.promise), begin("b", Promise.resolve("done"))];
    await new Promise(setImmediate);
    assert.deepEqual(began, ["a"]);
    first.reject(new Error("failed"));
    await assert.rejects(made[0]!, /failed/);
    assert.equal(await made[1], "done");
    assert.deepEqual(began, ["a", "b"]);
  });

  it("skips clients that have left before their turn", async () => {
    const turns = new AsyncQueue();
    const asker = { destroyed: false };
    const first = Promise.withResolvers<void>();
    const made = [turns.run(HERE, () => first.promise), turns.run(asker, () => assert.fail("it was made"))];
    asker.destroyed = true;
    first.resolve();
    await made[0];
    await assert.rejects(made[1]!, Busy);
  });

  it("lets a thousand wait, and more when these are done", async () => {
    const turns = new AsyncQueue();
    const first = Promise.withResolvers<void>();
    const made = [turns.run(HERE, () => first.promise)];
    await new Promise(setImmediate);
    for (let each = 0; each < 1000; each++) made.push(turns.run(HERE, async () => {}));
    await assert.rejects(
      turns.run(HERE, async () => {}),
      Busy,
    );
    first.resolve();
    await Promise.all(made);
    await turns.run(HERE, async () => {});
  });
});
