// Schedules in logs that set-schedule would refuse now: one whose last tick is over, and one of a
// time zone with an abbreviation as its name.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { crc32 } from "node:zlib";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { startServer } from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";
import { WireClient } from "../support/server/wire-client.ts";

/** An expression for the second that begins in one to two seconds, of this year only. */
function soonAndNeverAgain(): string {
  const at = new Date(Date.now() + 2000);
  const day = `${at.getUTCDate()} ${at.getUTCMonth() + 1} * ${at.getUTCFullYear()}`;
  return `${at.getUTCSeconds()} ${at.getUTCMinutes()} ${at.getUTCHours()} ${day}`.replaceAll(" ", "_");
}

it("a server starts on a log with a schedule that is over", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const flags = ["-b", temporaryFolder(t)];
  const first = await startServer({ kind: "ours", flags });
  t.after(() => first.kill());
  const client = await WireClient.connect(first.address);
  const { line } = await client.ask(`set-schedule once t 0 0 60 1 cron=${soonAndNeverAgain()}\r\nx`);
  assert.equal(line, "SET");
  await client.ask("watch t");
  assert.match((await client.ask("reserve-with-timeout 10")).line, /^RESERVED/);
  assert.match(`${(await client.ask("inspect-schedule once")).body}`, /^next: never$/m);
  client.close();
  await first.stop();
  const second = await startServer({ kind: "ours", flags });
  t.after(() => second.kill());
  const again = await WireClient.connect(second.address);
  assert.match((await again.ask("put 0 0 60 1\r\nx")).line, /^INSERTED/);
  assert.match(`${(await again.ask("inspect-schedule once")).body}`, /^next: never$[\s\S]*^fired: 1$/m);
  again.close();
  await second.stop();
});

/** Replaces a text in the attributes of the jobs of a dump. */
function withZone(dump: string, from: string, to: string): string {
  const [end, ...lines] = dump.trimEnd().split("\n").reverse() as [string, ...string[]];
  const changed = lines.reverse().map((line) => {
    const job = JSON.parse(line) as { attributes?: string };
    if (job.attributes === undefined) return `${line}\n`;
    const bytes = Buffer.from(job.attributes, "base64").toString("latin1").replace(from, to);
    return `${JSON.stringify({ ...job, attributes: Buffer.from(bytes, "latin1").toString("base64") })}\n`;
  });
  const text = changed.join("");
  return `${text}${JSON.stringify({ ...JSON.parse(end), crc32: crc32(text) })}\n`;
}

it("a server warns of a time zone that it would refuse, and serves", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const folder = temporaryFolder(t);
  const path = (name: string): string => join(folder, name);
  for (const name of ["log", "again"]) mkdirSync(path(name));
  const first = await startServer({ kind: "ours", flags: ["-b", path("log")] });
  t.after(() => first.kill());
  const client = await WireClient.connect(first.address);
  for (const name of ["a", "b"])
    assert.equal((await client.ask(`set-schedule ${name} t 0 0 60 1 cron=@daily tz=CET\r\nx`)).line, "SET");
  client.close();
  await first.stop();
  assert.equal((await runTool(["binlog", "dump", path("log"), path("jobs")])).code, 0);
  writeFileSync(path("odd"), withZone(readFileSync(path("jobs"), "utf8"), "CET", "IST"));
  const restored = await runTool(["binlog", "restore", path("odd"), path("again")]);
  assert.equal(restored.code, 0, restored.stderr);
  const second = await startServer({ kind: "ours", flags: ["-b", path("again"), "--shards", "1"] });
  t.after(() => second.kill());
  assert.match(
    second.stderr + second.stdout,
    /SCHEDULE_ZONE: schedule .*a.* \(and 1 more\): tz: .*IST.* is no IANA time zone/,
  );
  const again = await WireClient.connect(second.address);
  assert.match(`${(await again.ask("inspect-schedule a")).body}`, /^tz: "IST"$[\s\S]*^next: 20/m);
  again.close();
});
