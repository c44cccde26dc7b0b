// The list "Needs attention", worst first. Its rules match the alerts in deploy/prometheus that
// concern the present.

import { type Static, Type } from "typebox";
import type { BatchSign, ScheduleSign, ScheduleTrouble } from "../../message/control.ts";
import { TubeField } from "../../schema/tube.ts";
import { answers, type Routes, requireServing } from "../api/api.ts";
import { textOf } from "../api/protocol-reports.ts";
import { Attention, Fields } from "../api/schemas.ts";
import {
  type KnownSigns,
  knownSigns,
  knownTotals,
  knownTubes,
  putReadinessOf,
  type Verdict,
} from "../queue/health.ts";
import type { Service } from "../queue/service.ts";
import type { TubeEntry } from "../state/tube-cache.ts";

/** Age from which a ready job needs attention, seconds. */
const OLDEST_WARN_SECONDS = 60;
/** Used share of max-memory that needs attention. */
const MEMORY_WARN_SHARE = 0.8;
/** Share of timeouts among reserves that needs attention; and the minimum of reserves. */
const TIMEOUTS_WARN_SHARE = 0.05;
const RESERVES_MIN = 50;
/** The same in one tube, where few jobs make a larger share. */
const TUBE_TIMEOUTS_WARN_SHARE = 0.2;
/** Minimum of timeouts, of all tubes or of one. */
const TIMEOUTS_MIN = 5;
/** Minimum of lost connections of one tube, and share among its reserves, that need attention. */
const DISCONNECTS_MIN = 4;
const DISCONNECTS_WARN_SHARE = 0.2;
/** As often, the same job has lost its worker: then it needs attention whatever the share. */
const JOB_DISCONNECTS_MIN = 3;
/** A shorter pause without ready jobs needs no attention. */
const PAUSE_WARN_SECONDS = 60;
/** 99th percentile of sync times that needs attention, s. */
const SYNC_WARN_SECONDS = 0.1;
/** Below this count, one in a hundred would be less than one sync. */
const SYNCS_MIN = 100;

type Found = Static<typeof Attention> & { readonly weight: number };

/** Number of tubes, batches or schedules that each rule names. */
const LISTED = 2;

/** Returns the first ones, which are named; one more rather than "1 more". */
const listed = <T>(all: readonly T[], count: number = all.length): readonly T[] =>
  all.slice(0, count === LISTED + 1 ? count : LISTED);

/** Those that are not named. There are always two or more: see `listed`. */
const more = (rest: number, things: string): string => `${EXACT.format(rest)} more ${things}`;

const EXACT: Intl.NumberFormat = new Intl.NumberFormat("en");

function inWords(seconds: number): string {
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}

/** Input of the rules. */
export interface Signs {
  readonly tubes: readonly TubeEntry[];
  /** Time of the tube table, on the shards' clock. */
  readonly atMs: number;
  readonly puts: Verdict;
  readonly isConfigTaken: boolean;
  /** Used share of max-memory. */
  readonly memoryShare: number;
  /** Over the last ten minutes. `timeoutsTube` is the tube with the most timeouts, if known. */
  readonly reserves: number;
  readonly timeouts: number;
  readonly timeoutsTube: string | undefined;
  /** Growth of a counter of one tube over the last ten minutes, if it is recorded. */
  readonly grown: (tube: string, series: "timeouts" | "disconnects" | "reserves") => number;
  /** Over the last five minutes. */
  readonly syncs: { readonly count: number; readonly p99Seconds: number };
  /** Damaged places that are still in the log. */
  readonly damaged: number;
  readonly flows: KnownSigns;
}

export function attentionOf(signs: Signs): Static<typeof Attention>[] {
  const found: Found[] = [];
  addServer(found, signs);
  addTimeouts(found, signs);
  addSyncs(found, signs);
  addDamage(found, signs);
  for (const rule of TUBE_RULES) addTubes(found, rule, signs);
  addDisconnects(found, signs);
  addFlows(found, signs.flows);
  const isBad = ({ level }: Found): number => (level === "bad" ? 1 : 0);
  found.sort((a, b) => isBad(b) - isBad(a) || b.weight - a.weight);
  return found.map(({ weight: _weight, ...attention }) => attention);
}

