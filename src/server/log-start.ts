// Start of the log: in a thread of its own, or in the thread that serves.

import { Writable } from "node:stream";
import { isatty } from "node:tty";
import type { SingleBar } from "cli-progress";
import type { BinlogData, BinlogNews } from "../binlog/binlog-runtime.ts";
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
import type { Diagnostics, LineSink } from "./options/log.ts";
import { ExitCode } from "./options/operator-error.ts";
import type { Options } from "./options/options.ts";

// Supervises the binlog from the main thread: reports progress and notices to the operator, and
// ends the process when the log can't be opened or fails.

/** Minimum time between two progress lines, ms. A shorter recovery prints none. */
const PROGRESS_EVERY_MS = 1000;
const MEGABYTE = 1e6;
const STDERR = 2;

type Recovered = Extract<BinlogNews, { news: "recovered" }>;

export class BinlogSupervisor {
  /** Resolves when every job of the log is in its shard, with the origins of their ids. */
  readonly recovered: Promise<Recovered["origins"]>;
  /** Resolves when everything is durable and the log is closed. */
  readonly closed: Promise<void>;
  /** True once the thread has sent its last message, so its end is expected. */
  ended = false;
  readonly #log: Diagnostics["log"];
  readonly #lines: LineSink;
  readonly #directory: string;
  readonly #endProcess: (exitCode: number) => void;
  #onRecovered: (origins: Recovered["origins"]) => void = () => {};
  #onClosed: () => void = () => {};
  #bar: SingleBar | undefined;
  /** Undefined if stderr is not a terminal, to avoid loading the code. */
  readonly #Bar: typeof SingleBar | undefined;
  #nextProgressAtMs = Date.now() + PROGRESS_EVERY_MS;

  private constructor(
    { log, lines }: Diagnostics,
    directory: string,
    endProcess: (exitCode: number) => void,
    Bar: typeof SingleBar | undefined,
  ) {
    this.#Bar = Bar;
    this.#log = log;
    this.#lines = lines;
    this.#directory = directory;
    this.#endProcess = endProcess;
    this.recovered = new Promise((resolve) => {
      this.#onRecovered = resolve;
    });
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve;
    });
  }

  /** `endProcess` is called when the log can't be opened or has failed. */
  static async create(
    diagnostics: Diagnostics,
    directory: string,
    endProcess: (exitCode: number) => void,
  ): Promise<BinlogSupervisor> {
    // Imported before the process drops its privileges, because the new user may not be allowed to
    // read it.
    const Bar = isatty(STDERR) ? (await import("cli-progress")).SingleBar : undefined;
    return new BinlogSupervisor(diagnostics, directory, endProcess, Bar);
  }

  onNews(news: Exclude<BinlogNews, { news: "loaded" }>): void {
    if (news.news === "progress") this.#progress(news.doneBytes, news.totalBytes);
    else if (news.news === "notice")
      this.#log[news.notice.level](`${news.notice.code}: ${news.notice.message}`);
    else if (news.news === "recovered") this.#recovered(news);
    else if (news.news === "closed") {
      this.ended = true;
      this.#log.info(`the log is closed: ${news.timings}`);
      this.#onClosed();
    } else {
      this.ended = true;
      const exitCode = exitCodeOf(news);
      this.#log.fatal(`${news.code}: ${news.message}. ${news.nextStep}`);
      this.#endProcess(exitCode);
    }
  }

  #recovered({ jobs, ms, origins }: Recovered): void {
    this.#bar?.stop();
    if (jobs > 0)
      this.#log.info(`${jobs} jobs are back from ${this.#directory} after ${(ms / 1000).toFixed(2)} s`);
    this.#onRecovered(origins);
  }

  /** Shows a bar on a terminal, else a line per second. */
  #progress(doneBytes: number, totalBytes: number): void {
    if (this.#bar !== undefined) {
      this.#bar.setTotal(totalBytes);
      this.#bar.update(doneBytes);
      return;
    }
    if (Date.now() < this.#nextProgressAtMs) return;
    this.#nextProgressAtMs = Date.now() + PROGRESS_EVERY_MS;
    if (this.#Bar !== undefined) {
      this.#bar = new this.#Bar({
        format: "reading the log {bar} {percentage} %  {eta} s left",
        clearOnComplete: true,
        stream: terminalOf(this.#lines),
      });
      this.#bar.start(totalBytes, doneBytes);
      return;
    }
    const percent = totalBytes === 0 ? 100 : Math.floor((doneBytes / totalBytes) * 100);
    const megabytes = (bytes: number): string => (bytes / MEGABYTE).toFixed(0);
    this.#log.info(`reading the log: ${percent} % (${megabytes(doneBytes)} of ${megabytes(totalBytes)} MB)`);
  }
}

function exitCodeOf({ news, code }: { news: "refused" | "failed"; code: string }): number {
  if (news === "failed") return ExitCode.BinlogFailed;
  return code === "REPLICA_OTHER_GROUP" ? ExitCode.SharedLogLost : ExitCode.BinlogDirectory;
}

/** Wraps the line sink as a terminal for the bar. Its writes never block either. */
function terminalOf(lines: LineSink): Writable {
  const stream = new Writable({
    write(chunk, _encoding, done) {
      lines.write(String(chunk));
      done();
    },
  });
  return Object.assign(stream, { isTTY: true, columns: 80 });
}

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
