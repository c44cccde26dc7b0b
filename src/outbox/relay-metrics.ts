// Metrics of a relay, in the text format of Prometheus, at /metrics.

import { createServer, type Server, type ServerResponse } from "node:http";
import { Database } from "./database.ts";
import type { Relay, RelayOptions } from "./relay.ts";
import { statementsFor } from "./table.ts";

/** Counting the rows of a large table costs the database something. */
const TOTALS_MS = 5000;

interface Totals {
  readonly waiting: number;
  readonly refused: number;
  /** Age of the oldest waiting row. */
  readonly lagSeconds: number;
}

export async function totalsOf(database: Database, table: string): Promise<Totals> {
  const [row] = await database.query(statementsFor(table).totals);
  return {
    waiting: Number(row!["waiting"]),
    refused: Number(row!["refused"]),
    lagSeconds: Math.max(0, Math.round(Number(row!["lag"]) * 1000) / 1000),
  };
}

/** Returns a server; the caller makes it listen. */
export function metricsServer(relay: Relay, options: RelayOptions): Server {
  let totals: Promise<Totals | undefined> | undefined;
  let askedAtMs = Number.NEGATIVE_INFINITY;
  const answer = async (response: ServerResponse): Promise<void> => {
    if (performance.now() - askedAtMs > TOTALS_MS) {
      askedAtMs = performance.now();
      totals = askTotals(options);
    }
    response.setHeader("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    response.end(metricsText(relay, await totals));
  };
  return createServer((request, response) => {
    if (request.url === "/metrics") void answer(response);
    else response.writeHead(404).end("the metrics are at /metrics\n");
  });
}

/** On a connection of its own, since the relay's has a transaction open. */
async function askTotals({ databaseUrl: url, table, target }: RelayOptions): Promise<Totals | undefined> {
  try {
    const database = await Database.open({ url, limitMs: target.limitMs });
    return await totalsOf(database, table).finally(() => database.close());
  } catch {
    return undefined;
  }
}

function metricsText(relay: Relay, totals: Totals | undefined): string {
  const { put, duplicates, refused, deferred, serverReconnects, databaseReconnects } = relay.counts;
  const families: readonly [name: string, type: "counter" | "gauge", help: string, values: Values][] = [
    ["rows_waiting", "gauge", "Rows that wait to be put.", one(totals?.waiting)],
    ["rows_refused", "gauge", "Rows that are set aside with an error.", one(totals?.refused)],
    ["lag_seconds", "gauge", "Age of the oldest waiting row.", one(totals?.lagSeconds)],
    [
      "tubes_held",
      "gauge",
      "Tubes that wait, because the server refused a row for now.",
      one(relay.heldTubes),
    ],
    ["put_total", "counter", "Rows that are in the queue, duplicates included.", one(put)],
    ["duplicates_total", "counter", "Rows whose key was taken.", one(duplicates)],
    ["refused_total", "counter", "Rows that were set aside.", one(refused)],
    ["deferred_total", "counter", "Puts that the server refused for now.", one(deferred)],
    [
      "connected",
      "gauge",
      "Whether there is a connection.",
      sides(Number(relay.isServerConnected), Number(relay.isDatabaseConnected)),
    ],
    [
      "reconnects_total",
      "counter",
      "Connections after the first one.",
      sides(Math.max(0, serverReconnects), Math.max(0, databaseReconnects)),
    ],
  ];
  return families
    .filter(([, , , values]) => values.length > 0)
    .map(([name, type, help, values]) => {
      const full = `runnerbean_outbox_${name}`;
      const lines = values.map(([labels, value]) => `${full}${labels} ${value}\n`).join("");
      return `# HELP ${full} ${help}\n# TYPE ${full} ${type}\n${lines}`;
    })
    .join("");
}

type Values = readonly (readonly [labels: string, value: number])[];

const one = (value: number | undefined): Values => (value === undefined ? [] : [["", value]]);
const sides = (server: number, database: number): Values => [
  ['{side="server"}', server],
  ['{side="database"}', database],
];
