// The words by which tools are called.

/** By what they are for. */
export const SUBCOMMAND_GROUPS: Readonly<Record<string, readonly string[]>> = {
  "what there is": ["top", "stats", "tubes", "tube", "jobs", "peek", "check"],
  jobs: ["put", "reserve", "delete", "kick", "release"],
  tubes: ["pause", "resume", "clear", "move", "update"],
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
  ],
  setup: ["config", "token", "proxy", "binlog", "replica", "completion"],
};

/** Known without reading any code but this: a start of the server must not read what it does not need. */
export const SUBCOMMAND_WORDS: ReadonlySet<string> = new Set(Object.values(SUBCOMMAND_GROUPS).flat());
