// What each operation of HTTP and each command takes, written by hand: the matrix test compares the
// server, and docs/security.md has it as a table.

/** What a token needs: one of these permissions. Null: everybody; "token": any valid token. */
type Need = readonly Permission[] | "token" | null;

type Permission = "metrics" | "view" | "bodies" | "put" | "work" | "manage" | "admin";

/** As docs/security.md describes the roles. */
export const ROLES: Readonly<Record<string, readonly Permission[]>> = {
  monitor: ["metrics", "view"],
  viewer: ["metrics", "view", "bodies"],
  producer: ["put"],
  worker: ["put", "work"],
  operator: ["metrics", "view", "bodies", "put", "work", "manage"],
  admin: ["metrics", "view", "bodies", "put", "work", "manage", "admin"],
};

/**
 * What a token with `tubes` may: everything, nothing, what names its tubes, or what is its own (a
 * lease, a job that its connection holds, a task on its tube).
 */
type Limited = "yes" | "no" | "its tubes" | "its own";

export interface Entry {
  readonly may: Need;
  readonly limited: Limited;
  /** The answer to a client that leaves its tubes, if it isn't the refusal. */
  readonly strange?: number;
  /** Answers a monitor without the texts of clients. */
  readonly hidesTexts?: true;
}

export interface Operation extends Entry {
  readonly status: number;
  /** A request that the operation takes, of `tube` and `other`. */
  readonly json?: (names: Names) => unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: string;
  /** Each address may send a few a second. */
  readonly isLimitedByRate?: true;
  /** The job that `{id}` names is in this state. */
  readonly job?: "ready" | "buried" | "reserved";
  /** The audit log has it: what it names besides the path, and the number of jobs. */
  readonly audited?: { readonly what?: object; readonly affected?: number | null };
}

interface Names {
  readonly tube: string;
  readonly other: string;
  readonly lease: string;
  readonly batch: string;
}

const view = { may: ["view"], limited: "no", status: 200 } as const;
const tubeView = { ...view, limited: "its tubes" } as const;
const open = { may: null, limited: "yes", status: 200 } as const;
const probe = { ...open, isLimitedByRate: true } as const;
const work = { may: ["work"], limited: "its own", status: 200, strange: 410 } as const;
const admin = { may: ["admin"], limited: "no", status: 200 } as const;
const manage = { may: ["manage"], limited: "no", status: 200 } as const;
const manageTube = { ...manage, limited: "its tubes" } as const;
const seeBatch = { may: ["view", "put"], limited: "no", status: 200 } as const;

