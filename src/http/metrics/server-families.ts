// Metrics of the whole server: counters of its threads, and sums over the shards.

import { totalmem } from "node:os";
import { memoryUsage } from "node:process";
import { COMMAND_BOUNDS_SECONDS, CommandTimesCounters } from "../../message/command-times.ts";
import { BODY_BOUNDS_BYTES, type ShardTotals, WAIT_BOUNDS_SECONDS } from "../../message/control.ts";
import { END_REASONS } from "../../message/end-reason.ts";
import { GROUP_ROLES, GroupFigure } from "../../message/group.ts";
import { BATCH_BOUNDS_RECORDS, LogFigures, SYNC_BOUNDS_SECONDS } from "../../message/log-figures.ts";
import {
  acceptorRole,
  binlogRole,
  ControlWord,
  Counter,
  countersOf,
  portRole,
} from "../../message/topology.ts";
import { turnCountsOf } from "../../message/turn-counters.ts";
import { COMMAND_CLASSES, COMMANDS, commandName } from "../../protocol/commands.ts";
import { ringBytesOf } from "../link/ring-bytes.ts";
import { isFrozen, putReadinessOf, readinessOf } from "../queue/health.ts";
import type { Service } from "../queue/service.ts";
import { unsyncedSeconds } from "../state/unsynced-seconds.ts";
import { type Counts, counter, type Family, gauge, histogram, type Sample } from "./family.ts";
import { openDescriptors, threadCpu } from "./process-files.ts";
import { HELP, nameOf } from "./tube-families.ts";

/** Yields all families without a tube label. */
export function* serverFamilies(service: Service, totals: ShardTotals | undefined): Iterable<Family> {
  yield* stateFamilies(service);
  if (totals !== undefined) yield* jobFamilies(totals);
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
  yield gauge("build_info", "What this server is; always 1.", [{ value: 1, labels }]);
  yield gauge("start_time_seconds", "When the server was started, in Unix time.", facts.startedAtMs / 1000);
  yield gauge("ready", "1 while commands are served.", readinessOf(service).ok ? 1 : 0);
  yield gauge("ready_for_puts", "1 while new jobs are taken.", putReadinessOf(service).ok ? 1 : 0);
  yield gauge("draining", "1 while new jobs are refused.", words.isSet(ControlWord.Draining) ? 1 : 0);
  yield gauge("replay_progress_ratio", "How much of the log has been replayed at the start.", state.replayed);
  const { successful, successAt } = state.reload;
  yield gauge(
    "config_last_reload_successful",
    "0 after a configuration that was not taken at SIGHUP.",
    successful ? 1 : 0,
  );
  yield gauge(
    "config_last_reload_success_timestamp_seconds",
    "When the configuration was taken last, in Unix time.",
    successAt,
  );
}

function* jobFamilies(totals: ShardTotals): Iterable<Family> {
  const { ready, reserved, delayed, buried, urgent } = totals.jobs;
  const states = Object.entries({ ready, reserved, delayed, buried });
  yield gauge(
    "jobs",
    "Jobs by state.",
    states.map(([state, value]) => ({ value, labels: { state } })),
  );
  yield gauge("jobs_urgent", "Ready jobs with a priority below 1024.", urgent);
  yield counter("puts", "Jobs that were put.", totals.puts);
  yield counter("reserves", "Jobs that were given to clients.", totals.reserves);
  yield counter("deletes", "Jobs that were deleted.", totals.deletes);
  yield counter("releases", "Jobs that were released.", totals.releases);
  yield counter("buries", "Jobs that were buried.", totals.buries);
  yield counter("kicks", "Jobs that were kicked.", totals.kicks);
  yield counter("timeouts", "Reservations that ended because their time to run was over.", totals.timeouts);
  for (const name of ["deaths", "expiries", "duplicates", "refusals", "rateWaits"] as const)
    yield counter(nameOf(name), HELP[name], totals[name]);
  yield counter("touches", "Reservations that were renewed.", totals.touches);
  yield histogram("job_wait_seconds", "From ready to reserved.", WAIT_BOUNDS_SECONDS, [totals.wait]);
  yield histogram(
    "job_hold_seconds",
    "From reserved, or the last touch, to deleted, released or buried.",
    WAIT_BOUNDS_SECONDS,
    [totals.hold],
  );
  yield histogram("job_body_bytes", "Sizes of bodies that were put.", BODY_BOUNDS_BYTES, [totals.body]);
  yield gauge("waiting", "Clients that wait for a job.", totals.waiting);
  yield gauge("http_leases", "Jobs that are leased over HTTP.", totals.leases);
}

