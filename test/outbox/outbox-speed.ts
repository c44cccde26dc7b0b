// Measures the outbox: rows a second through one relay, and the wait from the commit of a row until
// a worker has the job, of single rows and of a steady load. PostgreSQL syncs each commit, and the
// server has a log.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, text } from "../../src/client/client.ts";
import { statementsFor, TABLE_DEFAULT } from "../../src/outbox/table.ts";
import { eventually } from "../support/eventually.ts";
import { Postgres } from "../support/server/postgres.ts";
import { startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { RelayProcess } from "./relay-process.ts";

const PACE_MS = 10;
const LOOK_MS = 5;
const LIMIT_MS = 600_000;
/** Of a steady load: rows of a transaction come this often, and a worker takes so many jobs. */
const TRANSACTION_MS = 10;
const JOBS_AT_ONCE = 1000;
/** A shard remembers 1,048,576 keys. */
const REMEMBER_SECONDS = 60;

interface Speed {
  readonly rowsASecond: number;
  /** Sorted. */
  readonly waitsMs: readonly number[];
}

interface Load {
  readonly rowsASecond: number;
  /** Both sorted: from commit to RESERVED, and of put, reserve and delete of a client beside. */
  readonly waitsMs: readonly number[];
  readonly besideMs: readonly number[];
  /** The largest number of rows that waited in the table. */
  readonly waitingMost: number;
}

/** Relays `rows` rows that are there already, in `tubes` tubes, then `waits` rows one by one. */
export const measure = (rows: number, tubes: number, waits: number): Promise<Speed> =>
  withRelay([], async (postgres, port, create) => {
    // All of them at once, so that none is relayed before the last one is there.
    await postgres.query(
      `${create}
INSERT INTO ${TABLE_DEFAULT} (tube, body) SELECT 'load-' || i % ${tubes}, 'row ' || i FROM generate_series(1, ${rows}) AS i`,
    );
    await eventually("it begins", async () => (await waiting(postgres)) < rows);
    const left = await waiting(postgres);
    const startedAtMs = performance.now();
    await eventually("all rows are put", async () => (await waiting(postgres)) === 0, LIMIT_MS);
    const rowsASecond = (left / (performance.now() - startedAtMs)) * 1000;
    return { rowsASecond, waitsMs: await waitsOf(postgres, port, waits) };
  });

/** Inserts `rate` rows a second in `tubes` tubes for some time, while a worker takes the jobs. */
export const measureLoad = (rate: number, seconds: number, tubes: number): Promise<Load> =>
  withRelay(["--remember", `${REMEMBER_SECONDS}`], async (postgres, port, create) => {
    await postgres.query(create);
    const committedAtMs: number[] = [];
    const waitsMs: number[] = [];
    let waitingMost = 0;
    const [worker, beside] = await Promise.all(
      ["load", "beside"].map((name) => connect(`127.0.0.1:${port}`, { codec: text(), name })),
    );
    worker!.watch(...Array.from({ length: tubes }, (_, tube) => `load-${tube}`));
    const startedAtMs = performance.now();
    const endsAtMs = startedAtMs + seconds * 1000;
    let inserted = 0;
    const produce = async (): Promise<void> => {
      const producer = await postgres.connect();
      for (let now = performance.now(); now < endsAtMs; now = performance.now()) {
        const due = Math.floor(((now - startedAtMs) / 1000) * rate);
        if (due > inserted) {
          await producer.query(
            `INSERT INTO ${TABLE_DEFAULT} (tube, body) SELECT 'load-' || i % ${tubes}, i FROM generate_series(${inserted}::int, ${due - 1}) AS i`,
          );
          for (; inserted < due; inserted++) committedAtMs[inserted] = performance.now();
        }
        await sleep(TRANSACTION_MS);
      }
      await producer.end();
    };
    const consume = async (): Promise<void> => {
      while (performance.now() < endsAtMs || waitsMs.length < inserted) {
        const jobs = await worker!.reserveMany(JOBS_AT_ONCE, { timeout: 1 });
        const now = performance.now();
        // A job may be here before its transaction is known to have ended.
        for (const { body } of jobs) waitsMs.push(Math.max(0, now - (committedAtMs[Number(body)] ?? now)));
        await worker!.deleteMany(jobs);
      }
    };
    const besideMs: number[] = [];
    const lookOn = async (): Promise<void> => {
      beside!.watch("beside");
      for (let now = performance.now(); now < endsAtMs; now = performance.now()) {
        await beside!.put("beside", "x");
        await (await beside!.reserve()).delete();
        besideMs.push(performance.now() - now);
        await sleep(TRANSACTION_MS);
      }
    };
    const watch = async (): Promise<void> => {
      for (; performance.now() < endsAtMs; await sleep(1000))
        waitingMost = Math.max(waitingMost, await waiting(postgres));
    };
    await Promise.all([produce(), consume(), lookOn(), watch()]);
    const rowsASecond = (waitsMs.length / (performance.now() - startedAtMs)) * 1000;
    await Promise.all([worker!.close(), beside!.close()]);
    return { rowsASecond, waitsMs: sorted(waitsMs), besideMs: sorted(besideMs), waitingMost };
  });

/** Runs a measurement with a relay that waits for its table. */
async function withRelay<T>(
  flags: readonly string[],
  run: (postgres: Postgres, port: number, create: string) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-outbox-"));
  const log = mkdtempSync(join(tmpdir(), "runnerbean-outbox-log-"));
  const postgres = await Postgres.start(folder, { fsync: true });
  const server = await startServer({ kind: "ours", flags: ["-b", log] });
  const relay = new RelayProcess([postgres.url, "--url", `beanstalk://127.0.0.1:${server.port}`, ...flags]);
  try {
    await eventually("the relay misses the table", () => relay.stderr.includes("init --apply"));
    return await run(postgres, server.port, statementsFor(TABLE_DEFAULT).create);
  } finally {
    await relay.kill("SIGTERM");
    await server.stop();
    await postgres.stop();
    for (const each of [folder, log]) rmSync(each, { recursive: true, force: true });
  }
}

const sorted = (values: number[]): number[] => values.sort((one, other) => one - other);

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
  return sorted(waitsMs);
}