export const OPERATIONS: Readonly<Record<string, Operation>> = {
  "GET /livez": probe,
  "GET /readyz": probe,
  "GET /healthz": probe,
  "GET /metrics": { may: ["metrics"], limited: "no", status: 200 },
  "GET /metrics/tubes": { may: ["metrics"], limited: "no", status: 200 },
  "GET /v1/openapi.json": open,
  "POST /v1/session": { ...open, status: 204 },
  "GET /v1/session": { may: "token", limited: "yes", status: 200 },
  "DELETE /v1/session": { ...open, status: 204 },
  "GET /v1/health": { ...view, limited: "yes" },
  "GET /v1/attention": view,
  "GET /v1/server": view,
  "GET /v1/stats": view,
  "GET /v1/threads": view,
  "GET /v1/latency": view,
  "GET /v1/binlog": view,
  "GET /v1/binlog/syncs": view,
  "GET /v1/history": view,
  // This server is in no group.
  "GET /v1/group": { ...view, status: 404 },
  "GET /v1/connections": view,
  "GET /v1/connections/{id}": view,
  "GET /v1/tubes": view,
  "GET /v1/tubes/{tube}": tubeView,
  "GET /v1/tubes/{tube}/history": tubeView,
  "GET /v1/tubes/{tube}/finished": { ...tubeView, hidesTexts: true },
  "GET /v1/tubes/{tube}/jobs": { ...tubeView, hidesTexts: true },
  "GET /v1/jobs": { ...view, hidesTexts: true },
  "GET /v1/jobs/{id}": { ...view, hidesTexts: true },
  "GET /v1/jobs/{id}/body": { ...view, may: ["bodies"] },
  "GET /v1/settings": view,
  "GET /v1/settings/{pattern}": view,
  "GET /v1/schedules": view,
  "GET /v1/schedules/{name}": { ...view, hidesTexts: true },
  "GET /v1/batches": seeBatch,
  "GET /v1/batches/{batch}": seeBatch,
  "GET /v1/leases": { ...view, limited: "its own", strange: 200 },
  "GET /v1/events": { ...view, limited: "yes", query: "get=/v1/health" },
  "POST /v1/tubes/{tube}/jobs": {
    ...{ may: ["put"], limited: "its tubes", status: 201 },
    json: () => ({ body: "x" }),
  },
  "POST /v1/batches": {
    ...{ may: ["put"], limited: "no", status: 201, audited: { what: { keep: "60" } } },
    json: ({ batch }) => ({ name: `${batch}-new`, keep: 60 }),
  },
  "POST /v1/batches/{batch}/commit": { may: ["put"], limited: "no", status: 200, audited: {} },
  "POST /v1/batches/{batch}/cancel": { ...manage, audited: {} },
  "POST /v1/reserve": {
    ...{ may: ["work"], limited: "its tubes", status: 200 },
    json: ({ tube }) => ({ tubes: [tube], wait: 0, max: 1000 }),
  },
  "POST /v1/jobs/{id}/reserve": { may: ["work"], limited: "no", status: 200 },
  "POST /v1/leases": { ...work, strange: 200, json: ({ lease }) => ({ touch: [lease] }) },
  "POST /v1/leases/{lease}/delete": work,
  "POST /v1/leases/{lease}/release": work,
  "POST /v1/leases/{lease}/bury": { ...work, json: () => ({ reason: "over" }) },
  "POST /v1/leases/{lease}/touch": work,
  "PUT /v1/tubes/{tube}/pause": {
    ...{ ...manageTube, audited: { what: { seconds: "1" } } },
    json: () => ({ seconds: 1 }),
  },
  "DELETE /v1/tubes/{tube}/pause": { ...manageTube, audited: {} },
  "POST /v1/tubes/{tube}/kick": {
    ...{ ...manageTube, audited: { what: { max: "1" }, affected: 1 } },
    json: () => ({ max: 1 }),
  },
  "POST /v1/tubes/{tube}/clear": {
    ...{ ...manageTube, audited: { what: { states: "buried", max: "1" }, affected: 1 } },
    json: () => ({ states: ["buried"], max: 1 }),
  },
  "POST /v1/tubes/{tube}/update": {
    ...{ ...manageTube, audited: { what: { states: "ready", max: "1", set: '{"pri":4}' }, affected: 1 } },
    json: () => ({ states: ["ready"], max: 1, set: { pri: 4 } }),
  },
  "POST /v1/tubes/{tube}/move": {
    ...{ ...manageTube, audited: { what: { states: "ready", max: "1" }, affected: 1 } },
    json: ({ other }) => ({ states: ["ready"], max: 1, to: other }),
  },
  // The jobs go to the tubes where they died, whatever those are.
  "POST /v1/tubes/{tube}/redrive": { ...manage, audited: { affected: 0 } },
  "DELETE /v1/tubes/{tube}": { ...manageTube, audited: { affected: 2 } },
  "DELETE /v1/jobs/{id}": { ...manage, status: 204, audited: {} },
  "POST /v1/jobs/{id}/cancel": {
    ...{ ...manage, audited: { what: { reason: "late" } } },
    json: () => ({ reason: "late" }),
  },
  "POST /v1/jobs/{id}/kick": { ...manage, job: "buried", audited: {} },
  "POST /v1/jobs/{id}/release": { ...manage, job: "reserved", audited: {} },
  "POST /v1/jobs/{id}/move": { ...manage, audited: {}, json: ({ other }) => ({ to: other }) },
  "POST /v1/jobs/{id}/update": { ...manage, audited: { what: { pri: "7" } }, json: () => ({ pri: 7 }) },
  "PUT /v1/settings/{pattern}": {
    ...{ ...manage, audited: { what: { maxAttempts: "3" } } },
    json: () => ({ maxAttempts: 3 }),
  },
  "PATCH /v1/settings/{pattern}": {
    ...{ ...manage, audited: { what: { maxAttempts: "4" } } },
    json: () => ({ maxAttempts: 4 }),
  },
  "DELETE /v1/settings/{pattern}": { ...manage, audited: {} },
  "PUT /v1/schedules/{name}": {
    ...{ ...manage, audited: { what: { every: "3600" } } },
    json: ({ tube }) => ({ tube, every: 3600, body: "x" }),
  },
  "DELETE /v1/schedules/{name}": { ...manage, status: 204, audited: {} },
  "POST /v1/schedules/{name}/pause": { ...manage, audited: {} },
  "POST /v1/schedules/{name}/resume": { ...manage, audited: {} },
  "POST /v1/schedules/{name}/run": { ...manage, status: 201, audited: {} },
  "GET /v1/tasks": manage,
  "GET /v1/tasks/{id}": { ...manage, limited: "its own", strange: 404 },
  "DELETE /v1/tasks/{id}": { ...manage, limited: "its own", strange: 404, audited: { affected: 0 } },
  "GET /v1/audit": admin,
  "GET /v1/backup": { ...admin, audited: {} },
  "POST /v1/server/reload": { ...admin, audited: {} },
  "POST /v1/binlog/scrub": { ...admin, audited: {} },
  "DELETE /v1/binlog/scrub": { ...admin, audited: {} },
  "PUT /v1/server/drain": { ...admin, audited: {} },
  "DELETE /v1/server/drain": { ...admin, audited: {} },
  "DELETE /v1/connections/{id}": { ...admin, status: 202, audited: {} },
};

