// Start of the threads that serve: shards, and acceptors with the shards and the log beside them.

import { randomInt } from "node:crypto";
import type { Logger } from "pino";
import type { AcceptorNews, AcceptorSettings, TransportKind } from "../acceptor/acceptor.ts";
import type { AccessRules } from "../acceptor/admission/listener-policy.ts";
import type { ProcessFacts } from "../acceptor/state/stats-text.ts";
import { type WaitSettings, waitingOf } from "../loop/waiting-policy.ts";
import type { Topology } from "../message/topology.ts";
import { CONNECTION_COUNTS_BYTES } from "../ring/connection-words.ts";
import type { ShardRuntimeOptions } from "../shard/shard-runtime.ts";
import {
  type AcceptorHandle,
  type OnThreadDeath,
  type RecoveryChannels,
  startAcceptors,
  startShard,
} from "../threads/start-threads.ts";
import type { LogWorkerData } from "../threads/thread.ts";
import { descriptorLimit } from "./lifecycle/process.ts";
import { ExitCode, OperatorError } from "./options/operator-error.ts";
import type { Options } from "./options/options.ts";
import type { ChosenPlacement } from "./server-plan.ts";

type Recovery = RecoveryChannels["toShards"];

interface ServingThreadsOptions {
  readonly options: Options;
  readonly topology: Topology;
  readonly placement: ChosenPlacement;
  readonly log: Logger;
  readonly onDeath: OnThreadDeath;
}

/** Inputs of acceptors besides the options. */
interface AcceptorsStart {
  readonly facts: ProcessFacts;
  readonly rules: AccessRules;
  /** The log of the serving thread, if it runs there. */
  readonly residentLog: LogWorkerData | undefined;
  readonly onNews: (news: AcceptorNews) => void;
}

export class ServingThreads {
  readonly #options: ServingThreadsOptions;
  readonly #waiting: WaitSettings;

  constructor(options: ServingThreadsOptions) {
    this.#options = options;
    const { cores, threads, hasResidentLog } = options.placement;
    const hasLogThread = options.options.binlog !== undefined && !hasResidentLog;
    this.#waiting = waitingOf({ cores, threads, hasLog: hasLogThread });
  }

  /** Starts the shards with threads of their own. The promises resolve when they take messages. */
  startShards(recovery: Recovery): Promise<unknown>[] {
    const { topology, onDeath } = this.#options;
    const waiting = this.#waiting;
    return topology.threads
      .filter(({ acceptors }) => acceptors.length === 0)
      .flatMap(({ shards }) => shards)
      .map((shard) => {
        const port = recovery[shard];
        return startShard({ ...this.#shardOptions(shard, recovery), recovery: port, waiting }, onDeath);
      });
  }

  #shardOptions(shard: number, recovery: Recovery): ShardRuntimeOptions {
    const { topology, options } = this.#options;
    const quoteNames = options.compat === "1.13";
    return { topology, shard, quoteNames, recovery: recovery[shard], tubes: options.tubes };
  }

  /** Returns the acceptors by number. Call `transportOf` before they serve. */
  startAcceptors(recovery: Recovery, start: AcceptorsStart): AcceptorHandle[] {
    const { topology, options, onDeath } = this.#options;
    const { residentLog, onNews, ...given } = start;
    const { verbose, transport } = options;
    const descriptorsMax = descriptorLimit();
    const settings = {
      ...given,
      topology,
      verbose,
      descriptorsMax,
      transport,
      waiting: this.#waiting,
      connectionCounts: connectionCountsFor(options),
    };
    return topology.threads
      .flatMap(({ acceptors, shards }, thread) => {
        if (acceptors.length === 0) return [];
        const residents = shards.map((shard) => this.#shardOptions(shard, recovery));
        const data = { ...settings, thread, residents, log: residentLog };
        const handles = startAcceptors(data, onDeath, onNews);
        return acceptors.map((acceptor, index) => ({ acceptor, handle: handles[index]! }));
      })
      .sort((a, b) => a.acceptor - b.acceptor)
      .map(({ handle }) => handle);
  }

  /**
   * Resolves with the name of the transport once all acceptors accept orders. Throws an
   * OperatorError if io_uring is required but not available.
   */
  async transportOf(acceptors: readonly AcceptorHandle[]): Promise<TransportKind> {
    const { topology, options, log } = this.#options;
    const refusals: string[] = [];
    for (const news of await Promise.all(acceptors.map((acceptor) => acceptor.ready()))) {
      if (news.news === "failed") {
        throw new OperatorError(
          `--transport io_uring: ${news.message}; --transport libuv works everywhere`,
          ExitCode.Transport,
        );
      }
      if (news.news === "ready" && news.refusal !== undefined) refusals.push(news.refusal);
    }
    const refused = refusals.length;
    if (refused > 0) {
      const where =
        refused < topology.acceptors ? `by ${refused} of ${topology.acceptors} acceptors` : "here";
      log.info(
        `io_uring is not available ${where} (${refusals[0]}): using libuv, which takes a third more CPU; choose it with --transport libuv to silence this line`,
      );
    }
    return options.transport === "libuv" || refused === topology.acceptors ? "libuv" : "io_uring";
  }
}

/** Counts connections from the start if a reload may limit them later. */
function connectionCountsFor({ config, limits }: Options): AcceptorSettings["connectionCounts"] {
  const isLimited = Math.min(limits.connections, limits.perAddress) < Number.POSITIVE_INFINITY;
  if (config === undefined && !isLimited) return undefined;
  return { buffer: new SharedArrayBuffer(CONNECTION_COUNTS_BYTES), seed: randomInt(2 ** 31) };
}
