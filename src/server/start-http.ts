// Start of the HTTP thread: checks that its addresses are free, and passes on its settings.

import { setTimeout as sleep } from "node:timers/promises";
import type { ProcessFacts } from "../acceptor/state/stats-text.ts";
import type { HttpAddress, HttpNews, HttpRules, HttpThreadData, OpenListener } from "../http/http-thread.ts";
import type { Placement, Topology } from "../message/topology.ts";
import { HttpThreadHandle, type OnThreadDeath } from "../threads/start-threads.ts";
import { descriptorLimit } from "./lifecycle/process.ts";
import { prepareSocketPath, probeAddress } from "./listeners/listen-address.ts";
import { describeHttpAddress } from "./options/http-settings.ts";
import { ExitCode, OperatorError } from "./options/operator-error.ts";
import type { Options } from "./options/options.ts";

interface HttpStart {
  readonly options: Options;
  readonly address: HttpAddress;
  readonly topology: Topology;
  readonly placement: Placement;
  readonly stats: ProcessFacts;
  readonly rules: HttpRules;
  readonly onDeath: OnThreadDeath;
  readonly onNews: (news: HttpNews) => void;
  /** Receives notices for the operator. */
  readonly notice: (text: string) => void;
}

/** Time that clients of the protocol wait for a busy HTTP thread, such as one in a group. */
const SERVES_MS_MAX = 500;

export class StartedHttp {
  readonly handle: HttpThreadHandle;
  /**
   * Resolves with a description of the address when the thread has loaded its code and listens.
   * Rejects with an OperatorError on failure.
   */
  readonly listening: Promise<string>;
  isLoaded = false;

  constructor(handle: HttpThreadHandle, listening: Promise<string>) {
    this.handle = handle;
    this.listening = listening;
    const noteLoaded = (): void => {
      this.isLoaded = true;
    };
    // Others await the promise and handle its error.
    listening.then(noteLoaded, () => {});
  }

  /**
   * Resolves when requests wait for an answer instead of being refused; with `isLoaded`, when all
   * code is loaded, too. Rejects with an OperatorError on failure.
   */
  async opens(isLoaded: boolean): Promise<void> {
    await (isLoaded ? this.listening : Promise.race([this.handle.bound, this.listening]));
  }

  /** Resolves when requests about jobs are served, or wait until the code is loaded. */
  async serve(listeners: readonly OpenListener[], transport: string): Promise<void> {
    const serves = this.handle.serve(listeners, transport);
    if (this.isLoaded) await Promise.race([serves, sleep(SERVES_MS_MAX, undefined, { ref: false })]);
  }
}

/**
 * Starts the HTTP thread, which reports health and progress once its code is loaded. Throws an
 * OperatorError if an address is in use.
 */
export async function startHttp(start: HttpStart): Promise<StartedHttp> {
  const { options, address, notice } = start;
  const data = dataOf(start);
  for (const where of [address, ...options.httpAlso.map((also) => also.address)]) {
    if ("path" in where) await prepareSocketPath(where.path, notice);
    if ("path" in where || where.port === 0) continue;
    // Check before serving any client: a later failure would disconnect them.
    await probeAddress(where.host, where.port).catch((error: Error) => {
      throw cannotListen(where, where === address, error.message);
    });
  }
  const handle = new HttpThreadHandle(data, start.onDeath, start.onNews);
  return new StartedHttp(handle, listeningOf(handle, address));
}

function dataOf({ options, address, topology, placement, stats, rules }: HttpStart): HttpThreadData {
  const { httpHosts, metricsTubesMax, metricsTubes, httpAlso, httpNice } = options;
  const { compat, binlog, fsyncMs, binlogBytes, logLevel } = options;
  const { version, instanceId, hostname, pid, startedAtMs } = stats;
  return {
    topology,
    facts: {
      version,
      instanceId,
      hostname,
      pid,
      startedAtMs: Date.now() - process.uptime() * 1000,
      startedAtMonotonicMs: startedAtMs,
      descriptorsMax: descriptorLimit(),
      options: {
        compat,
        binlog: binlog ?? null,
        // JSON has no Infinity.
        fsyncMs: Number.isFinite(fsyncMs) ? fsyncMs : null,
        binlogBytes,
        placement,
        logLevel,
      },
    },
    stats,
    address,
    also: httpAlso,
    hosts: httpHosts,
    metrics: { tubesMax: metricsTubesMax, tubes: metricsTubes },
    nice: httpNice,
    rules,
    historyFolder: binlog,
  };
}

async function listeningOf(handle: HttpThreadHandle, address: HttpAddress): Promise<string> {
  const news = await handle.listening;
  if (news.news === "listening") return news.where;
  if (news.news !== "failed") throw cannotListen(address, true, news.news);
  // The address from the other thread is a copy, so compare its text.
  const isFirst = describeHttpAddress(news.address) === describeHttpAddress(address);
  throw cannotListen(isFirst ? address : news.address, isFirst, news.message);
}

function cannotListen(where: HttpAddress, isFirst: boolean, why: string): OperatorError {
  const other = isFirst ? "--http HOST:PORT" : "listen of [[http.also]]";
  return new OperatorError(
    `cannot listen for HTTP on ${describeHttpAddress(where)}: ${why}; choose another address: ${other}`,
    ExitCode.Listen,
  );
}
