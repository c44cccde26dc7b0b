// Logs of beanstalkd and of ours, and what a running beanstalkd says of its jobs.

import assert from "node:assert/strict";
import { encodeBeanstalkdRecord } from "../../../src/binlog/beanstalkd/beanstalkd-log.ts";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import { emptyRecordFields, type RecordFields, RecordState } from "../../../src/message/record.ts";
import { type ServerProcess, startServer } from "../../support/server/server-process.ts";
import { WireClient } from "../../support/server/wire-client.ts";
import { recoveredTexts } from "../model.ts";
import { realOptions } from "../sample/real-options.ts";
import { JobWriter } from "../sample/sample-log.ts";

export async function withBeanstalkd(
  path: string,
  flags: readonly string[],
  talk: (client: WireClient) => Promise<void>,
): Promise<string> {
  const server = await startServer({ kind: "beanstalkd-1.12", flags: ["-b", path, "-f0", ...flags] });
  const client = await served(server);
  try {
    await talk(client);
  } finally {
    client.socket.destroy();
    await server.kill();
  }
  return server.stderr;
}

/**
 * Connects. beanstalkd listens before it locks its directory: only an answer shows that it has the
 * lock.
 */
async function served(server: ServerProcess): Promise<WireClient> {
  let client: WireClient | undefined;
  try {
    client = await WireClient.connect(server.address);
    await client.ask("list-tube-used");
    return client;
  } catch (cause) {
    client?.close();
    await server.kill();
    throw new Error(`beanstalkd does not answer: ${server.stderr}`, { cause });
  }
}

export async function statsJob(client: WireClient, id: number): Promise<Record<string, string>> {
  const { line, body } = await client.ask(`stats-job ${id}`);
  assert.match(line, /^OK/, `stats-job ${id}`);
  const pairs = body!
    .toString("latin1")
    .split("\n")
    .filter((row) => row.includes(": "));
  return Object.fromEntries(pairs.map((row) => row.split(": ") as [string, string]));
}

/** id, state, pri, delay, ttr and counts from the text of a recovered job. */
export function partsOf(text: string) {
  const [id, state, pri, delay, ttr, created, deadline, counts, tube, body = ""] = text.split(" ");
  const [reserves, timeouts, releases, buries, kicks, burySequence] = counts!.split(",").map(Number);
  return {
    id: Number(id),
    state: Number(state),
    pri: Number(pri),
    delay: Number(delay),
    ttr: Number(ttr),
    created: Number(created),
    deadline: Number(deadline),
    reserves,
    timeouts,
    releases,
    buries,
    kicks,
    burySequence,
    tube,
    body,
  };
}

/** A log of ours with jobs of every kind, closed; returns their texts. */
export async function ourLog(path: string): Promise<Map<number, string>> {
  const opened = await openBinlog(realOptions(path));
  const writer = new JobWriter(opened.storage);
  const now = Date.now();
  for (let id = 1; id <= 20; id++) writer.put(id, "b".repeat(id * 3), id % 2 === 0 ? "even" : "default");
  writer.put(21, "x".repeat(65_533));
  writer.put(22, "y".repeat(65_535));
  writer.put(23, "q".repeat(300_000), "big", 100_000);
  for (const [order, id] of [12, 4, 8].entries()) writer.bury(id, order + 1);
  writer.update(5, {
    state: RecordState.delayed,
    delaySeconds: 1000,
    deadlineAtMs: now + 1_000_000,
    releases: 3,
  });
  writer.update(7, { reserves: 4, timeouts: 2, kicks: 1, pri: 4_000_000_000 });
  writer.delete(1);
  writer.settle();
  opened.storage.close(0);
  return writer.jobs;
}

/** A file of beanstalkd with the jobs 1, 2, … of the bodies. */
export function beanstalkdFile(
  bodies: readonly string[],
  change: (fields: RecordFields) => void = () => {},
): Buffer {
  const parts: Uint8Array[] = [Uint8Array.of(7, 0, 0, 0)];
  for (const [i, body] of bodies.entries()) {
    const fields = { ...emptyRecordFields(), id: i + 1, ttrSeconds: 1, createdAtMs: 1_700_000_000_000 };
    change(fields);
    const record = new Uint8Array(200 + body.length);
    const length = encodeBeanstalkdRecord(record, fields, Buffer.from("default"), Buffer.from(body));
    parts.push(record.subarray(0, length));
  }
  return Buffer.concat(parts);
}

export async function takeOver(path: string, salvage = false): Promise<{ ids: number[]; notices: string[] }> {
  const notices: string[] = [];
  const opened = await openBinlog({ ...realOptions(path, notices), salvage });
  const ids = [...recoveredTexts(opened, 1).keys()];
  opened.storage.close(0);
  return { ids, notices };
}
