// Replies as the model words them: statistics, inspections and lists of jobs.

import type { Failure } from "../../../src/protocol/job-failure.ts";
import { chosenJobs, type JobChoice } from "../model/job-choice.ts";
import type { Model } from "../model/model.ts";
import type { TubeCounts } from "../model/model-policies.ts";
import type { ModelJob } from "../model/model-types.ts";
import { SETTINGS_DRAWN, settingText } from "./setting-words.ts";

/** Jobs that `list-jobs` lists at most without `limit`. */
export const LIST_LIMIT = 100;

/** `tube` is told if there is one. */
export const reserved = ({ id, body }: ModelJob, tube?: string): string =>
  `RESERVED ${id} ${body.length}${tube === undefined ? "" : ` ${tube}`}\r\n${body}\r\n`;

export function found(job: ModelJob | undefined): string {
  return job === undefined ? "NOT_FOUND\r\n" : `FOUND ${job.id} ${job.body.length}\r\n${job.body}\r\n`;
}

const ok = (rows: Record<string, string | number>): string =>
  Object.entries(rows)
    .map(([key, value]) => `${key}: ${value}`)
    .join("\n");

/**
 * A reply as it is compared: of statistics the rows that the model knows, without those that depend
 * on the clock.
 */
export function comparable(reply: string): string {
  if (!reply.startsWith("OK ")) return reply;
  const rows = reply.slice(reply.indexOf("---\n") + 4, -2).split("\n");
  const hasGroupRate = rows.some((row) => row.startsWith("group-rate: "));
  return rows
    .map((row) => row.replace(/"(?:age|time-left)":\d+,/g, ""))
    .filter(
      (row) =>
        row !== "" &&
        !(hasGroupRate && row.startsWith("groups-blocked: ")) &&
        !/^(?:(?:next-)?age|time-left(?:-ms)?|meta|file|pause-time-left|current-waiting|tokens|expires-in(?=: \d)): /.test(
          row,
        ),
    )
    .join("\n");
}

export function statsJobText(job: ModelJob | undefined): string {
  if (job === undefined) return "NOT_FOUND\r\n";
  return ok({
    id: job.id,
    tube: job.tube.name,
    state: job.state === "moving" ? "reserved" : job.state,
    pri: job.pri,
    delay: job.delaySeconds,
    ttr: job.ttrSeconds,
    reserves: job.reserves,
    timeouts: job.timeouts,
    releases: job.releases,
    buries: job.buries,
    kicks: job.kicks,
  });
}

export function inspectJobText(
  job: ModelJob | undefined,
  ports: number,
  workerName: (session: number) => string,
  flows: Record<string, string>,
): string {
  if (job === undefined) return "NOT_FOUND\r\n";
  const { body, holder } = job;
  const name = holder === undefined ? "none" : sessionName(holder.index, ports);
  const worker = holder === undefined ? "none" : JSON.stringify(workerName(holder.index));
  const rows = { bytes: body.length, ...policyRows(job), holder: name, worker };
  const failures = `disconnects: ${job.policy.disconnects}\nfailures: ${JSON.stringify(job.policy.failures.map(shownFailure))}`;
  const said = Object.entries(saidOf(job))
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
    .join("\n");
  return [statsJobText(job), ok(rows), failures, ok(flows), said].filter((text) => text !== "").join("\n");
}

const saidOf = ({ progress, note, policy: { cancelled } }: ModelJob): Record<string, string | number> => ({
  ...(progress === undefined ? {} : { progress }),
  ...(note === "" ? {} : { note }),
  ...(cancelled === undefined ? {} : { cancelled }),
});

/** Sessions are named by their acceptor, one of `ports`, and connection. */
export const sessionName = (session: number, ports: number): string =>
  `${session % ports}.${Math.floor(session / ports)}`;

const shownFailure = ({ attempt, cause, worker, reason }: Failure): Omit<Failure, "atMs"> => ({
  ...{ attempt, cause, worker, reason },
});

const listedFailure = (failure: Failure): Omit<Failure, "atMs"> =>
  shownFailure({ ...failure, reason: failure.reason.slice(0, 256) });

function policyRows({ reserves, policy }: ModelJob): Record<string, string | number> {
  const { attemptsBase, expiresAtMs, key, group, weight, cost, origin, reason } = policy;
  return {
    attempts: reserves - attemptsBase,
    ...(expiresAtMs === 0 ? { "expires-in": "never" } : {}),
    unique: key === "" ? "none" : `"${key}"`,
    group: group === "" ? "none" : `"${group}"`,
    weight,
    ...(cost === 1 ? {} : { cost }),
    origin: origin || "none",
    reason,
  };
}

