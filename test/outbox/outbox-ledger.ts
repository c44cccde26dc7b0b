// A ledger of rows: what producers have committed to an outbox, and which jobs a worker has seen,
// while relays, PostgreSQL and the server are killed.
//
// Producers write each row, in the same transaction, also to the table `ledger`, which nobody
// empties. So the database itself says what was committed, also if a kill took the answer.

import { setTimeout as sleep } from "node:timers/promises";
import type { SeededRandom } from "../support/seeded-random.ts";
import type { Postgres } from "../support/server/postgres.ts";
import { WireClient } from "../support/server/wire-client.ts";

const TUBES: readonly string[] = ["alpha", "beta", "gamma", "delta"];
const ROWS_MAX = 20;
/** Share of the transactions that are rolled back. */
const ROLLED_BACK = 0.1;
/** Share of the jobs that the worker deletes at once; others stay buried until the end. */
const DELETED = 0.7;
const AGAIN_MS = 20;

export class OutboxLedger {
  /** Ids by body, of all jobs that were ever seen. */
  readonly seen: Map<string, Set<number>> = new Map();
  /** What is wrong, in words. */
  readonly wrong: string[] = [];
  /** Last number seen, by tube and producer. */
  readonly #last = new Map<string, number>();
  #isOver = false;
  #isStopped = false;

  static async createTable(postgres: Postgres): Promise<void> {
    await postgres.query("CREATE TABLE ledger (body text NOT NULL)");
  }

  /** Ends the producers; the worker ends when no job is left. */
  end(): void {
    this.#isOver = true;
  }

  /** Ends all, also in the middle of a test that fails. */
  stop(): void {
    this.#isOver = true;
    this.#isStopped = true;
  }

  /** Inserts rows, transaction by transaction, until `end`. Its rows of a tube are numbered. */
  async produce(postgres: Postgres, producer: number, random: SeededRandom): Promise<void> {
    let number = 0;
    while (!this.#isOver) {
      try {
        const client = await postgres.connect();
        try {
          while (!this.#isOver) {
            await client.query("BEGIN");
            for (let rows = random.between(1, ROWS_MAX); rows > 0; rows--) {
              const tube = random.pick(TUBES)!;
              const body = `${tube} ${producer} ${number++}`;
              await client.query("INSERT INTO runnerbean_outbox (tube, body) VALUES ($1, $2)", [tube, body]);
              await client.query("INSERT INTO ledger VALUES ($1)", [body]);
            }
            await client.query(random.chance(ROLLED_BACK) ? "ROLLBACK" : "COMMIT");
          }
        } finally {
          await client.end();
        }
      } catch {
        // PostgreSQL was killed; after its start, this goes on with the next numbers.
        await sleep(AGAIN_MS);
      }
    }
  }

  /** Reserves jobs until none is left after `end`, and deletes or buries them. */
  async work(where: Parameters<typeof WireClient.connect>[0], random: SeededRandom): Promise<void> {
    while (!this.#isStopped) {
      try {
        const client = await WireClient.connect(where);
        try {
          for (const tube of TUBES) await client.ask(`watch ${tube}`);
          while (!this.#isStopped) {
            const { line, body } = await client.ask("reserve-with-timeout 1");
            const id = Number(/^RESERVED (\d+) /.exec(line)?.[1]);
            if (line === "TIMED_OUT" && this.#isOver) return;
            if (!(id > 0)) continue;
            this.#see(`${body}`, id);
            await client.ask(random.chance(DELETED) ? `delete ${id}` : `bury ${id} 1024`);
          }
        } finally {
          client.socket.destroy();
        }
      } catch {
        // The server was killed.
        await sleep(AGAIN_MS);
      }
    }
  }

  #see(body: string, id: number): void {
    const ids = this.seen.get(body);
    if (ids !== undefined) {
      ids.add(id);
      return;
    }
    this.seen.set(body, new Set([id]));
    const [tube, producer, number] = body.split(" ");
    const who = `${tube} ${producer}`;
    const last = this.#last.get(who) ?? -1;
    if (Number(number) < last) this.wrong.push(`${body} came after number ${last}`);
    this.#last.set(who, Math.max(last, Number(number)));
  }

  /** Compares the jobs that were seen with the rows that were committed. */
  async check(
    postgres: Pick<Postgres, "query">,
  ): Promise<{ readonly committed: number; readonly wrong: string[] }> {
    const bodies = (await postgres.query("SELECT body FROM ledger")).map(({ body }) => body as string);
    const committed = new Set(bodies);
    const wrong = [...this.wrong];
    for (const body of committed) if (!this.seen.has(body)) wrong.push(`${body} is lost`);
    for (const [body, ids] of this.seen) {
      if (!committed.has(body)) wrong.push(`${body} was never committed`);
      if (ids.size > 1) wrong.push(`${body} is doubled: jobs ${[...ids].join(", ")}`);
    }
    return { committed: committed.size, wrong };
  }
}
