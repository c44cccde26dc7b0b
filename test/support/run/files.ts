// How test/run.ts plays which file: tables of files, each under its path or a unique end of it,
// without ".test.ts".

/**
 * They watch the clock, but mostly wait, and play again what the machine was too slow for: those of
 * a row all at a time, and beside them nothing but what computes, which leaves them a core.
 */
export const WAITING: readonly (readonly string[])[] = [
  ["transcripts-beanstalkd", "differential", "replica/group", "replica/failures", "replica/partitions"],
  // It starts as many servers as there is memory for.
  ["transcripts-server-timed"],
];

/** They compute, in one thread each, on virtual time or none; all tests of one module do, too. */
const COMPUTING = [
  "simulation/simulation",
  "planted/threads-and-logs",
  "planted/jobs-and-batches",
  "pinned-memory",
  "transcripts-in-process",
  "binlog/simulation",
  "replica/simulation",
  "simulation/http-simulation",
  "simulation/guarded-run",
  "simulation/durable-policies",
  "binlog/log-verdict",
  "binlog/holes",
  "binlog/segment-writer",
  "binlog/salvage",
];

/**
 * Files of test/unit with a process of their own. All others share one with their room: most take
 * less time than the start of a process.
 */
export const ALONE = [
  // It sets the exit code of its process back.
  "binlog/tools/cli",
  // They compute for seconds, and other cores can play them meanwhile.
  "engine/engine-random",
  "engine/engine-many",
  "engine/policies/key-table",
  "engine/state/ready-order",
  "acceptor/end-at-any-turn",
  "connection/connection",
  "fanout/shares-by-jobs",
  "fanout/shares-by-time",
  "access/authenticator",
  "live/promised-space",
  "api/api",
  "message/reply-credit",
  "shard/schedules/cron-times",
  "shard/sessions/set-many",
  "shard/transfer/transfer-receiver",
  // They measure memory, which others use.
  "policies/job-store",
  "loop/keep-tick-maps",
];

/** They take longest, and so begin first; those that are run once more with them. */
export const LONGEST = [
  "transcripts-server",
  "planted/jobs-and-batches",
  "planted/threads-and-logs",
  "simulation/simulation",
  "dashboard",
  "dashboard/pages",
  "http-hostile",
  "test/tools/cli",
  "http/backups",
  "dashboard/actions",
  "dashboard-hostile",
  "dashboard/server-page",
  "dashboard/flow-actions",
  "dashboard/live",
  "fairness",
  "pinned-memory",
  "stress/stress",
  "tools/wire-session",
  "engine-random",
  "connection-end",
  "fuzz/fuzz",
  "mutation/mutation",
  "tools/over-http",
  "server/migration",
  "packaging/bundle",
  "documented",
  "large-bodies",
  "hostile",
  "kill",
  "outbox/relay",
  "outbox-kill",
  "process/server",
  "process-output",
  "generators",
  "server/net-transport",
  "soak/canary",
  "dashboard/page-context",
  "dashboard-group",
  "client-package",
  "replica/simulation",
  "transcripts-in-process",
  "binlog/log-verdict",
  "end-at-any-turn",
  "api/api",
  "key-table",
];

/**
 * They speak with a running server, and in whole runs are run once more with the transport that is
 * not the default here.
 */
export const ONCE_MORE = ["transcripts-server", "hostile", "clients"];

/** Files that `npm test` leaves out, and why; whole runs play them, and runs that name them. */
export const WHOLE_ONLY: Readonly<Record<string, readonly string[]>> = {
  "they test a harness, not the server": [
    "bench/generators",
    "case/flow-cases",
    "fuzz/guided",
    "histories/histories",
    "micro/micro",
    "mutation/mutation",
    "profile/profile",
    "scale/scale",
    "simulation/faults",
    "soak/canary",
    "stress/stress",
    "watch/watch",
  ],
  "they check the types of a copy of the tree": ["tree/add-a-field"],
  "they build or install packages": [
    "client/client-package",
    "packaging/bundle",
    "packaging/debian",
    "packaging/executable",
    "packaging/packages",
  ],
  "process/kill, replica/group and the simulations play kills and failures faster": [
    "http/http-kill",
    "process/batch-ends-kill",
    "process/moves-kill",
    "proof/group/group",
    "replica/failures",
    "replica/flows",
    "replica/flows-unwaited",
    "replica/partitions",
  ],
  "a browser takes long; dashboard/dashboard, actions, flow-actions and server-page find most": [
    "dashboard/lists",
    "dashboard/batch-page",
    "dashboard-group",
    "dashboard-hostile",
    "dashboard/job-page",
    "dashboard/settings-dialog",
    "dashboard/tube-page",
    "dashboard/page-context",
    "dashboard/live",
    "dashboard/pages",
    "dashboard-story",
  ],
  "each takes long for one kind of fault": [
    "client/tracing",
    "fuzz/fuzz",
    "http/backups",
    "http/http-hostile",
    "loop/keep-tick-maps",
    "process/operator-file",
    "server/connection-end",
    "server/fairness",
    "server/migration",
    "server/pinned-memory",
    "server/tube-lists",
    "tools/wire-session",
    "tools/terminal-text",
    "tree/deploy",
  ],
};

/** Files of which `npm run nightly` plays more than whole runs do, under their paths in `test/`. */
export const AT_NIGHT: readonly string[] = [
  "binlog/log-verdict",
  "dashboard/pages",
  "fuzz/fuzz",
  "http/access-matrix",
  "http/backups",
  "http/http-hostile",
  "oracle/transcripts-in-process",
  "oracle/transcripts-server",
  "packaging/bundle",
  "process/operator-file",
  "proof/group/group",
  "server/connection-end",
  "server/fairness",
  "simulation/schedules/contended-names",
  "unit/engine/policies/key-table",
];

export const isOneOf = (names: readonly string[], file: string): boolean =>
  names.some((name) => `/${file}`.endsWith(`/${name}.test.ts`));

/** Why `npm test` leaves a file out, or undefined if it plays it. */
export const reasonToWait = (file: string): string | undefined =>
  Object.keys(WHOLE_ONLY).find((reason) => isOneOf(WHOLE_ONLY[reason]!, file));

/** Its place in the order in which files begin. */
export function rankOf(file: string): number {
  const rank = LONGEST.findIndex((name) => isOneOf([name], file));
  return rank < 0 ? LONGEST.length : rank;
}

export const isUnit = (file: string): boolean => file.startsWith("test/unit/");
export const computes = (file: string): boolean => isUnit(file) || isOneOf(COMPUTING, file);

/** Groups files for the processes that play them: those of a room of test/unit share one. */
export function processesFor(files: readonly string[]): string[][] {
  const groups = new Map<string, string[]>();
  for (const file of files) {
    const room = isUnit(file) && !isOneOf(ALONE, file) ? file.split("/").slice(0, 3).join("/") : file;
    groups.set(room, [...(groups.get(room) ?? []), file]);
  }
  return [...groups.values()];
}