const NO_COUNTS: TubeCounts = { duplicates: 0, rejected: 0, expired: 0, dead: 0, cancelled: 0 };

export function inspectTubeText(model: Model, name: string): string {
  const tube = model.tubes.get(name);
  const { values, sources } = tube?.resolved ?? model.settings[model.registry.tubeShard(name)]!.resolve(name);
  const set = SETTINGS_DRAWN.filter((each) => sources[each] !== undefined);
  if (tube === undefined && set.length === 0) return "NOT_FOUND\r\n";
  const jobs = tube === undefined ? [] : model.queues.jobsOf(tube);
  const { groups, counts = NO_COUNTS, movedIn = 0, movedOut = 0, disconnects = 0 } = tube ?? {};
  const { cancelled, ...others } = counts;
  const rows = {
    bytes: jobs.reduce((bytes, { body }) => bytes + body.length, 0),
    groups: groups?.count ?? 0,
    // Time unblocks groups with a rate.
    ...(values.groupRate === "" ? { "groups-blocked": groups?.blocked(0) ?? 0 } : {}),
    ...others,
    cancelled,
    "moved-in": movedIn,
    "moved-out": movedOut,
    disconnects,
  };
  const settings = set.flatMap((each) => {
    const [word, value] = settingText(each, values[each]).split("=") as [string, string];
    return [`${word}: ${value}`, `${word}-from: "${sources[each]}"`];
  });
  return [ok(rows), ...settings].join("\n");
}

export function statsTubeText(model: Model, name: string): string {
  const tube = model.tubes.get(name);
  if (tube === undefined) return "NOT_FOUND\r\n";
  const jobs = model.queues.jobsOf(tube);
  const count = (state: string): number => jobs.filter((job) => job.state === state).length;
  return ok({
    name,
    "current-jobs-urgent": jobs.filter((job) => job.state === "ready" && job.pri < 1024).length,
    "current-jobs-ready": count("ready"),
    "current-jobs-reserved": count("reserved") + count("moving"),
    "current-jobs-delayed": count("delayed"),
    "current-jobs-buried": count("buried"),
    "total-jobs": tube.totalJobs,
    "current-using": tube.users.size,
    "current-watching": tube.watchers.size,
    "cmd-delete": tube.deletes,
    "cmd-pause-tube": tube.pauses,
    pause: tube.pauseSeconds,
  });
}

export function listedJobs(model: Model, jobs: JobChoice, afterId: number, showBytes: number): string {
  const shown = [...model.jobs.values()].map(asShown);
  const after = chosenJobs(shown, { ...jobs, limit: undefined }).filter((job) => job.id > afterId);
  const listed = after.slice(0, jobs.limit ?? LIST_LIMIT);
  const tube = model.tubes.get(jobs.tube);
  const others = [...model.jobs.values()].filter((job) => job.tube.shard === tube?.shard);
  // A list that is full says how to go on, unless there is nothing behind it, of any tube of the
  // shard.
  const last = listed.length < (jobs.limit ?? LIST_LIMIT) ? undefined : listed.at(-1);
  const copies = tube === undefined ? [] : model.queues.copiesOn(tube.shard);
  const next = last === undefined || [...others, ...copies].every(({ id }) => id <= last.id) ? 0 : last.id;
  const rows = listed.map((job) => `- ${listedJob(job, showBytes)}`);
  return [`next: ${next}`, ...(rows.length === 0 ? ["jobs: []"] : ["jobs:", ...rows])].join("\n");
}

/** A job on its way to another shard looks reserved. */
export const asShown = (job: ModelJob): ModelJob =>
  job.state === "moving" ? { ...job, state: "reserved" } : job;

export function listedJob(job: ModelJob, showBytes: number, named: { readonly tube?: string } = {}): string {
  const { id, state, pri, delaySeconds, ttrSeconds, reserves, timeouts, releases, buries, kicks, body } = job;
  return JSON.stringify({
    id,
    ...named,
    ...{ state, pri, delay: delaySeconds, ttr: ttrSeconds, reserves, timeouts, releases, buries, kicks },
    bytes: body.length,
    ...(job.policy.disconnects === 0 ? {} : { disconnects: job.policy.disconnects }),
    ...(job.policy.failures.length === 0 ? {} : { failure: listedFailure(job.policy.failures[0]!) }),
    ...saidOf(job),
    ...(showBytes === 0 ? {} : { body: body.slice(0, showBytes) }),
  });
}
