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
