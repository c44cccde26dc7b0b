// Metrics of the whole server: counters of its threads, and sums over the shards.

import { totalmem } from "node:os";
import { memoryUsage } from "node:process";
import { COMMAND_BOUNDS_SECONDS, CommandTimesCounters, END_REASONS } from "../../message/acceptor-counts.ts";
import { BODY_BOUNDS_BYTES, type ShardTotals, WAIT_BOUNDS_SECONDS } from "../../message/control.ts";
import { GROUP_ROLES, GroupFigure } from "../../message/group.ts";
import { BATCH_BOUNDS_RECORDS, LogFigures, SYNC_BOUNDS_SECONDS } from "../../message/log-figures.ts";
import {
  acceptorRole,
  binlogRole,
  ControlWord,
  Counter,
  countersOf,
  httpPort,
  portRole,
} from "../../message/topology.ts";
import { turnCountsOf } from "../../message/turn-counters.ts";
import { COMMAND_CLASSES, COMMANDS, commandName } from "../../protocol/commands.ts";
import { wordOf } from "../../schema/names.ts";
import { COUNTERS, JOB_STATES, TUBE_COUNTERS } from "../../schema/tube.ts";
import { isFrozen, putReadinessOf, readinessOf } from "../queue/health.ts";
import type { Service } from "../queue/service.ts";
import {
  type Counts,
  counter,
  type Family,
  gauge,
  histogram,
  type Labels,
  type Sample,
} from "./metrics-text.ts";
import { openDescriptors, ringBytesOf, threadCpu, unsyncedSeconds } from "./process-figures.ts";

// Metrics of batches and schedules: sums over all of them, since each may have a name of its own.

const by = (label: string, values: Readonly<Record<string, number>>): Sample[] =>
  Object.entries(values).map(([word, value]) => ({ value, labels: { [label]: word } as Labels }));

export function* flowFamilies({
  batches,
  flows,
  scheduleLateMs,
  scheduleNextMs,
}: ShardTotals): Iterable<Family> {
  const { openMs, unfinishedMs, ...states } = batches;
  yield gauge("batches", "Batches by state.", by("state", states));
  yield counter("batches_opened", "Opened batches.", flows.batchesOpened);
  yield counter(
    "batches_completed",
    "Completed batches, by outcome.",
    by("outcome", {
      success: flows.batchesSuccess,
      failure: flows.batchesFailure,
      cancelled: flows.batchesCancelled,
    }),
  );
  yield gauge(
    "batch_open_seconds",
    "Seconds since the oldest batch that takes members was opened.",
    openMs / 1000,
  );
  yield gauge(
    "batch_unfinished_seconds",
    "Seconds since the oldest incomplete batch was opened.",
    unfinishedMs / 1000,
  );
  yield gauge("batch_members", "Members of batches that have not ended.", flows.members);
  yield counter(
    "batch_members_ended",
    "Members of batches that have ended: done if their workers deleted them, otherwise failed.",
    by("how", { done: flows.membersDone, failed: flows.membersFailed }),
  );
  yield gauge("batch_callbacks_waiting", "Jobs that wait for a batch.", flows.callbacksWaiting);
  yield counter(
    "batch_callbacks",
    "Jobs whose batch became complete: released or buried.",
    by("how", { released: flows.callbacksReleased, buried: flows.callbacksBuried }),
  );
  const { schedules, schedulesPaused: paused, schedulesRefused: refused } = flows;
  yield gauge(
    "schedules",
    "Schedules by state; refused: a tick is due, and its job was refused.",
    by("state", { active: schedules - paused - refused, paused, refused }),
  );
  yield gauge(
    "schedule_next_seconds",
    "Seconds until the earliest tick or the next attempt; no value without one.",
    scheduleNextMs === Number.POSITIVE_INFINITY ? [] : [{ value: scheduleNextMs / 1000 }],
  );
  yield gauge("schedule_late_seconds", "Longest time that a tick has been due.", scheduleLateMs / 1000);
  yield counter(
    "schedule_ticks",
    "Ticks: put a job, missed, found their job already there, or skipped for an earlier job.",
    by("how", {
      put: flows.ticksPut,
      missed: flows.ticksMissed,
      duplicate: flows.ticksDuplicate,
      skipped: flows.ticksSkipped,
    }),
  );
  yield counter("schedule_refusals", "Refused attempts of schedules to put a job.", flows.scheduleRefusals);
  yield counter("schedule_runs", "Jobs that run-schedule has put.", flows.scheduleRuns);
}

