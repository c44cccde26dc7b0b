// Tests of the scrub of a log in use: bits that flip on the disk are found and named, and the jobs
// are in the log again before the server stops.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { it, type TestContext } from "node:test";
import { eventually } from "../support/eventually.ts";
import { closedFilesOf, flipBits, missedOf, withoutLastBlocks } from "../support/flipped-bits.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { drawnSeed, SeededRandom } from "../support/seeded-random.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";
import { runTool } from "../support/server/tool.ts";
import { WireClient } from "../support/server/wire-client.ts";

const FLIPS = 60;
const JOBS = 1200;
const TUBES = ["mail", "video", "report"];

interface Place {
  readonly file: string;
  readonly offset: number;
  readonly bytes: number;
  readonly jobs: readonly number[];
  readonly repairedAt: string | null;
}

const start = async (t: TestContext, folder: string): Promise<HttpServer> => {
  const server = await startHttpServer("--shards", "2", "-b", folder, "-s", "1048576", "-z", "400000");
  t.after(() => server.process.kill());
  return server;
};

const scrubOf = async (server: HttpServer) => (await server.ask("/v1/binlog")).json.scrub;

/** Walks over the whole log now, and returns the report once that has ended and `isDone`. */
async function walked(server: HttpServer, isDone: (scrub: { damaged: number }) => boolean = () => true) {
  // Its own walk may have ended before.
  const { walks } = await scrubOf(server);
  assert.equal((await server.ask("/v1/binlog/scrub", { method: "POST" })).status, 200);
  return await eventually("a walk over the log", async () => {
    const scrub = await scrubOf(server);
    return scrub.walks > walks && scrub.left === 0 && isDone(scrub) && scrub;
  });
}

/** Jobs of all states with all that a record can hold, in several files; a part has ended again. */
async function fill(server: HttpServer, random: SeededRandom): Promise<void> {
  const client = await WireClient.connect(server.process.address);
  await client.ask("set-tube mail max-attempts=9");
  await client.ask("set-tube video.* max-attempts=4");
  // One batch is open, and some members of the other have ended.
  for (const batch of ["open", "done"]) {
    assert.match((await client.ask(`open-batch ${batch}`)).line, /^OPENED/);
    for (const member of ["a", "b", "c"])
      await client.ask(`put-in-tube members 0 0 60 1 batch=${batch}\r\n${member}`);
  }
  await client.ask("reserve-job 6");
  await client.ask("delete 6");
  await client.ask("commit-batch done");
  await client.ask("set-schedule nightly report 7 0 60 5 every=86400\r\nevery");
  for (let put = 1; put <= JOBS; put++) {
    const isHuge = put % 400 === 0;
    const body = `${put}.`.padEnd(isHuge ? 300_000 : 100 + random.below(4000), "x");
    const tube = put % 5 === 0 ? "mail" : TUBES[random.below(TUBES.length)];
    const delay = random.below(4) === 0 ? 3600 : 0;
    const options = put % 5 === 0 ? ` unique=key:${put} unique-for=7200 meta=a:${put}` : "";
    await client.ask(
      `put-in-tube ${tube} ${random.below(100)} ${delay} 600 ${body.length}${options}\r\n${body}`,
    );
    if (random.below(4) > 0) continue;
    const { line } = await client.ask(`reserve-job ${put}`);
    if (line.startsWith("RESERVED"))
      await client.ask(
        [`delete ${put}`, `bury ${put} 5`, `release ${put} 3 7200`, `release ${put} 4 0`][random.below(4)]!,
      );
  }
  client.close();
}

/** Everything that clients can see of jobs, schedules and settings, except times. */
async function contents(server: HttpServer): Promise<string[]> {
  const client = await WireClient.connect(server.process.address);
  const found: string[] = [];
  for (let id = 1; id <= JOBS + 10; id++) {
    const { line, body } = await client.ask(`peek ${id}`);
    if (line === "NOT_FOUND") continue;
    const stats = (await client.ask(`inspect-job ${id}`)).body!.toString();
    const kept = stats.split("\n").filter((each) => !/^(?:age|time-left|file|\S*left(?:-ms)?):/.test(each));
    const isWhole = new Set(body!.subarray(6)).size <= 1;
    found.push(`${line} ${isWhole} ${kept}`);
  }
  // A key is held by its job, or remembered after it.
  for (let put = 5; put <= JOBS; put += 5)
    found.push((await client.ask(`put-in-tube mail 0 0 60 1 unique=key:${put}\r\nx`)).line);
  client.close();
  for (const path of ["/v1/schedules", "/v1/settings", "/v1/batches/open", "/v1/batches/done"])
    found.push((await server.ask(path)).text);
  return found.map((each) => each.replaceAll(/"age":\d+/g, ""));
}

