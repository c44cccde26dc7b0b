// A PostgreSQL of Debian for one test, on a socket in a folder of its own.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chmodSync, chownSync, globSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { eventually } from "../eventually.ts";
import { freePort } from "../machine/free-port.ts";
import type { Need } from "../machine/need.ts";
import { endsWithUs } from "./server-process.ts";

const [BIN = "/usr/lib/postgresql/15/bin"] = globSync("/usr/lib/postgresql/*/bin").sort().toReversed();

export const NEEDS_POSTGRES: Need = {
  path: join(BIN, "postgres"),
  remedy: "apt-get install postgresql",
};

/** PostgreSQL refuses to run as root. */
function user(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const idOf = (flag: string): number =>
    Number(spawnSync("id", [flag, "postgres"], { encoding: "utf8" }).stdout);
  return { uid: idOf("-u"), gid: idOf("-g") };
}

interface PostgresOptions {
  /** Whether a commit waits for the disk. A kill of the process loses nothing without it. */
  readonly fsync?: boolean;
}

export class Postgres {
  readonly url: string;
  readonly #folder: string;
  readonly #port: number;
  readonly #flags: readonly string[];
  #child: ChildProcess | undefined;
  #said = "";

  private constructor(folder: string, port: number, flags: readonly string[]) {
    this.#folder = folder;
    this.#port = port;
    this.#flags = flags;
    this.url = `postgres://queue@127.0.0.1:${port}/postgres`;
  }

  /** `folder` must exist; everything goes below it. */
  static async start(folder: string, { fsync = false }: PostgresOptions = {}): Promise<Postgres> {
    const { uid = -1, gid = -1 } = user();
    chmodSync(folder, 0o755);
    const data = join(folder, "data");
    mkdirSync(data, { mode: 0o700 });
    chownSync(data, uid, gid);
    const args = ["-D", data, "-U", "queue", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
    const made = spawnSync(join(BIN, "initdb"), args, { ...user(), cwd: "/", encoding: "utf8" });
    if (made.status !== 0) throw new Error(`initdb: ${made.stdout}${made.stderr}`);
    const port = await freePort();
    const postgres = new Postgres(folder, port, ["-c", `fsync=${fsync ? "on" : "off"}`]);
    await postgres.begin();
    return postgres;
  }

  /** Starts it, also again after a kill: what the killed one left may take a moment to end. */
  async begin(): Promise<void> {
    await eventually(
      () => `PostgreSQL serves: ${this.#said}`,
      async () => {
        if (this.#child === undefined || this.#child.exitCode !== null || this.#child.signalCode !== null)
          this.#spawn();
        return await this.query("SELECT 1").then(
          () => true,
          () => false,
        );
      },
    );
  }

  #spawn(): void {
    const args = ["-D", join(this.#folder, "data"), "-p", `${this.#port}`, "-h", "127.0.0.1"];
    const child = spawn(join(BIN, "postgres"), [...args, "-k", "", ...this.#flags], {
      ...user(),
      cwd: "/",
      stdio: ["ignore", "ignore", "pipe"],
    });
    child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      this.#said = `${this.#said}${text}`.slice(-4000);
    });
    endsWithUs(child);
    this.#child = child;
  }

  /** Connects for one query. */
  async query(text: string, values?: unknown[]): Promise<Record<string, unknown>[]> {
    const client = await this.connect();
    try {
      return (await client.query(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  async connect(): Promise<Client> {
    const client = new Client({ connectionString: this.url });
    // A kill ends the connection; the caller's next query fails.
    client.on("error", () => {});
    await client.connect();
    return client;
  }

  /** Ends the process without giving it a chance to react. */
  async kill(): Promise<void> {
    const child = this.#child!;
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await exited;
  }

  async stop(): Promise<void> {
    const child = this.#child!;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGINT");
    await exited;
  }
}
