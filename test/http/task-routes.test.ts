// Tests of tasks over HTTP: their progress, results and cancellation.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { ManagedServer } from "./manage-requests.ts";

describe("tasks over HTTP", () => {
  const its = new ManagedServer();
  const { get, putTo } = its.requests;

  it("tasks keep their results, and a finished one can't be cancelled", async () => {
    await putTo("task", 10);
    await its.server.ask("/v1/tubes/task/clear", { json: { states: ["ready"] } });
    const { items } = await get("/v1/tasks");
    const task = items.at(-1);
    assert.deepEqual(
      [task.act, task.tube, task.affected, task.state, task.progress],
      ["delete", "task", 10, "done", 1],
    );
    assert.equal((await its.server.ask(`/v1/tasks/${task.id}`, { method: "DELETE" })).json.state, "done");
    assert.equal((await its.server.ask("/v1/tasks/t999")).json.code, "task-not-found");
  });

  it("a large clear is a task with progress, can be cancelled, and delays no other client", async () => {
    for (let put = 0; put < 10; put++) await putTo("huge", 1000, { body: "x".repeat(2000) });
    // A text that is in no body: all of 60 MB are looked through.
    const began = its.server.ask("/v1/tubes/huge/clear", {
      json: { states: ["ready"], where: { text: "nothing" } },
    });
    const task = await eventually("the task runs or is over", async () => {
      const { items } = await get("/v1/tasks");
      return items.find(({ tube }: { tube: string }) => tube === "huge");
    });
    assert.match((await its.client.ask("stats-tube huge")).line, /^OK/);
    const ended = (await its.server.ask(`/v1/tasks/${task.id}`, { method: "DELETE" })).json;
    assert.ok(["cancelled", "done"].includes(ended.state));
    assert.equal((await began).status, 200);
    assert.equal((await get("/v1/tubes/huge")).jobs.ready, 10_000);
  });
});