/** Advice for each health status. */
const REMEDIES: Readonly<Record<string, string>> = {
  draining: "When you are done, accept new jobs again on the page Server.",
  "disk-full": "Make room on its disk; everything else works.",
  "memory-full": "Start more workers, or raise max-memory; everything else works.",
  "shared-log-full": "Start more workers, or give its stream more room.",
};

function addServer(found: Found[], { puts, memoryShare, isConfigTaken }: Signs): void {
  const of = { tube: null, page: "#/server" } as const;
  if (!puts.ok) {
    const todo = REMEDIES[puts.status] ?? "The server's log says more.";
    found.push({ ...of, level: "bad", text: puts.detail, todo, weight: Number.MAX_VALUE });
  } else if (memoryShare > MEMORY_WARN_SHARE)
    found.push({
      ...of,
      level: "warn",
      text: "less than a fifth of max-memory is left",
      todo: "Start more workers, or raise max-memory: puts are refused when it is full.",
      weight: 1e12,
    });
  if (!isConfigTaken)
    found.push({
      ...of,
      level: "warn",
      text: "the last reload rejected the configuration",
      todo: "runnerbean config check FILE names each fault; a restart would fail.",
      weight: 1e11,
    });
}

/** A few jobs make no percentage. Jobs reserved before this period can time out in it. */
const areTooMany = (timeouts: number, reserves: number): boolean =>
  timeouts >= TIMEOUTS_MIN &&
  Math.max(timeouts, reserves) >= RESERVES_MIN &&
  timeouts > TIMEOUTS_WARN_SHARE * reserves;

function addTimeouts(found: Found[], { reserves, timeouts, timeoutsTube }: Signs): void {
  if (!areTooMany(timeouts, reserves)) return;
  const all = Math.max(reserves, timeouts);
  const percent = Math.round((timeouts / all) * 100);
  found.push({
    level: "warn",
    tube: timeoutsTube ?? null,
    page: timeoutsTube === undefined ? "#/tubes?sort=timeouts" : pageOf(timeoutsTube, "reserved"),
    text: `${percent} % of ${EXACT.format(all)} reservations in the last ten minutes were not done within their time to run${timeoutsTube === undefined ? "" : ", most of them here"}`,
    todo: "Put jobs with a longer ttr, touch them while working, or look for workers that die.",
    weight: 1e8 + timeouts,
  });
}

/** Adds the tubes whose workers end while they hold jobs, each with the job that lost the most. */
function addDisconnects(found: Found[], { tubes, grown }: Signs): void {
  const all = tubes
    .map((entry) => ({ entry, lost: grown(entry.name, "disconnects") }))
    .filter(({ entry, lost }) => {
      const isOneJob = entry.get(TubeField.lostJobDisconnects) >= JOB_DISCONNECTS_MIN;
      const share = lost / Math.max(lost, grown(entry.name, "reserves"));
      return lost >= DISCONNECTS_MIN && (isOneJob || share > DISCONNECTS_WARN_SHARE);
    })
    .sort((a, b) => b.lost - a.lost);
  const named = listed(all);
  for (const { entry, lost } of named) found.push(disconnectsOf(entry, lost));
  const rest = all.length - named.length;
  if (rest === 0) return;
  found.push({
    level: "bad",
    tube: null,
    about: more(rest, "tubes"),
    page: "#/tubes?sort=disconnects",
    text: "lose the connections of their workers",
    todo: LOST_TODO,
    weight: 1e8,
  });
}

const LOST_TODO = "Look at the logs of the workers: do they crash, or does something stop them?";

function disconnectsOf(entry: TubeEntry, lost: number): Found {
  const { name: tube } = entry;
  const [job, reserves, ended] = [
    entry.get(TubeField.lostJob),
    entry.get(TubeField.lostJobReserves),
    entry.get(TubeField.lostJobDisconnects),
  ];
  const weight = 1e8 + lost;
  if (ended < JOB_DISCONNECTS_MIN)
    return {
      level: "bad",
      tube,
      page: pageOf(tube, "ready"),
      text: `${EXACT.format(lost)} times in ten minutes, a worker's connection ended while it held a job`,
      todo: LOST_TODO,
      weight,
    };
  // It may be reserved now.
  const each = reserves - ended <= 1 ? "each time" : `${EXACT.format(ended)} times`;
  return {
    level: "bad",
    tube,
    about: `job ${job} of ${tube}`,
    page: `#/jobs/${job}`,
    text: `was reserved ${EXACT.format(reserves)} times, and its worker's connection ended ${each}`,
    todo: "It may crash its workers: delete it, or mend them. With max-attempts, the tube buries such jobs.",
    weight,
  };
}

