// Tests of tasks over HTTP: their progress, results and cancellation.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { ManageRequests } from "./manage-requests.ts";

/** More than the fields of a job contain of its body. */
const BIG_BYTES = 200_000;

describe("tasks over HTTP", () => {
  let server: HttpServer;
  let client: WireClient;

  before(async () => {
    server = await startHttpServer("--shards", "3", "--acceptors", "1", "-z", `${BIG_BYTES}`);
    client = await WireClient.connect(server.process.address);
  });
  after(async () => {
    client.socket.destroy();
    await server.process.stop();
  });
  const { get, putTo } = new ManageRequests(() => server);

  it("tasks keep their results, and a finished one can't be cancelled", async () => {
    await putTo("task", 10);
    await server.ask("/v1/tubes/task/clear", { json: { states: ["ready"] } });
    const { items } = await get("/v1/tasks");
    const task = items.at(-1);
    assert.deepEqual(
      [task.act, task.tube, task.affected, task.state, task.progress],
      ["delete", "task", 10, "done", 1],
    );
    assert.equal((await server.ask(`/v1/tasks/${task.id}`, { method: "DELETE" })).json.state, "done");
    assert.equal((await server.ask("/v1/tasks/t999")).json.code, "task-not-found");
  });

  it("a large clear is a task with progress, can be cancelled, and delays no other client", async () => {
    for (let put = 0; put < 10; put++) await putTo("huge", 1000, { body: "x".repeat(2000) });
    // A text that is in no body: all of 60 MB are looked through.
    const began = server.ask("/v1/tubes/huge/clear", {
      json: { states: ["ready"], where: { text: "nothing" } },
    });
    const task = await eventually("the task runs or is over", async () => {
      const { items } = await get("/v1/tasks");
      return items.find(({ tube }: { tube: string }) => tube === "huge");
    });
    assert.match((await client.ask("stats-tube huge")).line, /^OK/);
    const ended = (await server.ask(`/v1/tasks/${task.id}`, { method: "DELETE" })).json;
    assert.ok(["cancelled", "done"].includes(ended.state));
    assert.equal((await began).status, 200);
    assert.equal((await get("/v1/tubes/huge")).jobs.ready, 10_000);
  });
});
