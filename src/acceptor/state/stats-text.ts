// The texts of `stats` and `extensions`: the counters of all threads summed, and facts about the
// process.

import {
  ControlWord,
  Counter,
  countersOf,
  httpRole,
  rolesOf,
  type Topology,
} from "../../message/topology.ts";
import { COMMANDS, commandName, EXTENSIONS } from "../../protocol/commands.ts";
import { ControlWords } from "../../ring/shared-words.ts";

/** Facts about the process and the machine, fixed at startup. */
export interface ProcessFacts {
  version: string;
  pid: number;
  /** 16 random hex digits, drawn at startup. */
  instanceId: string;
  hostname: string;
  os: string;
  platform: string;
  /** Whether hostname, os and platform have no quotes, as in beanstalkd 1.12. */
  bareFacts: boolean;
  binlogMaxBytes: number;
  startedAtMs: number;
}

const seconds = (microseconds: number): string =>
  `${Math.floor(microseconds / 1e6)}.${String(microseconds % 1e6).padStart(6, "0")}`;

const countersOfAll = (topology: Topology): Float64Array[] =>
  Array.from({ length: rolesOf(topology) }, (_, role) => countersOf(topology, role));

/** Composes the text. The shards must have updated their counters. */
export function statsText(topology: Topology, facts: ProcessFacts, nowMs: number): string {
  const counters = countersOfAll(topology);
  const sum = (counter: number): number => counters.reduce((total, each) => total + each[counter]!, 0);
  // The HTTP thread's connections are not protocol connections, but its commands count.
  const http = topology.ports > topology.acceptors ? countersOf(topology, httpRole(topology)) : undefined;
  const sumOfCommand = (op: number): number =>
    sum(Counter.Commands + op) + (http?.[Counter.Commands + op] ?? 0);
  const quote = (text: string): string => (facts.bareFacts ? text : `"${text}"`);
  const commands = COMMANDS.filter((command) => command.inStats === true).map(
    (command) => `cmd-${commandName(command)}: ${sumOfCommand(command.op)}\n`,
  );
  const usage = process.resourceUsage();
  const draining = new ControlWords(topology.control).isSet(ControlWord.Draining);
  return `---
current-jobs-urgent: ${sum(Counter.JobsUrgent)}
current-jobs-ready: ${sum(Counter.JobsReady)}
current-jobs-reserved: ${sum(Counter.JobsReserved)}
current-jobs-delayed: ${sum(Counter.JobsDelayed)}
current-jobs-buried: ${sum(Counter.JobsBuried)}
${commands.join("")}job-timeouts: ${sum(Counter.JobTimeouts)}
total-jobs: ${sum(Counter.TotalJobs)}
max-job-size: ${topology.jobBytesMax}
current-tubes: ${sum(Counter.Tubes)}
current-connections: ${sum(Counter.Connections)}
current-producers: ${sum(Counter.Producers)}
current-workers: ${sum(Counter.Workers)}
current-waiting: ${sum(Counter.Waiting)}
total-connections: ${sum(Counter.TotalConnections)}
pid: ${facts.pid}
version: "${facts.version}"
rusage-utime: ${seconds(usage.userCPUTime)}
rusage-stime: ${seconds(usage.systemCPUTime)}
uptime: ${Math.floor((nowMs - facts.startedAtMs) / 1000)}
binlog-oldest-index: ${sum(Counter.BinlogOldest)}
binlog-current-index: ${sum(Counter.BinlogCurrent)}
binlog-records-migrated: ${sum(Counter.BinlogMigrated)}
binlog-records-written: ${sum(Counter.BinlogWritten)}
binlog-max-size: ${facts.binlogMaxBytes}
draining: ${draining}
id: ${facts.instanceId}
hostname: ${quote(facts.hostname)}
os: ${quote(facts.os)}
platform: ${quote(facts.platform)}
`;
}

/**
 * Composes the text of `extensions`: the extended commands, and how often each was used. The shards
 * must have updated their counters.
 */
export function extensionsText(topology: Topology): string {
  const counters = countersOfAll(topology);
  const rows = EXTENSIONS.map((command) => {
    const counter = Counter.Commands + command.op;
    return `${commandName(command)}: ${counters.reduce((total, each) => total + each[counter]!, 0)}\n`;
  });
  return `---\n${rows.join("")}`;
}
