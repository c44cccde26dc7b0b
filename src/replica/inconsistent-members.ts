// Finds inconsistencies between the servers of a group in their reports; each is a configuration
// mistake.

import type { NodeReport } from "./node-report.ts";

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
