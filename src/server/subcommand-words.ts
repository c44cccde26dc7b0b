// The words by which tools are called.

/** Known without reading any code but this: a start of the server must not read what it does not need. */
export const SUBCOMMAND_WORDS: ReadonlySet<string> = new Set([
  ...["binlog", "config", "replica", "token", "completion"],
  ...["top", "stats", "tubes", "tube", "peek", "put", "reserve", "delete", "kick", "pause", "resume"],
  ...["jobs", "clear", "check", "health", "server", "threads", "latency", "proxy"],
]);
