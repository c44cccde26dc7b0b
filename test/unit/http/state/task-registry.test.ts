// Tests of the registry of bulk tasks: how many it remembers and runs, and how they end.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { ControlClient } from "../../../../src/http/link/control-client.ts";
import { type Copying, TaskRegistry } from "../../../../src/http/state/task-registry.ts";

const RUNNING_MAX = 8;

/** A task that ends by hand. */
function begin(registry: TaskRegistry) {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const copying: Partial<Copying> = {
    run: () => promise,
    stop: () => resolve(),
  };
  const task = registry.startCopying("tube", copying as Copying);
  task.done.catch(() => {});
  return { task, resolve, reject };
}

it("eight tasks run at the same time at most, however the others ended", async () => {
  const registry = new TaskRegistry({} as ControlClient, () => 7);
  const tasks = Array.from({ length: RUNNING_MAX }, () => begin(registry));
  for (const end of [
    ({ resolve }: (typeof tasks)[0]) => resolve(),
    ({ reject }: (typeof tasks)[0]) => reject(new Error("full")),
    ({ task }: (typeof tasks)[0]) => task.cancel(),
  ]) {
    assert.throws(() => begin(registry), /8 tasks are under way/);
    assert.equal(registry.all.filter(({ state }) => state === "running").length, RUNNING_MAX);
    const ended = tasks.shift()!;
    end(ended);
    await ended.task.done.catch(() => {});
    tasks.push(begin(registry));
  }
});

it("a task keeps how and when it ended, whatever is asked of it later", async () => {
  let nowMs = 100;
  const registry = new TaskRegistry({} as ControlClient, () => nowMs);
  const [done, failed, cancelled] = [begin(registry), begin(registry), begin(registry)];
  nowMs = 200;
  cancelled.task.cancel();
  done.resolve();
  failed.reject(new Error("a put was refused"));
  for (const { task } of [done, failed, cancelled]) await task.done.catch(() => {});
  nowMs = 300;
  for (const { task } of [done, failed, cancelled]) task.cancel();
  assert.deepEqual(
    registry.all.map(({ state, fault, startedAtMs, endedAtMs }) => [state, fault, startedAtMs, endedAtMs]),
    [
      ["done", undefined, 100, 200],
      ["failed", "a put was refused", 100, 200],
      ["cancelled", undefined, 100, 200],
    ],
  );
});

it("the registry forgets the oldest ended tasks, but no running one, however old", async () => {
  const registry = new TaskRegistry({} as ControlClient, () => 0);
  const copying = (run: Promise<void>): Copying =>
    ({ run: () => run, stop() {} }) as Partial<Copying> as Copying;
  const { promise, resolve } = Promise.withResolvers<void>();
  const long = registry.startCopying("long", copying(promise));
  for (let number = 0; number < 250; number++)
    await registry.startCopying(`short-${number}`, copying(Promise.resolve())).done;
  const { all } = registry;
  assert.equal(all.length, 100);
  assert.equal(all[0], long);
  assert.deepEqual([all[1]!.tube, all.at(-1)!.tube], ["short-151", "short-249"]);
  assert.equal(registry.get(long.id), long);
  resolve();
  await long.done;
  assert.equal(long.state, "done");
});
