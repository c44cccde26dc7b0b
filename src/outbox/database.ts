// A connection to PostgreSQL.

import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import { CommandFailed, ExitCode } from "../cli/output.ts";

const CONNECT_MS = 10_000;
const CLOSE_MS = 1000;
/** Added to the longest silence of a working relay, after which PostgreSQL ends its session. */
const IDLE_GRACE_MS = 30_000;
const UNDEFINED_TABLE = "42P01";

interface DatabaseOptions {
  readonly url: string;
  /** Time limit of a query. */
  readonly limitMs: number;
}

/** A row as PostgreSQL sends it; numbers of 64 bits are texts. */
export type DatabaseRow = Readonly<Record<string, unknown>>;

/** The database failed, or can't be reached. */
export class DatabaseFailed extends Error {}

export class Database {
  readonly #client: Client;
  /** Host and name of the database, without a password. */
  readonly where: string;

  private constructor(client: Client) {
    this.#client = client;
    this.where = `${client.host}:${client.port}/${client.database ?? ""}`;
  }

  /** `onLost` is called when the connection breaks, also while no query runs. */
  static async open({ url, limitMs }: DatabaseOptions, onLost: () => void = () => {}): Promise<Database> {
    // Only here: no other tool, and no server, loads the package.
    const { Client } = await import("pg");
    checkUrl(url);
    const client = new Client({
      connectionString: url,
      application_name: "runnerbean outbox",
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: limitMs,
      keepAlive: true,
    });
    const database = new Database(client);
    client.on("error", onLost);
    client.on("end", onLost);
    try {
      await client.connect();
      const [row] = await database.query("SHOW server_encoding");
      if (row?.["server_encoding"] === "SQL_ASCII")
        throw new Error("its encoding is SQL_ASCII, in which a text can be any bytes: use another one");
      // Ends a session whose relay is gone without a word, with its locks.
      await database.query(`SET idle_in_transaction_session_timeout = ${limitMs + IDLE_GRACE_MS}`);
      return database;
    } catch (error) {
      await database.close();
      throw new DatabaseFailed(`PostgreSQL at ${database.where}: ${messageOf(error as Error)}`);
    }
  }

  /** Without values, the text may be several statements, which are one transaction. */
  async query(text: string, values?: readonly unknown[]): Promise<readonly DatabaseRow[]> {
    try {
      return (await this.#client.query(text, values && [...values])).rows;
    } catch (error) {
      throw new DatabaseFailed(`PostgreSQL at ${this.where}: ${messageOf(error as Error)}`);
    }
  }

  /** Calls `onNotified` at each notification. */
  async listen(channel: string, onNotified: () => void): Promise<void> {
    this.#client.on("notification", onNotified);
    await this.query(`LISTEN ${channel}`);
  }

  /** Closes the connection, even a broken one. PostgreSQL rolls an open transaction back. */
  async close(): Promise<void> {
    await Promise.race([this.#client.end().catch(() => {}), sleep(CLOSE_MS, undefined, { ref: false })]);
    this.#client.connection.stream.destroy();
  }
}

/**
 * Throws CommandFailed, since no new attempt helps. A password can be before the last @, or after
 * `?`.
 */
export function checkUrl(url: string): void {
  // PostgreSQL allows a URL without a host.
  if (/^postgres(?:ql)?:\/\//.test(url) && URL.canParse(url.replace("@/", "@localhost/"))) return;
  const shown = url.replace(/^([a-z]+:\/\/)?.*@/s, "$1***@").replace(/(\?|password).*/is, "$1***");
  throw new CommandFailed(
    `${shown} is not the URL of a database: postgres://user@host:5432/name`,
    ExitCode.BadArguments,
  );
}

/** For a name with several addresses, the error's message is empty. */
function messageOf({ message, code = "" }: Error & { readonly code?: string }): string {
  if (code === UNDEFINED_TABLE) return `${message}: create the table with runnerbean outbox init --apply`;
  return message || code;
}