/** Shows only a few differences: the lists are long. */
function assertSame(now: readonly string[], before: readonly string[], what: string): void {
  const differ = now.flatMap((each, at) => (each === before[at] ? [] : [[each, before[at]]]));
  assert.deepEqual([differ.slice(0, 3), now.length], [[], before.length], what);
}

it("60 flipped bits in a log in use are found, named and repaired from memory", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const seed = Number(process.env["SEED"] ?? drawnSeed());
  t.diagnostic(`seed ${seed}`);
  const random = new SeededRandom(seed);
  const folder = temporaryFolder(t, "scrub");
  const server = await start(t, folder);
  await fill(server, random);
  const before = await contents(server);
  const flips = flipBits(folder, FLIPS, random);

  const { places, found } = await walked(server);
  assert.deepEqual(missedOf(flips, places), [], `flips that were not found, with seed ${seed}`);
  assert.equal(found, places.length);
  // A scrub that skips the last block of a file would not pass.
  assert.ok(missedOf(flips, withoutLastBlocks(flips, places)).length > 0, "some flips are in last blocks");
  const jobs = (places as Place[]).flatMap((place) => place.jobs);
  assert.ok(jobs.length > 0 && jobs.every((id) => id > 0), `${jobs} are ids of jobs`);

  const repaired = await eventually("the repair", async () => {
    const scrub = await scrubOf(server);
    return scrub.damaged === 0 && scrub;
  });
  assert.ok(repaired.places.every((place: Place) => place.repairedAt !== null));
  await eventually("a line of a repair", async () => server.process.stderr.includes("BINLOG_REPAIRED"));
  // The server's log names the first 16 places of a file.
  for (const [file, its] of Map.groupBy(places as Place[], (place) => place.file)) {
    const named = its.filter(({ offset }) =>
      server.process.stderr.includes(`BINLOG_DAMAGED: ${file} at offset ${offset}, `),
    );
    assert.ok(named.length >= Math.min(its.length, 16), `${named.length} of ${its.length} places of ${file}`);
  }
  assertSame(await contents(server), before, "what the running server has");
  const now = await runTool(["binlog", "scrub", "--url", server.url]);
  assert.equal(now.code, 0, now.stderr);
  assert.match(now.stdout, new RegExp(`${found} damaged places since the start, 0 of them still there`));
  assert.equal((await runTool(["binlog", "scrub", "--pause", "--url", server.url])).stdout, "paused\n");
  assert.equal((await scrubOf(server)).paused, true);
  assert.equal((await server.process.stop()).code, 0);
  const stopped = await runTool(["binlog", "scrub", folder]);
  assert.match(stopped.stdout, /^0 damaged places in \d+ files\n$/);
  assert.equal(stopped.code, 0);

  const again = await start(t, folder);
  assertSame(await contents(again), before, `what a start reads, with seed ${seed}`);
  const after = await walked(again);
  assert.deepEqual([after.found, after.failure], [0, ""]);
  await again.process.stop();
  const [last] = flipBits(folder, 1, random);
  const damaged = await runTool(["binlog", "scrub", folder]);
  assert.match(
    damaged.stdout,
    new RegExp(`^${last!.file} at offset \\d+, \\d+ bytes.*\\n1 damaged places`, "m"),
  );
  assert.equal(damaged.code, 1);
});

it("files that hold nothing but noise are written again from memory", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const seed = Number(process.env["SEED"] ?? drawnSeed());
  t.diagnostic(`seed ${seed}`);
  const random = new SeededRandom(seed);
  const folder = temporaryFolder(t, "scrub-noise");
  const server = await start(t, folder);
  await fill(server, random);
  const before = await contents(server);
  const files = closedFilesOf(folder);
  for (const file of files) {
    const path = join(folder, file);
    // The file stays: the server may have it open.
    writeFileSync(path, randomBytes(statSync(path).size), { flag: "r+" });
  }
  const { found } = await walked(server, ({ damaged }) => damaged === 0);
  assert.ok(found >= files.length, `${found} places in ${files.length} files`);
  assert.deepEqual(
    closedFilesOf(folder).filter((file) => files.includes(file)),
    [],
  );
  assert.equal((await server.process.stop()).code, 0);
  assertSame(await contents(await start(t, folder)), before, `what a start reads, with seed ${seed}`);
});

it("a scrub that another operator pauses ends, and does not say that all is well", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const scrub = { paused: false, walks: 1, left: 5, found: 0, damaged: 0, failure: "", places: [] };
  let looks = 0;
  const server = createServer(({ method }, response) => {
    if (method === "GET") looks++;
    const view = method === "POST" ? scrub : { scrub: { ...scrub, left: 0, paused: true } };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(looks < 5 ? view : {}));
  });
  server.listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const { code, stderr } = await runTool(["binlog", "scrub", "--url", `http://127.0.0.1:${port}`]);
  assert.equal(code, 1);
  assert.match(stderr, /the search was paused before its end: run this again/);
  assert.equal(looks, 1);
});