/** Yields all families without a tube label. */
export function* serverFamilies(service: Service, totals: ShardTotals | undefined): Iterable<Family> {
  yield* stateFamilies(service);
  if (totals !== undefined) yield* jobFamilies(totals);
  if (totals !== undefined) yield* flowFamilies(totals);
  yield* connectionFamilies(service);
  yield commandTimesFamily(service);
  yield* leaseFamilies(service);
  if (totals !== undefined) yield memoryFamily(service, totals);
  yield* limitFamilies(service);
  if (service.topology.binlog !== undefined) yield* logFamilies(service);
  if (service.topology.binlog?.group !== undefined) yield* groupFamilies(service);
  yield* threadFamilies(service);
  yield* processFamilies(service);
}

function* stateFamilies(service: Service): Iterable<Family> {
  const { facts, state, words } = service;
  const labels = { version: facts.version, node: process.version, transport: state.transport };
  yield gauge("build_info", "Version of the server, of Node, and the transport; always 1.", [
    { value: 1, labels },
  ]);
  yield gauge("start_time_seconds", "When the server was started, in Unix time.", facts.startedAtMs / 1000);
  yield gauge("ready", "1 while the server accepts commands.", readinessOf(service).ok ? 1 : 0);
  yield gauge("ready_for_puts", "1 while the server accepts new jobs.", putReadinessOf(service).ok ? 1 : 0);
  yield gauge(
    "draining",
    "1 while the server is draining and refuses new jobs.",
    words.isSet(ControlWord.Draining) ? 1 : 0,
  );
  yield gauge("replay_progress_ratio", "Share of the log that was replayed at the start.", state.replayed);
  const { successful, successAt } = state.reload;
  yield gauge(
    "config_last_reload_successful",
    "0 if the last reload rejected the configuration.",
    successful ? 1 : 0,
  );
  yield gauge(
    "config_last_reload_success_timestamp_seconds",
    "Time of the last successful reload, in Unix time.",
    successAt,
  );
}

function* jobFamilies(totals: ShardTotals): Iterable<Family> {
  yield gauge(
    "jobs",
    "Jobs by state.",
    JOB_STATES.map((state) => ({ value: totals.jobs[state], labels: { state } })),
  );
  yield gauge("jobs_urgent", "Ready jobs with a priority below 1024.", totals.jobs.urgent);
  for (const name of TUBE_COUNTERS) yield counter(wordOf(name, "_"), COUNTERS[name].says, totals[name]);
  yield counter("touches", "Reservations that clients have renewed.", totals.touches);
  yield histogram("job_wait_seconds", "Time from ready to reserved.", WAIT_BOUNDS_SECONDS, [totals.wait]);
  yield histogram(
    "job_hold_seconds",
    "Time from reserved, or the last touch, to deleted, released or buried.",
    WAIT_BOUNDS_SECONDS,
    [totals.hold],
  );
  yield histogram("job_body_bytes", "Sizes of the bodies of all puts.", BODY_BOUNDS_BYTES, [totals.body]);
  yield gauge("waiting", "Clients that wait for a job.", totals.waiting);
  yield gauge("finished_jobs", "Ends of jobs that are kept: see keep-finished.", totals.finished);
  yield gauge("http_leases", "Jobs leased over HTTP.", totals.leases);
}

function* leaseFamilies({ leases, reservations, state }: Service): Iterable<Family> {
  yield gauge("http_streams", "Open streams of dashboard views.", state.streams);
  yield gauge("http_waits", "HTTP requests that wait for a job.", reservations.waits);
  yield counter(
    "http_connections_refused",
    "HTTP connections above the limit: closed at once, or answered with 503.",
    state.connectionsRefused,
  );
  yield counter(
    "http_connections_cut_off",
    "HTTP connections of refused clients that were still sending or open at the limit of the close.",
    state.connectionsCutOff,
  );
  yield counter("http_lease_ended", "HTTP requests with a lease that had ended.", leases.ended);
  yield counter(
    "http_abandoned_jobs",
    "Jobs that became ready again because their client had disconnected.",
    leases.abandoned,
  );
}

