// Tests of the registry of bulk tasks: how many it remembers.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { ControlClient } from "../../../../src/http/link/control-client.ts";
import type { Copying } from "../../../../src/http/state/copying.ts";
import { TaskRegistry } from "../../../../src/http/state/task-registry.ts";

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
