// Tests of `runnerbean binlog …` in this process: what each command prints, and its exit code.

import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Memory } from "../../../../src/base/bytes.ts";
import { openBinlog } from "../../../../src/binlog/open-binlog.ts";
import { binlogCommand } from "../../../../src/binlog/tools/cli.ts";
import { emptyRecordFields, encodePutHead, RecordState } from "../../../../src/message/record.ts";
import { Attribute, AttributeWriter } from "../../../../src/protocol/job-attribute.ts";
import { realOptions } from "../../../binlog/sample/real-options.ts";
import { JobWriter } from "../../../binlog/sample/sample-log.ts";
import { temporaryFolder } from "../../../support/machine/temporary-folder.ts";

/** Runs a command; returns its exit code and what it prints. */
async function run(t: TestContext, ...words: string[]): Promise<string> {
  const said: string[] = [];
  const mocks = [process.stdout, process.stderr].map((stream) => {
    const write = stream.write.bind(stream);
    // The runner of the tests writes, too.
    return t.mock.method(stream, "write", (chunk: string | Uint8Array) =>
      typeof chunk === "string" && !chunk.startsWith("TAP") ? said.push(chunk) > 0 : write(chunk),
    );
  });
  const before = process.exitCode;
  process.exitCode = 0;
  try {
    await binlogCommand().parseAsync(words, { from: "user" });
    return `${process.exitCode} ${said.join("")}`;
  } finally {
    process.exitCode = before;
    for (const { mock } of mocks) mock.restore();
    for (const stream of [process.stdout, process.stderr]) stream.removeAllListeners("error");
  }
}

test("the commands for a log that no server uses", async (t) => {
  const path = join(temporaryFolder(t), "log");
  mkdirSync(path);
  const other = (name: string): string => join(path, "..", name);
  assert.match(
    await run(t, "verify", path),
    /^2 BINLOG_INPUT: There is no log of runnerbean in .*\n {2}Give the directory/,
  );
  assert.match(await run(t, "verify", other("none")), /^10 BINLOG_DIR: Cannot use /);
  const { storage } = await openBinlog(realOptions(path));
  const writer = new JobWriter(storage);
  for (let id = 1; id <= 3; id++) writer.put(id, "x".repeat(500), id === 3 ? "mail" : "default");
  writer.delete(2);
  storage.close(5000);
  assert.match(await run(t, "verify", path), /^0 Whole: \d+ segments, \d+ records, 2 jobs\n$/);
  const report = JSON.parse((await run(t, "inspect", "--json", path)).slice(2));
  assert.deepEqual([report.jobs, report.nextId, report.tubes.length], [2, 4, 2]);
  assert.match(await run(t, "inspect", path), /^0 .*mail/s);
  const dumped = await run(t, "dump", path);
  assert.match(dumped, /^0 \{"runnerbeanDump":1,"nextId":4\}\n.*Dumped 2 jobs\n$/s);
  assert.equal(await run(t, "dump", path, other("file")), "0 Dumped 2 jobs\n");
  assert.ok(dumped.includes(readFileSync(other("file"), "utf8")), "the same in a file");
  assert.match(await run(t, "dump", path, other("file")), /^2 .*exist/, "which must be new");
  mkdirSync(other("copy"));
  assert.equal(await run(t, "restore", other("file"), other("copy")), "0 Restored 2 jobs\n");
  assert.match(await run(t, "restore", other("file"), path), /^2 BINLOG_INPUT: .* already holds a log\n/);
  assert.match(await run(t, "restore", other("missing"), path), /^2 .*no such file[^\n]*\n$/);
  const [, before, after] = /^0 2 jobs; (\d+) bytes before, (\d+) bytes now\n$/.exec(
    await run(t, "compact", path),
  )!;
  assert.ok(Number(before) > 0 && Number(after) > 0);
  assert.equal(
    await run(t, "export", "--beanstalkd", path, other("theirs")),
    "0 Exported 2 jobs in 1 files\n",
  );
  assert.match(await run(t, "verify", other("theirs")), /^2 .*Its files are beanstalkd's/s);
  const file = join(other("copy"), readdirSync(other("copy")).find((name) => name.endsWith(".log"))!);
  const bytes = readFileSync(file);
  bytes[200]! ^= 1;
  writeFileSync(file, bytes);
  for (const word of ["inspect", "verify"])
    assert.match(await run(t, word, other("copy")), /^1 .*damaged/is, word);
  assert.match(await run(t, "dump", other("copy")), /^1 BINLOG_/);
});

test("an export tells what beanstalkd has none of", async (t) => {
  const path = join(temporaryFolder(t), "log");
  mkdirSync(path);
  const { storage } = await openBinlog(realOptions(path));
  const writer = new JobWriter(storage);
  for (let id = 1; id <= 5; id++) writer.put(id, "x".repeat(id === 5 ? 70_000 : 10));
  writer.move(1, "letters", 9e12);
  writer.move(2, "letters", 9e12);
  writer.remember(3, "welcome:17");
  const memory = Memory.ofSize(1000);
  const attributes = new AttributeWriter(Memory.ofSize(1020));
  attributes.text(Attribute.After, Buffer.from("rows"), 0, 4);
  const waits = { ...emptyRecordFields(), id: 6, state: RecordState.delayed };
  const tail = attributes.bytes.subarray(0, attributes.pad());
  storage.append(0, ++writer.n, memory.bytes, 0, encodePutHead(memory, 0, waits, Buffer.from("t"), 0, tail));
  writer.set("m*", "max-attempts=3");
  writer.set("n*", "max-attempts=3");
  writer.settle();
  storage.close(5000);
  const [said, ...lines] = (await run(t, "export", "--beanstalkd", path, join(path, "..", "out"))).split(
    "\n",
  );
  assert.equal(said, "0 Exported 5 jobs in 1 files");
  assert.deepEqual(lines, [
    "Dropped 3 attributes of 3 jobs (unique keys, groups, ttl, attempts): beanstalkd has none",
    "Dropped 1 unique keys of jobs that no longer exist: beanstalkd has none",
    "Buried 1 jobs that wait for a batch: beanstalkd has none, so kick them",
    "Dropped 2 settings of tubes: beanstalkd has none",
    "Start beanstalkd with -z 70002 or more: it drops larger bodies when it reads them",
    "",
  ]);
});