function addSyncs(found: Found[], { syncs: { count, p99Seconds } }: Signs): void {
  if (count < SYNCS_MIN || p99Seconds <= SYNC_WARN_SECONDS) return;
  found.push({
    level: "warn",
    tube: null,
    page: "#/log",
    text: `one sync in a hundred takes over ${Math.round(p99Seconds * 1000)} ms (limit ${SYNC_WARN_SECONDS * 1000})`,
    todo: "Check the disk: which other processes write to it?",
    weight: 1e10,
  });
}

function addDamage(found: Found[], { damaged }: Signs): void {
  if (damaged === 0) return;
  found.push({
    level: "bad",
    tube: null,
    page: "#/log",
    text: `${counted(damaged, "damaged place is", "damaged places are")} in its files`,
    todo: "Don't stop the server until it has repaired them: a start would refuse the log. Then check the disk.",
    weight: 1e13,
  });
}

/** A rule that is applied to each tube. */
interface TubeRule {
  readonly level: "bad" | "warn";
  /** Severity, also used in the text; 0 if there is no problem. */
  readonly amount: (entry: TubeEntry, atMs: number, signs: Signs) => number;
  readonly text: (amount: number) => string;
  /** Text for the tubes that are not listed. */
  readonly others: string;
  readonly todo: string;
  readonly state: string;
  /** Sort key of the tubes page for this rule. */
  readonly sort: string;
  readonly weight: number;
}

const isWatched = (entry: TubeEntry): boolean => entry.get(TubeField.watchers) > 0;
const isPaused = (entry: TubeEntry, atMs: number): boolean => entry.get(TubeField.pauseUntilMs) > atMs;

/** Returns the ready jobs that no worker will take. */
function unwatched(entry: TubeEntry, atMs: number): number {
  return isWatched(entry) || isPaused(entry, atMs) ? 0 : entry.get(TubeField.ready);
}

/** Severity of a paused tube without ready jobs: lower than of any with some. */
const NONE_READY = 0.5;

const TUBE_RULES: readonly TubeRule[] = [
  {
    level: "bad",
    amount: (entry, atMs) => (entry.get(TubeField.holdsDead) > 0 ? 0 : unwatched(entry, atMs)),
    text: (ready) => `${EXACT.format(ready)} ready, and no worker watches`,
    others: "have ready jobs, and no worker watches",
    todo: "Start the workers.",
    state: "ready",
    sort: "ready",
    weight: 1e9,
  },
  {
    level: "warn",
    amount: (entry, atMs) => {
      if (!isPaused(entry, atMs)) return 0;
      const isLong = entry.get(TubeField.pauseSeconds) >= PAUSE_WARN_SECONDS;
      return entry.get(TubeField.ready) || (isLong ? NONE_READY : 0);
    },
    text: (ready) => (ready < 1 ? "paused" : `paused, with ${EXACT.format(ready)} ready`),
    others: "are paused",
    todo: "Workers get no jobs until the pause ends or you resume the tube.",
    state: "ready",
    sort: "pause",
    weight: 1e7,
  },
  {
    level: "warn",
    amount: (entry, atMs) => (entry.get(TubeField.holdsDead) > 0 ? unwatched(entry, atMs) : 0),
    text: (ready) => `${EXACT.format(ready)} ready in a dead-letter tube`,
    others: "are dead-letter tubes with jobs",
    todo: "Find out why they died. When the cause is fixed, Redrive on the page of the tube returns them.",
    state: "ready",
    sort: "ready",
    weight: 1e6,
  },
  {
    level: "warn",
    amount: ({ name }, _atMs, { grown, timeoutsTube, reserves, timeouts }) => {
      // The rule for all tubes has already named it.
      if (name === timeoutsTube && areTooMany(timeouts, reserves)) return 0;
      const its = grown(name, "timeouts");
      const share = its / Math.max(its, grown(name, "reserves"));
      return its >= TIMEOUTS_MIN && share > TUBE_TIMEOUTS_WARN_SHARE ? its : 0;
    },
    text: (timeouts) => `${EXACT.format(timeouts)} timeouts in the last ten minutes`,
    others: "have jobs that are not done within their time to run",
    todo: "Find the jobs that time out repeatedly, or give them a longer ttr.",
    state: "ready",
    sort: "timeouts",
    weight: 1e7,
  },
  {
    level: "warn",
    amount: (entry) => entry.get(TubeField.buried),
    text: (buried) => `${EXACT.format(buried)} buried`,
    others: "have buried jobs",
    todo: "Find out why, and kick them when the cause is fixed.",
    state: "buried",
    sort: "buried",
    weight: 1e6,
  },
  {
    level: "warn",
    amount: (entry, atMs) => {
      if (!isWatched(entry) || isPaused(entry, atMs)) return 0;
      const seconds = (atMs - entry.get(TubeField.oldestReadyAtMs)) / 1000;
      return seconds > OLDEST_WARN_SECONDS ? seconds : 0;
    },
    text: (seconds) => `the oldest job has waited for ${inWords(seconds)}`,
    others: `have jobs that have waited for more than ${OLDEST_WARN_SECONDS} s`,
    todo: "Add workers, or check whether they hang.",
    state: "ready",
    sort: "oldest",
    weight: 0,
  },
];