const REJECTED = [
  ["cap", Counter.RejectedFull],
  ["address", Counter.RejectedAddress],
  ["auth", Counter.RejectedAuth],
  ["handshake", Counter.RejectedHandshake],
  ["descriptors", Counter.RejectedDescriptors],
  ["proxy-header", Counter.RejectedHeader],
] as const;

function* connectionFamilies({ topology, state }: Service): Iterable<Family> {
  const acceptors = Array.from({ length: topology.acceptors }, (_, acceptor) =>
    countersOf(topology, acceptorRole(topology, acceptor)),
  );
  const sum = (at: number): number => acceptors.reduce((total, counters) => total + counters[at]!, 0);
  const ofHttp = countersOf(topology, portRole(topology, httpPort(topology)));
  yield gauge("connections", "Open connections of the beanstalkd protocol.", sum(Counter.Connections));
  yield gauge("producers", "Connections that have put a job.", sum(Counter.Producers));
  yield gauge("workers", "Connections that have reserved a job.", sum(Counter.Workers));
  yield counter("connections_accepted", "Accepted connections.", sum(Counter.TotalConnections));
  yield counter(
    "connections_closed",
    "Closed connections, by reason.",
    END_REASONS.map((reason, at) => ({ value: sum(Counter.Closed + at), labels: { reason } })),
  );
  yield counter(
    "connections_rejected",
    "Connections that were closed at once, by reason.",
    REJECTED.map(([reason, at]) => ({ value: sum(at) + ofHttp[at]!, labels: { reason } })),
  );
  yield counter("network_bytes", "Bytes of the beanstalkd protocol; with TLS, the decrypted bytes.", [
    { value: sum(Counter.BytesIn), labels: { direction: "in" } },
    { value: sum(Counter.BytesOut), labels: { direction: "out" } },
  ]);
  yield counter("auth_failures", "Failed authentications, by protocol.", [
    { value: sum(Counter.RejectedAuth), labels: { protocol: "beanstalk" } },
    { value: state.wrongTokens, labels: { protocol: "http" } },
  ]);
  yield counter("audit_dropped", "Changes by hand that the log lacks: too many came at once.", [
    { value: sum(Counter.UnrecordedChanges), labels: { protocol: "beanstalk" } },
    { value: state.changesNotLogged, labels: { protocol: "http" } },
  ]);
  const threads = new Float64Array(topology.counters).length / countersOf(topology, 0).length;
  const everywhere = Array.from({ length: threads }, (_, thread) => countersOf(topology, thread)).filter(
    (_, thread) => thread !== binlogRole(topology),
  );
  yield counter(
    "commands",
    "Executed commands, including those over HTTP.",
    COMMANDS.map((command) => ({
      value: everywhere.reduce((total, counters) => total + counters[Counter.Commands + command.op]!, 0),
      labels: { command: commandName(command) },
    })),
  );
}

/** Covers all threads that send commands to shards. */
function commandTimesFamily({ topology }: Service): Family {
  const roles = Array.from({ length: topology.ports }, (_, port) =>
    countersOf(topology, portRole(topology, port)),
  );
  const times = roles.map((counters) => new CommandTimesCounters(counters, Counter.CommandTimes));
  return histogram(
    "command_duration_seconds",
    "Time from a complete command to its reply, without waits for jobs; a sample of commands.",
    COMMAND_BOUNDS_SECONDS,
    COMMAND_CLASSES.map((name, at) => ({
      ...sumOf(times.map((each) => each.of(at))),
      labels: { class: name },
    })),
  );
}

const sumOf = (all: readonly Counts[]): Counts => ({
  counts: all[0]!.counts.map((_, bound) => all.reduce((sum, { counts }) => sum + counts[bound]!, 0)),
  sum: all.reduce((total, { sum }) => total + sum, 0),
});

function memoryFamily({ topology }: Service, totals: ShardTotals): Family {
  const kinds = {
    jobs: totals.jobsMemoryBytes,
    bodies: totals.bodiesMemoryBytes,
    rings: ringBytesOf(topology),
    http: memoryUsage().heapUsed,
  };
  const samples = Object.entries(kinds).map(([kind, value]) => ({ value, labels: { kind } }));
  return gauge("memory_bytes", "Memory by purpose; for http, the JavaScript heap.", samples);
}

