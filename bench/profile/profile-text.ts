// Output of --profile for a case.
import Table from "cli-table3";
import { formatCount } from "../result/figures.ts";
import type { CaseProfile } from "./case-profile.ts";
import { ASSUMPTIONS, type ProjectionRow } from "./projection.ts";

export function profileText(profile: CaseProfile): string {
  const { title, measured } = profile;
  const threads = measured.turns.map(({ thread }) => thread).join(", ");
  return [
    `${title}: ${formatCount(measured.commandsPerSecond)} commands/s (${threads})`,
    `CPU time in microseconds for each command, and what the kernel counted\n${roleTable(profile)}`,
    `Turns, from the server's start to its end\n${turnTable(profile)}`,
    `PROJECTION, not a measurement: commands/s on more cores\n${projectionTable(profile.projections)}`,
    `It assumes that\n${ASSUMPTIONS.map((text) => `- ${text}`).join("\n")}`,
    `Self time, share of the samples in which a thread did not wait (a turn of its own)\n${selfTimeText(profile)}`,
    `CPU profiles, for DevTools or speedscope: ${profile.directory}`,
  ].join("\n\n");
}

function table(head: string[]): InstanceType<typeof Table> {
  const colAligns = head.map((_, index) => (index === 0 ? "left" : "right"));
  return new Table({ head, colAligns, style: { head: [], border: [], compact: true } });
}

function roleTable({ measured: { roles, commands, seconds } }: CaseProfile): string {
  const rows = table(["role", "threads", "user", "kernel", "both", "% of a core", "sleeps/s", "preempted/s"]);
  const micros = (ofSeconds: number): string => ((ofSeconds * 1e6) / commands).toFixed(2);
  for (const { role, threads, userSeconds, kernelSeconds, sleeps, preemptions } of roles) {
    const both = userSeconds + kernelSeconds;
    rows.push([
      role,
      threads,
      micros(userSeconds),
      micros(kernelSeconds),
      micros(both),
      ((both / seconds / threads) * 100).toFixed(0),
      formatCount(sleeps / seconds),
      formatCount(preemptions / seconds),
    ]);
  }
  return rows.toString();
}

function turnTable({ measured: { turns } }: CaseProfile): string {
  const head = [
    "thread",
    "messages",
    "turns with any",
    "of all",
    "batch",
    "sleeps",
    "wakes made",
    "ring fill",
    "max",
  ];
  const rows = table(head);
  for (const each of turns) {
    const batch = each.busyTurns === 0 ? 0 : each.messages / each.busyTurns;
    rows.push([
      each.thread,
      formatCount(each.messages),
      formatCount(each.busyTurns),
      formatCount(each.turns),
      batch.toFixed(1),
      formatCount(each.sleeps),
      formatCount(each.wakes),
      percent(each.ringFillMean),
      percent(each.ringFillMax),
    ]);
  }
  return rows.toString();
}

function projectionTable(projections: readonly ProjectionRow[]): string {
  const rows = table(["cores", "threads", "acceptors", "shards", "commands/s", "used up first"]);
  for (const { cores, layout, acceptors, shards, commandsPerSecond, limit } of projections)
    rows.push([cores, layout, acceptors, shards, formatCount(commandsPerSecond), limit]);
  return rows.toString();
}

function selfTimeText({ selfTimes }: CaseProfile): string {
  return selfTimes
    .map(({ role, top }) => {
      const lines = top.map(({ what, share }) => `  ${percent(share).padStart(7)}  ${what}`);
      return [role, ...lines].join("\n");
    })
    .join("\n");
}

const percent = (share: number): string => `${(share * 100).toFixed(share < 0.01 ? 2 : 1)} %`;
