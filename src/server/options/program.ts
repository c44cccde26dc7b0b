// Version in the form A.B.C, which clients parse. A test keeps it equal to package.json's.

export const VERSION = "2.7.1";

/** Name of the program in messages. */
export const PROGRAM = "runnerbean";

/** Version of the log's contents: a standby with an older one can't take over. */
export { FORMAT_VERSION as LOG_VERSION } from "../../binlog/segments/segment-format.ts";

// Names of the subcommands.

/** Grouped by purpose. */
export const SUBCOMMAND_GROUPS: Readonly<Record<string, readonly string[]>> = {
  inspect: ["top", "stats", "tubes", "tube", "jobs", "failures", "history", "peek", "check"],
  jobs: ["put", "reserve", "delete", "cancel", "kick", "release"],
  tubes: ["pause", "resume", "clear", "move", "redrive", "update", "settings", "schedule", "batch"],
  server: [
    "health",
    "server",
    "threads",
    "latency",
    "connections",
    "close",
    "leases",
    "drain",
    "undrain",
    "reload",
    "backup",
    "restore",
  ],
  setup: [
    "doctor",
    "config",
    "token",
    "outbox",
    "proxy",
    "shadow",
    "binlog",
    "replica",
    "completion",
    "help",
  ],
};

/** A separate module without imports, so that starting the server loads no code of the tools. */
export const SUBCOMMAND_WORDS: ReadonlySet<string> = new Set(Object.values(SUBCOMMAND_GROUPS).flat());