/** Omits the limit if there is none, since an alert at 80 % would make no sense. */
function* limitFamilies({ memory: { usedBytes, limitBytes } }: Service): Iterable<Family> {
  yield gauge("job_memory_used_bytes", "Memory of jobs and bodies, as max-memory counts it.", usedBytes);
  if (limitBytes === Number.POSITIVE_INFINITY) return;
  yield gauge("job_memory_limit_bytes", "Limit of the memory of jobs and bodies (max-memory).", limitBytes);
}

/** Only for a server with --replicate. */
function* groupFamilies(service: Service): Iterable<Family> {
  const figures = new Float64Array(service.topology.binlog!.group!.figures);
  const at = (figure: number): number => figures[figure]!;
  const roles = GROUP_ROLES.map((role, index) => ({
    value: at(GroupFigure.Role) === index ? 1 : 0,
    labels: { role },
  }));
  yield gauge("group_role", "1 for the role that this server has in its group.", roles);
  yield gauge(
    "group_epoch",
    "Number of the current lead; each change of lead raises it.",
    at(GroupFigure.Epoch),
  );
  yield gauge("group_may_serve", "Whether it may serve: 1 or 0.", isFrozen(service) ? 0 : 1);
  yield gauge(
    "group_standbys",
    "Other servers of the group, as the primary sees them.",
    at(GroupFigure.Standbys),
  );
  yield gauge(
    "group_batches_pending",
    "Batches that the shared log has not acknowledged.",
    at(GroupFigure.PendingBatches),
  );
  yield gauge(
    "group_messages_under_way",
    "Messages that the shared log has not acknowledged.",
    at(GroupFigure.MessagesUnderWay),
  );
  yield gauge("group_behind_messages", "Messages that a standby has not read yet.", at(GroupFigure.Behind));
  yield gauge("group_log_bytes", "Bytes that the shared log takes.", at(GroupFigure.LogBytes));
  yield gauge("group_log_limit_bytes", "Bytes that the shared log may take.", at(GroupFigure.LogLimitBytes));
  yield counter("group_appends", "Messages that the shared log has stored.", at(GroupFigure.Appends));
  yield counter(
    "group_append_seconds",
    "Total time of appends to the shared log, in seconds.",
    at(GroupFigure.AppendMs) / 1000,
  );
  yield counter(
    "group_doubts",
    "How often the primary had to read whether an append was stored.",
    at(GroupFigure.Doubts),
  );
  yield counter(
    "group_batches_ignored",
    "Batches in the shared log that are ignored.",
    at(GroupFigure.Ignored),
  );
  yield counter("group_freezes", "How often the shared log did not answer in time.", at(GroupFigure.Freezes));
}

