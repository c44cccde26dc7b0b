// The recipes of docs/recipes.md, played against a real server; the page has their code.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { type Codec, connect, type Queue, work } from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { insertedCode, shownPart } from "../support/page-code.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import * as fanOut from "./fan-out.ts";
import * as nightly from "./nightly-report.ts";
import * as search from "./search-index.ts";
import * as imports from "./tenant-import.ts";
import * as webhooks from "./webhooks.ts";

const PAGE = fileURLToPath(new URL("../../docs/recipes.md", import.meta.url));
const FOLDER = fileURLToPath(new URL("./", import.meta.url));

describe("recipes", () => {
  let server: ServerProcess;
  const queues: Queue<never, never>[] = [];
  const workers: { stop(): Promise<void> }[] = [];

  before(async () => {
    server = await startServer({ kind: "ours", flags: ["--shards", "2"] });
  });
  after(async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
    await Promise.all(queues.map((queue) => queue.close()));
    await server.stop();
  });

  async function queueOf<T>(codec: Codec<T>): Promise<Queue<T>> {
    const queue = await connect(`127.0.0.1:${server.port}`, { codec });
    queues.push(queue as unknown as Queue<never, never>);
    return queue;
  }

  it("webhooks: retries failures, gives up what is gone, and holds two calls of a customer", async (t) => {
    const held = new Map<string, number>();
    let most = 0;
    const calls = new Map<string, number>();
    const endpoint: Server = createServer((request, response) => {
      const path = request.url!;
      const [, customer = ""] = path.split("/");
      held.set(customer, (held.get(customer) ?? 0) + 1);
      most = Math.max(most, held.get(customer)!);
      const attempt = (calls.get(path) ?? 0) + 1;
      calls.set(path, attempt);
      // Together with the next one of its customer, if the server permits that.
      setImmediate(() => {
        held.set(customer, held.get(customer)! - 1);
        response.statusCode = path.includes("gone")
          ? 410
          : path.includes("broken") || attempt < 3
            ? 500
            : 200;
        response.end();
      });
    });
    await new Promise<void>((resolve) => endpoint.listen(0, "127.0.0.1", resolve));
    t.after(() => endpoint.close());
    const url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}`;
    const queue = await queueOf(webhooks.codec);
    await webhooks.setUp(queue);
    assert.equal((await queue.tube("webhooks").inspect())["maxAttempts"], 15);
    // Half a day is too long for a test.
    await queue.tube("webhooks").set({ backoff: 0.01, backoffMax: 0.02, maxAttempts: 4 });
    for (let event = 0; event < 10; event++)
      for (const customer of ["acme", "globex"])
        await webhooks.send(queue, customer, `${event}`, {
          url: `${url}/${customer}/${event}`,
          event: "paid",
        });
    const again = await webhooks.send(queue, "acme", "0", { url: `${url}/acme/0`, event: "paid" });
    assert.equal(again.duplicate, true);
    await webhooks.send(queue, "acme", "gone", { url: `${url}/acme/gone`, event: "paid" });
    await webhooks.send(queue, "acme", "broken", { url: `${url}/acme/broken`, event: "paid" });
    workers.push(webhooks.startWorker(queue));
    await eventually(
      "20 are delivered",
      () => [...calls].filter(([, attempts]) => attempts === 3).length === 20,
    );
    const dead = await eventually(
      "one is dead",
      async () =>
        await queue
          .tube("webhooks-dead")
          .peek("ready")
          .catch(() => undefined),
    );
    const [failure] = (await queue.job(dead.id).inspect()).failures;
    assert.match(failure!.reason!, /broken answered 500$/);
    assert.equal(calls.get("/acme/broken"), 4);
    const gone = await eventually("one is buried", async () => await queue.tube("webhooks").peek("buried"));
    assert.equal((await queue.job(gone.id).inspect()).failures[0]!.reason, "410 Gone");
    assert.ok(most <= 2, `${most} calls of a customer at once`);
  });

  it("imports: a small tenant doesn't wait for a large one, and each hears of its end", async () => {
    const queue = await queueOf(imports.codec);
    const rows = (count: number): string[] => Array.from({ length: count }, (_, row) => `${row}`);
    await imports.importRows(queue, "large", "1", rows(200));
    await imports.importRows(queue, "small", "2", rows(5));
    const order: string[] = [];
    const ended: string[] = [];
    workers.push(
      work(queue, ["rows"], async (job) => {
        order.push(job.body.tenant);
        if (job.body.tenant === "small" && job.body.row === "3")
          await job.bury({ reason: "no such product" });
      }),
    );
    const buried = await eventually("a row is buried", async () => await queue.tube("rows").peek("buried"));
    await queue.job(buried.id).delete();
    workers.push(
      work(queue, ["imports-ended"], async (job) => {
        ended.push(`${job.body.tenant}: ${await imports.resultOf(queue, job.body.importId)}`);
      }),
    );
    await eventually("both have ended", () => ended.length === 2);
    assert.deepEqual(ended.toSorted(), [
      "large: 200 rows imported, 0 failed",
      "small: 4 rows imported, 1 failed",
    ]);
    assert.ok(order.lastIndexOf("small") < 20, "the server takes turns between tenants");
  });

  it("imports: a call that failed may be repeated", async () => {
    const queue = await queueOf(imports.codec);
    function* broken(): Generator<string> {
      yield "0";
      yield "1";
      throw new Error("the file ends");
    }
    await assert.rejects(imports.importRows(queue, "t", "3", broken()), /the file ends/);
    await imports.importRows(queue, "t", "3", ["0", "1", "2"]);
    await eventually(
      "all rows are done once",
      async () => (await imports.resultOf(queue, "3")) === "3 rows imported, 0 failed",
    );
  });

  it("nightly report: set again without harm, and named by its run", async () => {
    const queue = await queueOf(nightly.codec);
    await nightly.setUp(queue);
    const { next } = await queue.schedule("nightly-sales").inspect();
    await nightly.setUp(queue);
    assert.deepEqual((await queue.schedule("nightly-sales").inspect()).next, next);
    const written: string[] = [];
    await queue.tube("reports").set({ backoff: 0.01 });
    workers.push(
      nightly.startWorker(queue, async (report, run) => {
        written.push(`${report} ${run}`);
        if (written.length === 1) throw new Error("no space");
      }),
    );
    await queue.schedule("nightly-sales").run();
    await eventually("it is written at the second attempt", () => written.length === 2);
    assert.deepEqual(written, Array(2).fill("sales nightly-sales@now"));
  });

  it("search index: many changes are one update, and none is lost", async () => {
    const queue = await queueOf(search.codec);
    const newest = new Map<string, number>();
    const indexed = new Map<string, number>();
    let updates = 0;
    for (let change = 1; change <= 50; change++)
      for (const id of ["doc-1", "doc-2"]) {
        newest.set(id, change);
        const { outcome } = await search.changed(queue, id, 20);
        assert.equal(outcome, change === 1 ? "inserted" : "debounced");
      }
    let isChangedMeanwhile = false;
    workers.push(
      search.startWorker(queue, async (id) => {
        updates++;
        indexed.set(id, newest.get(id)!);
        if (id !== "doc-1" || isChangedMeanwhile) return;
        isChangedMeanwhile = true;
        newest.set(id, 51);
        assert.equal((await search.changed(queue, id, 0)).outcome, "inserted");
      }),
    );
    // Their time has come.
    await queue.tube("index").kick(10);
    await eventually(
      "the index is up to date",
      () => indexed.get("doc-1") === 51 && indexed.get("doc-2") === 50,
    );
    assert.equal(updates, 3);
  });

  it("fan-out and fan-in: joins once, after all chunks, also if a worker dies", async () => {
    const queue = await queueOf(fanOut.codec);
    const encoded = new Map<string, Set<number>>();
    const joined: string[] = [];
    const failed = new Set<number>();
    await queue.tube("chunks").set({ maxAttempts: 3 });
    // Half of the first step was done before.
    await queue.batch("video-b").open({ keep: 3600 });
    await queue.put("chunks", { video: "b", chunk: 0 }, { batch: "video-b", unique: "b:0", uniqueFor: 3600 });
    workers.push(
      ...fanOut.startWorkers(queue, {
        chunks: 5,
        encode: async ({ video, chunk }) => {
          if (video === "a" && chunk === 3 && !failed.has(chunk)) {
            failed.add(chunk);
            throw new Error("codec crashed");
          }
          const done = encoded.get(video) ?? new Set();
          encoded.set(video, done.add(chunk!));
        },
        join: async (video) => {
          joined.push(`${video}: ${encoded.get(video)!.size}`);
        },
      }),
    );
    for (const video of ["a", "b"]) await queue.put("videos", { video });
    await eventually("both are joined", () => joined.length >= 2);
    assert.deepEqual(joined.toSorted(), ["a: 5", "b: 5"]);
    // The same first step again: all has been put.
    await queue.put("videos", { video: "a" });
    await eventually("it is done", async () => (await queue.tube("videos").stats()).currentJobsReady === 0);
    assert.equal(joined.length, 2);
  });

  it("are on the page as they are played", () => {
    const page = readFileSync(PAGE, "utf8");
    const { names, expected } = insertedCode(page, (name) => shownPart(FOLDER, name));
    const files = ["fan-out.ts", "nightly-report.ts", "search-index.ts", "tenant-import.ts", "webhooks.ts"];
    assert.deepEqual(names.toSorted(), files);
    if (process.env["UPDATE"] === "1") writeFileSync(PAGE, expected);
    else assert.equal(page, expected, "UPDATE=1 bin/node --test test/recipes/recipes.test.ts");
  });
});
