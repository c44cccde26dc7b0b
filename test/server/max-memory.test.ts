// Tests of --max-memory: only puts are refused when jobs have used it up, and it can be changed at
// runtime.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { startServer } from "../support/server/server-process.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";

const LIMIT_BYTES = 4 << 20;

describe("--max-memory", () => {
  const folder = temporaryFolder({ after }, "memory");
  const config = join(folder, "runnerbean.toml");
  const configure = (limit: string): void =>
    writeFileSync(config, `max-memory = "${limit}"\nmax-job-size = "8M"\n`);
  let server: HttpServer;
  let client: WireClient;
  before(async () => {
    configure("4M");
    server = await startHttpServer("--config", config, "--shards", "3", "--acceptors", "2");
    client = await WireClient.connect({ host: "127.0.0.1", port: server.process.port });
  });
  after(() => server.process.stop());

  /** Fills tubes of all shards; returns how many bytes of bodies went in. */
  async function fill(bytes: number): Promise<number> {
    for (let job = 0; ; job++) {
      await client.ask(`use t${job % 7}`);
      const { line } = await client.put("x".repeat(bytes));
      if (line === "OUT_OF_MEMORY") return job * bytes;
      assert.match(line, /^INSERTED /);
    }
  }

  it("is in the start line", async () => {
    await untilItSays(server.process, /at most 4M of jobs/);
  });

  it("refuses puts of every kind, reports that everywhere, and refuses nothing else", async () => {
    assert.equal((await server.ask("/readyz?for=put")).status, 200);
    const again = async (bytes: number, options: string): Promise<string> =>
      (await client.ask(`put-in-tube keys 5 9 60 ${bytes} unique=k${options}\r\n${"z".repeat(bytes)}`)).line;
    const [inserted, key] = (await again(1, "")).split(" ");
    assert.equal(inserted, "INSERTED");
    const filled = await fill(30_000);
    assert.ok(filled > 0.9 * LIMIT_BYTES && filled <= LIMIT_BYTES, `${filled}`);
    // Through the ring, in one piece; right into the arena or in pieces, as shard and acceptor
    // live; and none at all.
    for (const bytes of [0, 1, 5000, 65_535, 5 << 20])
      for (const tube of ["t0", "t1", "t2", "t3"]) {
        await client.ask(`use ${tube}`);
        assert.equal(
          (await client.put("y".repeat(bytes))).line,
          "OUT_OF_MEMORY",
          `${bytes} bytes in ${tube}`,
        );
      }
    assert.equal((await client.ask(`put-in-tube t0 0 0 60 1\r\nx`)).line, "OUT_OF_MEMORY");
    // A duplicate stores nothing, so it needs no room.
    for (const bytes of [1, 5000, 65_535, 5 << 20]) {
      assert.equal(await again(bytes, ""), `DUPLICATE ${key}`, `${bytes} bytes`);
      assert.equal(await again(bytes, " on-duplicate=keep"), `KEPT ${key}`, `${bytes} bytes`);
      assert.equal(await again(bytes, " on-duplicate=replace"), "OUT_OF_MEMORY", `${bytes} bytes`);
    }
    assert.equal(await again(1, " on-duplicate=debounce"), `DEBOUNCED ${key}`);
    const refused = await server.ask("/v1/tubes/t0/jobs", { method: "POST", body: "x" });
    assert.equal(refused.status, 507);
    assert.match(refused.json.detail, /max-memory/);
    assert.equal((await server.ask("/readyz")).status, 200);
    const ready = await server.ask("/readyz?for=put");
    assert.equal(ready.status, 503);
    assert.match(ready.text, /max-memory/);
    const { memory } = (await server.ask("/v1/server")).json;
    assert.deepEqual([memory.limit, memory.full, memory.used <= LIMIT_BYTES], [LIMIT_BYTES, true, true]);
    assert.match((await server.ask("/metrics")).text, /^runnerbean_job_memory_limit_bytes 4194304$/m);
    await untilItSays(server.process, /jobs have all the memory that max-memory gives them \(4M\)/);
    const { line, body } = await client.ask(`peek ${Number(key) + 1}`);
    assert.deepEqual([line, body?.length], ["FOUND 2 30000", 30_000]);
    await client.ask("watch t0");
    const reserved = (await client.ask("reserve-with-timeout 0")).line.split(" ")[1]!;
    assert.equal((await client.ask(`release ${reserved} 5 0`)).line, "RELEASED");
    assert.match((await client.ask("set-tube t0 ttl=600")).line, /^SET/);
    assert.equal((await client.ask("stats")).line.slice(0, 3), "OK ");
  });

  it("accepts puts again after deletes, for each size of body", async () => {
    for (let id = 1; id <= 40; id++) await client.ask(`delete ${id}`);
    assert.equal((await eventually("there is memory", () => server.ask("/readyz?for=put"))).status, 200);
    assert.match((await client.put("x".repeat(60_000))).line, /^INSERTED /);
    await untilItSays(server.process, /there is memory for jobs again/);
  });

  it("changes up and down with SIGHUP", async () => {
    await fill(30_000);
    configure("16M");
    server.process.signal("SIGHUP");
    await untilItSays(server.process, /changed: max-memory/);
    assert.match((await client.put("x".repeat(5 << 20))).line, /^INSERTED /);
    configure("2M");
    server.process.signal("SIGHUP");
    await untilItSays(server.process, /changed: max-memory(?:.|\n)*changed: max-memory/);
    assert.equal((await client.put("")).line, "OUT_OF_MEMORY");
  });
});

describe("--max-memory with a log", () => {
  it("loads existing jobs, also beyond the limit", async (t) => {
    const folder = temporaryFolder(t, "memory-log");
    const flags = ["-b", folder, "--shards", "2"];
    const first = await startServer({ kind: "ours", flags });
    const filling = await WireClient.connect({ host: "127.0.0.1", port: first.port });
    for (let job = 0; job < 40; job++) {
      filling.send(`put 0 0 60 60000\r\n${"x".repeat(60_000)}\r\n`);
      assert.equal((await filling.readReply()).line, `INSERTED ${job + 1}`);
    }
    await first.stop();
    const second = await startServer({ kind: "ours", flags: [...flags, "--max-memory", "1M"] });
    t.after(() => second.stop());
    const client = await WireClient.connect({ host: "127.0.0.1", port: second.port });
    assert.equal((await client.put("")).line, "OUT_OF_MEMORY");
    assert.equal((await client.ask("peek 40")).body?.length, 60_000);
    for (let id = 1; id <= 40; id++) assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
    assert.match((await client.put("x")).line, /^INSERTED /);
  });
});