/**
 * Adds the worst tubes of a rule and the number of others. The limit keeps one rule from crowding
 * out the rest.
 */
function addTubes(found: Found[], rule: TubeRule, signs: Signs): void {
  const { tubes, atMs } = signs;
  const { level, todo, text, others, state, sort, weight } = rule;
  const all: { readonly tube: string; readonly amount: number }[] = [];
  for (const entry of tubes) {
    const amount = rule.amount(entry, atMs, signs);
    if (amount > 0) all.push({ tube: entry.name, amount });
  }
  all.sort((a, b) => b.amount - a.amount);
  const named = listed(all);
  for (const { tube, amount } of named)
    found.push({ level, tube, page: pageOf(tube, state), text: text(amount), todo, weight: weight + amount });
  const rest = all.length - named.length;
  if (rest > 0)
    found.push({
      level,
      tube: null,
      about: more(rest, "tubes"),
      page: `#/tubes?sort=${sort}`,
      text: others,
      todo,
      weight,
    });
}

const pageOf = (tube: string, state: string): string => `#/tubes/${encodeURIComponent(tube)}?state=${state}`;

// --- Batches and schedules: stuck until a person acts, or without a run ---

function addFlows(found: Found[], { batches, schedules }: KnownSigns): void {
  for (const rule of BATCH_RULES) addBatches(found, rule, batches);
  for (const rule of SCHEDULE_RULES) addSchedules(found, rule, schedules[rule.trouble]);
}

const counted = (count: number, one: string, many: string): string =>
  `${EXACT.format(count)} ${count === 1 ? one : many}`;

interface BatchRule {
  readonly isMeant: (failed: number, buried: number, waiting: number) => boolean;
  readonly text: (failed: number, buried: number, waiting: number) => string;
  readonly others: string;
  readonly todo: string;
  readonly weight: number;
}

const BATCH_RULES: readonly BatchRule[] = [
  {
    isMeant: (_failed, buried) => buried > 0,
    text: (_failed, buried) =>
      `${counted(buried, "member is", "members are")} buried, so the batch doesn't end`,
    others: "have buried members, so they don't end",
    todo: "Find out why. When the cause is fixed, kick them; or delete them, and they count as failed.",
    weight: 3e6,
  },
  {
    isMeant: (failed, buried, waiting) => failed > 0 && buried === 0 && waiting > 0,
    text: (failed, _buried, waiting) =>
      `${counted(failed, "member has", "members have")} failed, and ${counted(waiting, "job waits", "jobs wait")} for the batch`,
    others: "have failed members, and jobs that wait for them",
    todo: "Find out why. When the batch ends, jobs that wait for its success will be buried.",
    weight: 2e6,
  },
];

function addBatches(
  found: Found[],
  { isMeant, text, others, todo, weight }: BatchRule,
  batches: readonly BatchSign[],
): void {
  const meant = batches.filter(([, , ...counts]) => isMeant(...counts));
  const named = listed(meant);
  for (const [, name, ...counts] of named)
    found.push({
      ...{ level: "warn", tube: null, about: `batch ${name}`, page: `#/batches/${encodeURIComponent(name)}` },
      ...{ text: text(...counts), todo, weight },
    });
  const rest = meant.length - named.length;
  if (rest > 0)
    found.push({
      ...{ level: "warn", tube: null, about: more(rest, "batches"), page: "#/batches?state=unfinished" },
      ...{ text: others, todo, weight: weight - 1 },
    });
}