/** The operations whose answers `GET /v1/events` can send: each as if it were asked by itself. */
export const LIVE: readonly string[] = [
  "/v1/health",
  "/v1/attention",
  "/v1/server",
  "/v1/threads",
  "/v1/binlog",
  "/v1/audit",
  "/v1/group",
  "/v1/tubes",
  "/v1/tubes/{tube}",
  "/v1/jobs/{id}",
  "/v1/connections",
  "/v1/tasks",
  "/v1/tasks/{id}",
];

export interface Wire extends Entry {
  /** With `{tube}`, `{other}`, `{job}`, `{schedule}` and `{batch}`; a body follows CR LF. */
  readonly line: string;
  /** What is answered, if it isn't the usual reply. */
  readonly reply?: string;
  /** The connection uses, watches or holds before. */
  readonly first?: "uses" | "watches" | "holds";
}

const anyone = { may: "token", limited: "yes" } as const;
const put = { may: ["put"], limited: "its tubes" } as const;
const reserve = { may: ["work"], limited: "its tubes", first: "watches" } as const;
const held = { may: ["work"], limited: "its own", first: "holds" } as const;
const peek = { may: ["bodies"], limited: "its tubes", first: "uses" } as const;
const stats = { may: ["view", "work"], limited: "its tubes" } as const;
const seeAll = { may: ["view"], limited: "no" } as const;
const change = { may: ["manage"], limited: "no" } as const;
const changeTube = { may: ["manage"], limited: "its tubes" } as const;