function* leaseFamilies({ leases, reservations, state }: Service): Iterable<Family> {
  yield gauge("http_streams", "Views of the dashboard that are sent each second.", state.streams);
  yield gauge("http_waits", "Requests over HTTP that wait for a job.", reservations.waits);
  yield counter(
    "http_connections_refused",
    "Connections over HTTP that were too many: closed at once, or answered with 503.",
    state.connectionsRefused,
  );
  yield counter(
    "http_connections_cut_off",
    "Connections over HTTP of refused clients that still sent at the limit, or had not left by then.",
    state.connectionsCutOff,
  );
  yield counter("http_lease_ended", "Requests over HTTP with a lease that had ended.", leases.ended);
  yield counter(
    "http_abandoned_jobs",
    "Jobs that went back because nobody was there any more to take them.",
    leases.abandoned,
  );
}

const REJECTED = [
  ["cap", Counter.RejectedFull],
  ["address", Counter.RejectedAddress],
  ["auth", Counter.RejectedAuth],
  ["handshake", Counter.RejectedHandshake],
  ["descriptors", Counter.RejectedDescriptors],
] as const;

function* connectionFamilies({ topology, state }: Service): Iterable<Family> {
  const acceptors = Array.from({ length: topology.acceptors }, (_, acceptor) =>
    countersOf(topology, acceptorRole(topology, acceptor)),
  );
  const sum = (at: number): number => acceptors.reduce((total, counters) => total + counters[at]!, 0);
  yield gauge("connections", "Open connections of the beanstalkd protocol.", sum(Counter.Connections));
  yield gauge("producers", "Connections that have put a job.", sum(Counter.Producers));
  yield gauge("workers", "Connections that have reserved a job.", sum(Counter.Workers));
  yield counter("connections_accepted", "Connections that were accepted.", sum(Counter.TotalConnections));
  yield counter(
    "connections_closed",
    "Connections that have ended, by reason.",
    END_REASONS.map((reason, at) => ({ value: sum(Counter.Closed + at), labels: { reason } })),
  );
  yield counter(
    "connections_rejected",
    "Connections that were closed at once, by reason.",
    REJECTED.map(([reason, at]) => ({ value: sum(at), labels: { reason } })),
  );
  yield counter("network_bytes", "Bytes of the beanstalkd protocol; with TLS what is in it.", [
    { value: sum(Counter.BytesIn), labels: { direction: "in" } },
    { value: sum(Counter.BytesOut), labels: { direction: "out" } },
  ]);
  yield counter("auth_failures", "Who said who he is, and was not believed.", [
    { value: sum(Counter.RejectedAuth), labels: { protocol: "beanstalk" } },
    { value: state.wrongTokens, labels: { protocol: "http" } },
  ]);
  const threads = new Float64Array(topology.counters).length / countersOf(topology, 0).length;
  const everywhere = Array.from({ length: threads }, (_, thread) => countersOf(topology, thread)).filter(
    (_, thread) => thread !== binlogRole(topology),
  );
  yield counter(
    "commands",
    "Commands that were executed, by HTTP too.",
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
    "From a whole command to its reply, waits for jobs left out; of some commands.",
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
  return gauge("memory_bytes", "Memory by what it is for; of http the JavaScript heap.", samples);
}

/** Omits the limit if there is none, since an alert at 80 % would make no sense. */
function* limitFamilies({ memory: { usedBytes, limitBytes } }: Service): Iterable<Family> {
  yield gauge("job_memory_used_bytes", "What jobs and bodies take, as max-memory counts it.", usedBytes);
  if (limitBytes === Number.POSITIVE_INFINITY) return;
  yield gauge("job_memory_limit_bytes", "What max-memory gives to jobs and bodies.", limitBytes);
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
  yield gauge("group_may_serve", "Whether it has the right to serve: 1 or 0.", isFrozen(service) ? 0 : 1);
  yield gauge(
    "group_standbys",
    "Other servers of the group, as the primary sees them.",
    at(GroupFigure.Standbys),
  );
  yield gauge("group_batches_pending", "Batches that are not acknowledged.", at(GroupFigure.PendingBatches));
  yield gauge(
    "group_messages_under_way",
    "Messages to the shared log that it has not acknowledged.",
    at(GroupFigure.MessagesUnderWay),
  );
  yield gauge("group_behind_messages", "What a standby has not read yet.", at(GroupFigure.Behind));
  yield gauge("group_log_bytes", "Bytes that the shared log takes.", at(GroupFigure.LogBytes));
  yield gauge("group_log_limit_bytes", "Bytes that the shared log may take.", at(GroupFigure.LogLimitBytes));
  yield counter("group_appends", "Messages that the shared log has taken.", at(GroupFigure.Appends));
  yield counter(
    "group_append_seconds",
    "Seconds that appends to the shared log have taken, in all.",
    at(GroupFigure.AppendMs) / 1000,
  );
  yield counter(
    "group_doubts",
    "How often the primary had to read whether an append was stored.",
    at(GroupFigure.Doubts),
  );
  yield counter(
    "group_batches_ignored",
    "Batches in the shared log that do not count.",
    at(GroupFigure.Ignored),
  );
  yield counter("group_freezes", "How often the shared log did not answer in time.", at(GroupFigure.Freezes));
}

function* logFamilies({ topology, words }: Service): Iterable<Family> {
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
    "How long the oldest record that waits for a sync has done so; with -F none waits.",
    unsyncedSeconds(counters),
  );
  yield gauge("binlog_compacting", "1 while room is being given back.", counters[Counter.BinlogCompacts]!);
  yield counter(
    "binlog_written_bytes",
    "Bytes of records that were written, also again.",
    counters[Counter.LogFigures + LogFigures.WrittenBytes]!,
  );
  yield counter("binlog_records", "Records that were written.", counters[Counter.BinlogWritten]!);
  yield counter(
    "binlog_records_migrated",
    "Records that were written again.",
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
  yield histogram("binlog_sync_seconds", "Times of a sync.", times, [figures(LogFigures.Sync, times)]);
  yield histogram("binlog_wait_seconds", "From a record to its sync.", times, [
    figures(LogFigures.Wait, times),
  ]);
  yield histogram("binlog_batch_records", "Records of one write.", BATCH_BOUNDS_RECORDS, [
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
  yield each("thread_sleeps", "How often a thread went to sleep.", ({ sleeps }) => sleeps);
  yield gauge(
    "ring_fill_ratio_max",
    "How full the fullest ring to a thread was at most.",
    counts.map(({ thread, ringFillMax }) => ({ value: ringFillMax, labels: { thread } })),
  );
}

/** For a control group without a limit, Node returns a number beyond all memory, or 0. */
function memoryLimit(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

function* processFamilies({ facts }: Service): Iterable<Family> {
  const { user, system } = process.cpuUsage();
  yield counter("process_cpu_seconds", "CPU time of the process.", (user + system) / 1e6);
  yield gauge(
    "memory_limit_bytes",
    "What the process may take: its control group's limit, or all there is.",
    memoryLimit(),
  );
  yield gauge("process_resident_memory_bytes", "Memory of the process.", memoryUsage.rss());
  yield gauge("process_start_time_seconds", "When the process was started.", facts.startedAtMs / 1000);
  yield gauge("process_open_fds", "Open file descriptors.", openDescriptors());
  if (Number.isFinite(facts.descriptorsMax))
    yield gauge("process_max_fds", "File descriptors that may be open.", facts.descriptorsMax);
}
