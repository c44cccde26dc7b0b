// Servers whose histories are recorded: numbers of threads, transports, connections that move.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ServerKind, type ServerProcess, startServer } from "../../support/server/server-process.ts";

export interface HistoryServer {
  readonly name: string;
  readonly kind: ServerKind;
  readonly flags: readonly string[];
  /** Connections move between threads at every opportunity. */
  readonly moves?: true;
  /** With a log; a reply waits for its sync. */
  readonly log?: true;
}

const EAGER = new URL("../../support/machine/eager-migration.ts", import.meta.url).href;
const sizes = (shards: number, acceptors: number): string[] => [
  "--shards",
  `${shards}`,
  "--acceptors",
  `${acceptors}`,
];

/** Flags with which acceptors share threads with shards: only there connections move. */
const TOGETHER = ["-V", "--placement", "together", "--threads"];

export const OUR_SERVERS: readonly HistoryServer[] = [
  { name: "1x1-uring", kind: "ours", flags: [...sizes(1, 1), "--transport", "io_uring"] },
  { name: "1x1-libuv", kind: "ours", flags: [...sizes(1, 1), "--transport", "libuv"] },
  {
    name: "4x2-moving",
    kind: "ours",
    flags: [...sizes(4, 2), "--transport", "io_uring", ...TOGETHER, "2"],
    moves: true,
  },
  { name: "4x2-libuv", kind: "ours", flags: [...sizes(4, 2), "--transport", "libuv"] },
  {
    name: "7x3-moving",
    kind: "ours",
    flags: [...sizes(7, 3), "--transport", "io_uring", ...TOGETHER, "3"],
    moves: true,
  },
  {
    name: "7x3-apart",
    kind: "ours",
    flags: [...sizes(7, 3), "--transport", "io_uring", "--placement", "apart"],
  },
  { name: "7x3-libuv", kind: "ours", flags: [...sizes(7, 3), "--transport", "libuv"] },
  { name: "4x2-log", kind: "ours", flags: [...sizes(4, 2), "-f", "0"], log: true },
];

export const BEANSTALKD_SERVER: HistoryServer = {
  name: "beanstalkd",
  kind: "beanstalkd-1.12",
  flags: [],
};

export interface StartedServer {
  readonly server: ServerProcess;
  end(): Promise<void>;
}

export async function startHistoryServer({ kind, flags, moves, log }: HistoryServer): Promise<StartedServer> {
  const env: Readonly<Record<string, string>> = moves === true ? { NODE_OPTIONS: `--import ${EAGER}` } : {};
  const folder = log === true ? mkdtempSync(join(tmpdir(), "proof-")) : undefined;
  const binlog = folder === undefined ? [] : ["-b", folder];
  const server = await startServer({ kind, flags: [...flags, ...binlog], env });
  return {
    server,
    end: async () => {
      await server.stop();
      if (folder !== undefined) rmSync(folder, { recursive: true });
    },
  };
}

/** Connections that have moved so far. */
export const movesOf = ({ stdout }: ServerProcess): number =>
  stdout.match(/^move \d+ to another/gm)?.length ?? 0;
