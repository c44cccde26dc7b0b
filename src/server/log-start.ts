// Start of the log: in a thread of its own, or in the thread that serves.

import type { BinlogData } from "../binlog/binlog-runtime.ts";
import type { Topology } from "../message/topology.ts";
import {
  type BinlogThreadHandle,
  type OnBinlogNews,
  type OnThreadDeath,
  type RecoveryChannels,
  residentBinlog,
  startBinlog,
} from "../threads/start-threads.ts";
import type { LogWorkerData } from "../threads/thread.ts";
import { BinlogSupervisor } from "./lifecycle/binlog-supervisor.ts";
import type { Diagnostics } from "./logging/log.ts";
import type { Options } from "./options/options.ts";

export interface LogStartOptions {
  readonly options: Options;
  readonly directory: string;
  readonly topology: Topology;
  readonly instanceId: string;
  readonly diagnostics: Diagnostics;
  readonly recovery: RecoveryChannels["toBinlog"];
  /** Receives the share of the log that has been replayed, 0 to 1. */
  readonly onProgress: (share: number) => void;
  readonly onDeath: OnThreadDeath;
  /** Called when the log can't be opened or has failed. */
  readonly onEnd: (exitCode: number) => void;
}

export interface StartedLog {
  readonly supervisor: BinlogSupervisor;
  readonly handle: BinlogThreadHandle;
}

/** Prepares a log for the serving thread. `data` is for the acceptors. */
export async function residentLog(start: LogStartOptions): Promise<StartedLog & { data: LogWorkerData }> {
  const supervisor = await supervise(start);
  const resident = residentBinlog(dataOf(start, undefined), newsTo(supervisor, start));
  return { ...resident, supervisor };
}

/** Starts a log in its own thread. `group` returns the port to the group's thread, if any. */
export async function logInThread(
  start: LogStartOptions,
  group: () => BinlogData["group"],
): Promise<StartedLog> {
  const supervisor = await supervise(start);
  const handle = startBinlog(
    dataOf(start, group()),
    (thread, error) => {
      if (!supervisor.ended || error !== undefined) start.onDeath(thread, error);
    },
    newsTo(supervisor, start),
  );
  return { supervisor, handle };
}

const supervise = ({ diagnostics, directory, onEnd }: LogStartOptions): Promise<BinlogSupervisor> =>
  BinlogSupervisor.create(diagnostics, directory, onEnd);

function dataOf(
  { options, directory, topology, instanceId, recovery }: LogStartOptions,
  group: BinlogData["group"],
): BinlogData {
  const { binlogBytes, fsyncMs, salvage } = options;
  return {
    topology,
    directory,
    group,
    segmentBytes: binlogBytes,
    syncEvery: fsyncMs === Number.POSITIVE_INFINITY ? "never" : fsyncMs,
    salvage,
    instanceId,
    recovery,
  };
}

function newsTo(supervisor: BinlogSupervisor, { onProgress }: LogStartOptions): OnBinlogNews {
  return (news) => {
    if (news.news === "progress") onProgress(news.doneBytes / Math.max(1, news.totalBytes));
    supervisor.onNews(news);
  };
}
