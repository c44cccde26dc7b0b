// The text of `stats`: counters of all threads summed, and what is known of the process.

import {
  ControlWord,
  Counter,
  commandCounter,
  countersOf,
  httpRole,
  rolesOf,
  type Topology,
} from "../../message/topology.ts";
import { COMMANDS, commandName } from "../../protocol/commands.ts";
import { ControlWords } from "../../ring/control-words.ts";

/** What `stats` tells of the process and the machine, fixed at start. */
export interface ProcessFacts {
  version: string;
  pid: number;
  /** 16 hex digits, drawn at start. */
  instanceId: string;
  hostname: string;
  os: string;
  platform: string;
  /** hostname, os and platform without quotes, as beanstalkd 1.12 has them. */
  bareFacts: boolean;
  binlogMaxBytes: number;
  startedAtMs: number;
}

const seconds = (microseconds: number): string =>
  `${Math.floor(microseconds / 1e6)}.${String(microseconds % 1e6).padStart(6, "0")}`;

/** Makes the text anew at each call; the shards must have updated their counters. */
export function statsText(topology: Topology, facts: ProcessFacts, nowMs: number): string {
  const counters = Array.from({ length: rolesOf(topology) }, (_, role) => countersOf(topology, role));
  const sum = (counter: number): number => counters.reduce((total, each) => total + each[counter]!, 0);
  // The http thread's connections are none of the protocol's, but what it does by their commands counts.
  const http = topology.ports > topology.acceptors ? countersOf(topology, httpRole(topology)) : undefined;
  const sumOfCommand = (op: number): number => sum(commandCounter(op)) + (http?.[commandCounter(op)] ?? 0);
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
