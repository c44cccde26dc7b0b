// `outbox`: puts the rows of a PostgreSQL table into the queue, and shows what was refused.

import { type Command, InvalidArgumentError } from "commander";
import { Database, DatabaseFailed } from "../../outbox/database.ts";
import { Relay, type RelayOptions } from "../../outbox/relay.ts";
import { metricsServer, totalsOf } from "../../outbox/relay-metrics.ts";
import { isTableName, statementsFor, TABLE_DEFAULT } from "../../outbox/table.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import { type Check, durationWithin, id, interval, tube, whole } from "../argument.ts";
import { CommandFailed, ExitCode, print, printDone, printOne, printRows, tell } from "../output.ts";
import { type CommonOptions, newCommand, newGroup, withTarget, withWireTarget } from "../run.ts";
import { listenOn } from "../target.ts";

const REFUSED_MAX = 100_000;

interface OutboxOptions extends CommonOptions {
  readonly table: string;
}

export function outboxCommand(): Command {
  const about = "put the rows of a PostgreSQL table into the queue, each one once";
  return newGroup("outbox", about, [run(), init(), status(), retry()]);
}

const table: Check = (text) => {
  if (isTableName(text)) return text;
  throw new InvalidArgumentError(
    "Allowed: a table, or schema.table, of a-z 0-9 _, up to 48 characters each.",
  );
};

/** An action of `outbox`, with the option that they share. */
const action = (
  nameAndArguments: string,
  description: string,
  checks: Readonly<Record<string, Check>> = {},
): Command =>
  newCommand(nameAndArguments, description, checks, ["url", "token", "json"]).option(
    "--table <name>",
    "the outbox's table",
    table,
    TABLE_DEFAULT,
  );

interface RunOptions extends OutboxOptions {
  readonly remember: string;
  readonly poll: string;
  readonly metrics?: string;
}

function run(): Command {
  return newCommand("run <database>", "relay rows until a signal; several relays may run", {}, ["json"])
    .option("--table <name>", "the outbox's table", table, TABLE_DEFAULT)
    .option(
      "--remember <time>",
      "how long the server knows the key of a row",
      durationWithin(1, U32_MAX, true),
      "600",
    )
    .option("--poll <time>", "look at the table this often without a notification", interval, "1")
    .option("--metrics <address>", "serve metrics of Prometheus on host:port, at /metrics")
    .action((databaseUrl: string, options: RunOptions) =>
      withWireTarget(options, async (target) => {
        const relayOptions: RelayOptions = {
          target,
          databaseUrl,
          table: options.table,
          rememberSeconds: Number(options.remember),
          pollMs: Number(options.poll) * 1000,
          tell: (line) => tell(`runnerbean outbox: ${line}`),
        };
        const relay = new Relay(relayOptions);
        const metrics = options.metrics === undefined ? undefined : metricsServer(relay, relayOptions);
        if (metrics !== undefined)
          tell(`runnerbean outbox: metrics on http://${await listenOn(metrics, options.metrics!)}/metrics`);
        // The first signal lets the round end, the second one ends everything.
        for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => relay.stop());
        try {
          await relay.run();
        } finally {
          metrics?.close();
          metrics?.closeAllConnections();
        }
      }),
    );
}

function init(): Command {
  return action("init [database]", "print the SQL that creates the table, or run it with --apply")
    .option("--apply", "create the table in the database")
    .action((url: string | undefined, options: OutboxOptions & { apply?: true }, self: Command) => {
      const { create } = statementsFor(options.table);
      if (options.apply !== true) {
        process.stdout.write(create);
        return;
      }
      if (url === undefined) self.error("error: --apply needs the URL of the database");
      return withDatabase(url!, options, async (database) => {
        await database.query(create);
        print(`the table ${options.table} is there`);
      });
    });
}

function status(): Command {
  return action("status <database>", "count the rows, and show those that are set aside")
    .option("--limit <n>", "show so many of them", whole(0, REFUSED_MAX), "20")
    .option("--json", "print one JSON object")
    .action((url: string, options: OutboxOptions & { limit: string }) =>
      withDatabase(url, options, async (database) => {
        const totals = await totalsOf(database, options.table);
        const found = await database.query(statementsFor(options.table).refused, [options.limit]);
        const rows = found.map(({ id, tube, refused_at: refusedAt, error }) => ({
          id: Number(id),
          tube: `${tube}`,
          refused: (refusedAt as Date).toISOString(),
          error: `${error}`,
        }));
        if (options.json === true) return print(JSON.stringify({ ...totals, rows }));
        printOne({ waiting: totals.waiting, refused: totals.refused, "lag-seconds": totals.lagSeconds }, {});
        if (rows.length > 0) printRows(rows, ["id", "tube", "refused", "error"], {});
      }),
    );
}

function retry(): Command {
  return action("retry <database> [ids...]", "let rows that are set aside be put again; all, or these", {
    ids: id,
  })
    .option("--tube <name>", "only rows of this tube", tube)
    .option("--json", "print one JSON object")
    .action((url: string, ids: readonly string[], options: OutboxOptions & { tube?: string }) =>
      withDatabase(url, options, async (database) => {
        const values = [ids.length === 0 ? null : ids, options.tube ?? null];
        const [row] = await database.query(statementsFor(options.table).retry, values);
        printDone("retried", Number(row!["retried"]), options);
        if (Number(row!["retried"]) === 0) process.exitCode = ExitCode.Nothing;
      }),
    );
}

/** Runs `action` with a connection to the database. */
function withDatabase(
  url: string,
  options: CommonOptions,
  action: (database: Database) => Promise<void>,
): Promise<void> {
  return withTarget(options, async ({ limitMs }) => {
    try {
      const database = await Database.open({ url, limitMs });
      await action(database).finally(() => database.close());
    } catch (error) {
      if (error instanceof DatabaseFailed) throw new CommandFailed(error.message, ExitCode.NoConnection);
      throw error;
    }
  });
}