interface ScheduleRule {
  readonly trouble: ScheduleTrouble;
  readonly text: (schedule: ScheduleSign) => string;
  readonly others: string;
  readonly todo: string;
  /** The filter of the page of schedules. */
  readonly state: string;
  readonly weight: number;
}

const REFUSALS: Readonly<Record<string, string>> = {
  TUBE_FULL: "its tube is full",
  OUT_OF_MEMORY: "the memory is full",
  LOG_FULL: "the log is full",
  DRAINING: "the server drains",
};

const SCHEDULE_RULES: readonly ScheduleRule[] = [
  {
    trouble: "refused",
    text: ({ lateSeconds, refusal }) =>
      `late by ${inWords(lateSeconds)}: ${REFUSALS[refusal] ?? "its job is refused"}`,
    others: "are late: their jobs are refused",
    todo: "The server tries again each second: make room for its job.",
    state: "late",
    weight: 5e6,
  },
  {
    trouble: "missing",
    text: ({ missed }) =>
      missed === 1 ? "its last run was missed" : `its last ${EXACT.format(missed)} runs were missed`,
    others: "have missed their last run",
    todo: "If the job can't wait for the next run, put it with Run now on the schedule's page.",
    state: "missed",
    weight: 4e6,
  },
  {
    trouble: "paused",
    text: () => "paused, so it puts no jobs",
    others: "are paused, so they put no jobs",
    todo: "Resume it on the schedule's page; runs until then are skipped.",
    state: "paused",
    weight: 1e5,
  },
];

function addSchedules(
  found: Found[],
  { text, others, todo, state, weight }: ScheduleRule,
  { count, first }: KnownSigns["schedules"][ScheduleTrouble],
): void {
  const named = listed(first, count);
  for (const schedule of named) {
    const name = textOf(schedule.name);
    found.push({
      ...{
        level: "warn",
        tube: null,
        about: `schedule ${name}`,
        page: `#/schedules/${encodeURIComponent(name)}`,
      },
      ...{ text: text(schedule), todo, weight },
    });
  }
  const rest = count - named.length;
  if (rest > 0)
    found.push({
      ...{ level: "warn", tube: null, about: more(rest, "schedules"), page: `#/schedules?state=${state}` },
      ...{ text: others, todo, weight: weight - 1 },
    });
}

// Route of the list "Needs attention".

/** Periods of the timeout and sync rules, seconds. */
const TIMEOUTS_SECONDS = 600;
const SYNCS_SECONDS = 300;

export const attentionRoutes: Routes = (api, service) => {
  api.get(
    "/v1/attention",
    {
      config: { may: "view", live: true },
      schema: {
        summary: "What needs attention, worst first",
        response: answers({ 200: Fields({ items: Type.Array(Attention) }) }, 503),
      },
    },
    async () => {
      requireServing(service);
      const [tubes, flows] = await Promise.all([
        knownTubes(service),
        knownSigns(service),
        // The counters below come with them.
        knownTotals(service),
      ]);
      const { atMs } = service.tubes;
      return { items: attentionOf(signsOf(service, { tubes: [...tubes.values()], atMs, flows })) };
    },
  );
};

function signsOf(service: Service, known: Pick<Signs, "tubes" | "atMs" | "flows">): Signs {
  const { totals, tubeHistory, memory, state, syncs } = service;
  const timeouts = totals.grown(TIMEOUTS_SECONDS, "timeouts");
  const sinceMs = service.wallMs() - TIMEOUTS_SECONDS * 1000;
  return {
    ...known,
    puts: putReadinessOf(service),
    isConfigTaken: state.reload.successful,
    memoryShare: memory.usedBytes / memory.limitBytes,
    reserves: totals.grown(TIMEOUTS_SECONDS, "reserves"),
    timeouts,
    timeoutsTube: timeouts === 0 ? undefined : tubeHistory.mostGrown("timeouts", sinceMs),
    grown: (tube, series) => tubeHistory.grown(tube, series, sinceMs),
    syncs: syncs.summary(service.wallMs() - SYNCS_SECONDS * 1000),
    damaged: state.scrub?.damaged ?? 0,
  };
}
