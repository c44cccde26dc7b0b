// Measures the outbox: rows a second through one relay, and the wait from the commit of a row until
// a worker has the job. PostgreSQL syncs each commit, and the server has a log.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { statementsFor, TABLE_DEFAULT } from "../../src/outbox/table.ts";
import { eventually } from "../support/eventually.ts";
import { Postgres } from "../support/server/postgres.ts";
import { startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { RelayProcess } from "./relay-process.ts";

const PACE_MS = 10;
const LOOK_MS = 5;
const LIMIT_MS = 600_000;

interface Speed {
  readonly rowsASecond: number;
  /** Sorted. */
  readonly waitsMs: readonly number[];
}

/** Relays `rows` rows that are there already, in `tubes` tubes, then `waits` rows one by one. */
export async function measure(rows: number, tubes: number, waits: number): Promise<Speed> {
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-outbox-"));
  const log = mkdtempSync(join(tmpdir(), "runnerbean-outbox-log-"));
  const postgres = await Postgres.start(folder, { fsync: true });
  const server = await startServer({ kind: "ours", flags: ["-b", log] });
  const relay = new RelayProcess([postgres.url, "--url", `beanstalk://127.0.0.1:${server.port}`]);
  try {
    await eventually("the relay misses the table", () => relay.stderr.includes("init --apply"));
    // All of them at once, so that none is relayed before the last one is there.
    await postgres.query(
      `${statementsFor(TABLE_DEFAULT).create}
INSERT INTO ${TABLE_DEFAULT} (tube, body) SELECT 'load-' || i % ${tubes}, 'row ' || i FROM generate_series(1, ${rows}) AS i`,
    );
    await eventually("it begins", async () => (await waiting(postgres)) < rows);
    const left = await waiting(postgres);
    const startedAtMs = performance.now();
    await eventually("all rows are put", async () => (await waiting(postgres)) === 0, LIMIT_MS);
    const rowsASecond = (left / (performance.now() - startedAtMs)) * 1000;
    return { rowsASecond, waitsMs: await waitsOf(postgres, server.port, waits) };
  } finally {
    await relay.kill("SIGTERM");
    await server.stop();
    await postgres.stop();
    for (const each of [folder, log]) rmSync(each, { recursive: true, force: true });
  }
}

async function waiting(postgres: Postgres): Promise<number> {
  const [row] = await postgres.query(`SELECT count(*) AS rows FROM ${TABLE_DEFAULT}`);
  return Number(row!["rows"]);
}

async function waitsOf(postgres: Postgres, port: number, count: number): Promise<number[]> {
  const worker = await WireClient.connect({ port });
  await worker.ask("watch wait");
  const producer = await postgres.connect();
  const waitsMs: number[] = [];
  for (let index = 0; index < count; index++) {
    const reserved = worker.ask("reserve");
    await sleep(PACE_MS);
    await producer.query(`INSERT INTO ${TABLE_DEFAULT} (tube, body) VALUES ('wait', $1)`, [`${index}`]);
    const committedAtMs = performance.now();
    const { line } = await reserved;
    waitsMs.push(Math.max(0, performance.now() - committedAtMs));
    await worker.ask(`delete ${line.split(" ")[1]}`);
    await sleep(LOOK_MS);
  }
  await producer.end();
  worker.socket.destroy();
  return waitsMs.sort((one, other) => one - other);
}