function* logFamilies({ topology, words, state: { scrub } }: Service): Iterable<Family> {
  const counters = countersOf(topology, binlogRole(topology));
  const bytes = counters[Counter.BinlogBytes]!;
  const live = counters[Counter.BinlogLiveBytes]!;
  const spare = counters[Counter.BinlogSpareBytes]!;
  const files = counters[Counter.BinlogCurrent]! - counters[Counter.BinlogOldest]! + 1;
  yield gauge("binlog_bytes", "Bytes of the log's files: live records, dead ones and spare room.", [
    { value: live, labels: { kind: "live" } },
    { value: Math.max(0, bytes - live - spare), labels: { kind: "dead" } },
    { value: spare, labels: { kind: "spare" } },
  ]);
  yield gauge("binlog_files", "Files of the log.", counters[Counter.BinlogOldest] === 0 ? 0 : files);
  const isFull = words.isSet(ControlWord.BinlogFull);
  yield gauge("binlog_full", "1 while the log has no room for new jobs.", isFull ? 1 : 0);
  yield gauge(
    "binlog_unsynced_seconds",
    "How long the oldest record has waited for a sync; with -F, none waits.",
    unsyncedSeconds(counters),
  );
  yield gauge("binlog_compacting", "1 while compaction frees space.", counters[Counter.BinlogCompacts]!);
  yield counter("binlog_scrub_files", "Files of the log that were checked.", scrub?.files ?? 0);
  yield counter("binlog_scrub_bytes", "Their bytes.", scrub?.bytes ?? 0);
  yield counter("binlog_scrub_found", "Damaged places found in the log.", scrub?.found ?? 0);
  yield gauge("binlog_scrub_damaged", "Damaged places that are still in the log.", scrub?.damaged ?? 0);
  yield gauge("binlog_scrub_paused", "1 while nothing is checked.", scrub?.paused === true ? 1 : 0);
  yield counter(
    "binlog_written_bytes",
    "Bytes of written records, including rewritten ones.",
    counters[Counter.LogFigures + LogFigures.WrittenBytes]!,
  );
  yield counter("binlog_records", "Written records.", counters[Counter.BinlogWritten]!);
  yield counter(
    "binlog_records_migrated",
    "Records that compaction rewrote.",
    counters[Counter.BinlogMigrated]!,
  );
  const figures = (at: number, bounds: readonly number[]): Counts => {
    const start = Counter.LogFigures + at;
    return {
      counts: [...counters.subarray(start, start + bounds.length + 1)],
      sum: counters[start + bounds.length + 1]!,
    };
  };
  const times = SYNC_BOUNDS_SECONDS;
  yield histogram("binlog_sync_seconds", "Durations of syncs.", times, [figures(LogFigures.Sync, times)]);
  yield histogram("binlog_wait_seconds", "Time from a record to its sync.", times, [
    figures(LogFigures.Wait, times),
  ]);
  yield histogram("binlog_batch_records", "Records per write.", BATCH_BOUNDS_RECORDS, [
    figures(LogFigures.Batch, BATCH_BOUNDS_RECORDS),
  ]);
}

function* threadFamilies({ topology }: Service): Iterable<Family> {
  yield counter(
    "thread_cpu_seconds",
    "CPU time of a thread.",
    threadCpu().flatMap(({ thread, userSeconds, systemSeconds }): Sample[] => [
      { value: userSeconds, labels: { thread, mode: "user" } },
      { value: systemSeconds, labels: { thread, mode: "system" } },
    ]),
  );
  const counts = turnCountsOf(topology);
  const each = (name: string, help: string, value: (count: (typeof counts)[number]) => number): Family =>
    counter(
      name,
      help,
      counts.map((count) => ({ value: value(count), labels: { thread: count.thread } })),
    );
  yield each("thread_turns", "Turns of a thread's loop.", ({ turns }) => turns);
  yield each("thread_busy_turns", "Turns that took messages.", ({ busyTurns }) => busyTurns);
  yield each("thread_messages", "Messages that a thread took from its rings.", ({ messages }) => messages);
  yield each(
    "thread_crossed_messages",
    "Messages that a thread took from another thread.",
    ({ crossed }) => crossed,
  );
  yield each("thread_wakes", "How often a thread woke another one.", ({ wakes }) => wakes);
  yield each("thread_sleeps", "How often a thread went to sleep.", ({ sleeps }) => sleeps);
  yield gauge(
    "ring_fill_ratio_max",
    "Highest fill of any ring to a thread.",
    counts.map(({ thread, ringFillMax }) => ({ value: ringFillMax, labels: { thread } })),
  );
}

/** For a control group without a limit, Node returns 0 or more than the machine's memory. */
function memoryLimit(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

function* processFamilies({ facts }: Service): Iterable<Family> {
  const { user, system } = process.cpuUsage();
  yield counter("process_cpu_seconds", "CPU time of the process.", (user + system) / 1e6);
  yield gauge(
    "memory_limit_bytes",
    "Memory that the process may use: its control group's limit, or the machine's memory.",
    memoryLimit(),
  );
  yield gauge("process_resident_memory_bytes", "Resident memory of the process.", memoryUsage.rss());
  yield gauge(
    "process_start_time_seconds",
    "Start time of the process, in Unix time.",
    facts.startedAtMs / 1000,
  );
  yield gauge("process_open_fds", "Open file descriptors.", openDescriptors());
  if (Number.isFinite(facts.descriptorsMax))
    yield gauge("process_max_fds", "Maximum number of open file descriptors.", facts.descriptorsMax);
}