export const COMMANDS: Readonly<Record<string, Wire>> = {
  put: { ...put, first: "uses", line: "put 0 0 60 1\r\nx" },
  "put-in-tube": { ...put, line: "put-in-tube {tube} 0 0 60 1\r\nx" },
  peek: { may: ["bodies"], limited: "its own", first: "holds", line: "peek {job}" },
  "peek-ready": { ...peek, line: "peek-ready" },
  "peek-delayed": { ...peek, line: "peek-delayed", reply: "NOT_FOUND" },
  "peek-buried": { ...peek, line: "peek-buried" },
  reserve: { ...reserve, line: "reserve" },
  "reserve-with-timeout": { ...reserve, line: "reserve-with-timeout 0" },
  "reserve-batch": { ...reserve, line: "reserve-batch 5 0 meta=yes" },
  "reserve-job": { may: ["work"], limited: "no", line: "reserve-job {job}" },
  delete: { ...held, line: "delete {job}" },
  "delete-batch": { ...held, line: "delete-batch {job}" },
  release: { ...held, line: "release {job} 0 0" },
  bury: { ...held, line: "bury {job} 0" },
  touch: { ...held, line: "touch {job}" },
  "touch-job": { ...held, line: "touch-job {job} progress=5" },
  "touch-all": { may: ["work"], limited: "yes", first: "holds", line: "touch-all" },
  use: { may: "token", limited: "its tubes", line: "use {tube}" },
  watch: { may: "token", limited: "its tubes", line: "watch {tube}" },
  ignore: { ...anyone, line: "ignore {tube}" },
  "reserve-order": { ...anyone, line: "reserve-order strict" },
  name: { ...anyone, line: "name one" },
  quit: { ...anyone, line: "quit" },
  extensions: { ...anyone, line: "extensions" },
  origins: { ...anyone, line: "origins" },
  "inspect-watched": { ...anyone, line: "inspect-watched" },
  "list-tube-used": { ...anyone, line: "list-tube-used" },
  "list-tubes-watched": { ...anyone, line: "list-tubes-watched" },
  kick: { ...changeTube, first: "uses", line: "kick 1" },
  "kick-job": { ...change, line: "kick-job {job}", limited: "its own", first: "holds", reply: "NOT_FOUND" },
  "cancel-job": {
    ...change,
    line: "cancel-job {job}",
    limited: "its own",
    first: "holds",
    reply: "CANCELLING",
  },
  stats: { ...seeAll, line: "stats" },
  "list-tubes": { ...seeAll, line: "list-tubes" },
  "stats-tube": { ...stats, line: "stats-tube {tube}" },
  "inspect-tube": { ...stats, line: "inspect-tube {tube}" },
  "stats-job": { ...stats, limited: "its own", first: "holds", line: "stats-job {job}" },
  "inspect-job": {
    ...stats,
    limited: "its own",
    first: "holds",
    line: "inspect-job {job}",
    hidesTexts: true,
  },
  "finished-jobs": { may: ["bodies"], limited: "its tubes", line: "finished-jobs {tube}" },
  "list-jobs": { may: ["bodies"], limited: "its tubes", line: "list-jobs {tube} show=100" },
  "pause-tube": { ...changeTube, line: "pause-tube {tube} 0" },
  "clear-tube": { ...changeTube, line: "clear-tube {tube} state=buried" },
  "update-job": { may: ["work", "manage"], limited: "no", line: "update-job {job} pri=5" },
  "move-jobs": { ...change, line: "move-jobs {tube} {other} limit=1" },
  "set-tube": { ...change, line: "set-tube {tube} max-attempts=9" },
  "set-schedule": { ...change, line: "set-schedule {schedule} {tube} 0 0 60 1 every=3600000\r\nx" },
  "pause-schedule": { ...change, line: "pause-schedule {schedule}" },
  "resume-schedule": { ...change, line: "resume-schedule {schedule}" },
  "run-schedule": { ...change, line: "run-schedule {schedule}" },
  "delete-schedule": { ...change, line: "delete-schedule {schedule}" },
  "inspect-schedule": { may: ["bodies"], limited: "no", line: "inspect-schedule {schedule}" },
  "list-schedules": { ...seeAll, line: "list-schedules" },
  "open-batch": { may: ["put"], limited: "no", line: "open-batch {batch}-new" },
  "commit-batch": { may: ["put"], limited: "no", line: "commit-batch {batch}" },
  "cancel-batch": { ...change, line: "cancel-batch {batch}" },
  "inspect-batch": { may: ["view", "put"], limited: "no", line: "inspect-batch {batch}" },
  "list-batches": { may: ["view", "put"], limited: "no", line: "list-batches" },
};

/** Tells whether a role may do what an entry is about. */
export function mayDo(role: string | undefined, { may }: Entry): boolean {
  if (may === null) return true;
  if (role === undefined) return false;
  return may === "token" || may.some((each) => ROLES[role]!.includes(each));
}

const sees = (role: string): boolean => ROLES[role]!.some((each) => each === "bodies" || each === "work");

/** At most so many, or a row of the page gets too high. */
const NAMES_IN_ROW = 6;

/** Returns the tables of docs/security.md. */
export function accessMarkdown(): string {
  const roles = Object.keys(ROLES);
  const rightsOf = (entry: Entry): string =>
    [
      ...roles.map((role) => {
        if (entry.may === null) return "open";
        if (!mayDo(role, entry)) return "";
        return entry.hidesTexts === true && !sees(role) ? "no texts" : "yes";
      }),
      entry.limited,
    ].join(" | ");
  /** Neighbours with the same rights share a row. */
  const table = (first: string, entries: Readonly<Record<string, Entry>>): string => {
    const rows: { readonly names: string[]; readonly rights: string }[] = [];
    for (const [name, entry] of Object.entries(entries)) {
      const rights = rightsOf(entry);
      const last = rows.at(-1);
      if (last?.rights === rights && last.names.length < NAMES_IN_ROW) last.names.push(`\`${name}\``);
      else rows.push({ names: [`\`${name}\``], rights });
    }
    const head = [first, ...roles, "with `tubes`"];
    return [
      `| ${head.join(" | ")} |`,
      `|${"---|".repeat(head.length)}`,
      ...rows.map(({ names, rights }) => `| ${names.join(", ")} | ${rights} |`),
    ].join("\n");
  };
  return [table("HTTP", OPERATIONS), table("command", COMMANDS)].join("\n\n");
}
