// A node's report on itself, its answer to a question: one line of JSON.

import { GROUP_ROLES, type GroupMember } from "../message/group.ts";

export interface NodeReport extends GroupMember {
  tag: number;
  messagesUnderWay: number;
  doubts: number;
  ignored: number;
  /** Its --replicate-lease and its wall clock; older versions omit them. */
  leaseMs?: number;
  wallMs?: number;
  /** The version of its log's format; servers up to 2.6 omit it. */
  logVersion?: number;
  /** Segments below this one are damaged in its log; servers up to 2.7 omit it. */
  damagedBelow?: number;
}

/** Limits for untrusted answers: another program may answer too. */
const ADDRESS_MAX = 260;
const VERSION_MAX = 40;

export function parseReport(text: string): NodeReport | undefined {
  try {
    const report = JSON.parse(text) as NodeReport;
    return typeof report.node === "number" && typeof report.address === "string" ? report : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns the part of a report to show to people. Each field has its type, whatever the sender
 * wrote.
 */
export function memberOf(report: NodeReport): GroupMember {
  const role = GROUP_ROLES.find((each) => each === report.role) ?? "starting";
  return {
    node: count(report.node),
    role,
    address: report.address.slice(0, ADDRESS_MAX),
    epoch: count(report.epoch),
    n: count(report.n),
    mayServe: report.mayServe === true,
    pendingBatches: count(report.pendingBatches),
    isComplete: report.isComplete === true,
    behind: count(report.behind),
    pid: count(report.pid),
    version: typeof report.version === "string" ? report.version.slice(0, VERSION_MAX) : "",
  };
}

const count = (value: unknown): number => (Number.isSafeInteger(value) ? Math.max(0, value as number) : 0);

/** Returns what keeps the servers of a group that has begun from serving, or from a failover. */
export function memberProblems(members: readonly NodeReport[]): string[] {
  if (members.length === 0)
    return ["no server of the group is connected: start one on each machine, and look at its log if it ends"];
  const primary = members.find(({ role }) => role === "primary");
  const problems: string[] = [];
  if (primary === undefined) problems.push("no server of the group has the lead: nobody serves");
  else if (!primary.mayServe) problems.push(`${primary.address} is frozen: the shared log does not answer`);
  if (!members.some(({ role, isComplete }) => role === "standby" && isComplete))
    problems.push(
      "no standby has all jobs, so nobody can take over: start one on each machine, and look at its log if it ends",
    );
  return problems;
}

// Finds inconsistencies between the servers of a group in their reports; each is a configuration
// mistake.

/**
 * Smaller differences between wall clocks do no harm. Delays follow the wall clock when the lead
 * changes.
 */
const CLOCKS_APART_MS_MAX = 2000;

/** Returns a key for each inconsistency, and its remedy. `nowMs` is this machine's wall clock. */
export function inconsistentMembers(
  own: Pick<NodeReport, "node" | "address" | "leaseMs" | "logVersion">,
  reports: readonly NodeReport[],
  nowMs: number,
): Map<string, string> {
  const odd = new Map<string, string>();
  for (const { node, address, leaseMs = own.leaseMs, wallMs = nowMs, version, logVersion = 0 } of reports) {
    if (node === own.node) continue;
    const name = `node ${node.toString(16)} at ${address}`;
    if (address === own.address)
      odd.set(
        `address ${node}`,
        `${name} has the same --replicate-as as this server: give each the address at which others reach it, or no server can see that it is dead`,
      );
    if (leaseMs !== own.leaseMs)
      odd.set(
        `lease ${node}`,
        `${name} has --replicate-lease ${leaseMs! / 1000}, this server ${own.leaseMs! / 1000}: they must be the same, or two servers may serve at the same time`,
      );
    if (Math.abs(wallMs - nowMs) > CLOCKS_APART_MS_MAX)
      odd.set(
        `clock ${node}`,
        `the clock of ${name} is ${Math.round(Math.abs(wallMs - nowMs) / 1000)} s ${wallMs > nowMs ? "ahead of" : "behind"} this one: delays change by that when the lead changes; set the clocks (NTP)`,
      );
    if (logVersion < own.logVersion!)
      odd.set(
        `log ${node}`,
        `${name} runs runnerbean ${version}, which can't take over batches, schedules or anything else that it does not know: upgrade it before you use these`,
      );
  }
  return odd;
}
