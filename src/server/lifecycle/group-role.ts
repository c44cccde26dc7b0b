// The main thread's part in a group: starts the group's thread, waits until this server may serve,
// and ends the process when it may no longer.

import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import type { GroupMembers } from "../../message/group.ts";
import type { Topology } from "../../message/topology.ts";
import { readGroupUrl } from "../../replica/group-url.ts";
import type { GroupEnd, NodeNews } from "../../replica/node-state.ts";
import type { GroupThreadData, NodeOrder } from "../../replica/thread.ts";
import { type OnThreadDeath, startGroup } from "../../threads/start-threads.ts";
import { ExitCode, OperatorError, operatorFault } from "../options/operator-error.ts";
import type { Options } from "../options/options.ts";
import { LOG_VERSION, VERSION } from "../options/program.ts";

/** Time for which an orderly shutdown waits until the shared log acknowledges the last changes. */
const DRAIN_MS_MAX = 3000;

/** Exit code and next step for each way to end. */
const ENDS: Readonly<Record<GroupEnd, { exitCode: number; code: string; next: string }>> = {
  "lost-lead": {
    exitCode: ExitCode.LeadLost,
    code: "REPLICA_LEAD_LOST",
    next: "Start it again: it follows as a standby",
  },
  "start-anew": {
    exitCode: ExitCode.LeadLost,
    code: "REPLICA_SET_ASIDE",
    next: "Start it again: it gets everything from the group",
  },
  stranger: {
    exitCode: ExitCode.BinlogDirectory,
    code: "REPLICA_STRANGER",
    next: 'Nothing was changed; this may be the only copy. Find out which copy has the jobs: "runnerbean binlog inspect DIR" on each machine shows them, "runnerbean replica status URL" shows which server leads. If the group has them, move this directory away and start again. If this copy is the right one, stop all servers of the group and run "runnerbean replica reseed URL -b DIR --yes"',
  },
  "log-lost": {
    exitCode: ExitCode.SharedLogLost,
    code: "REPLICA_LOG_LOST",
    next: 'Find the most advanced directory: "runnerbean binlog inspect DIR" on each machine shows epoch and batch. Stop all servers of the group, then run "runnerbean replica reseed URL -b DIR --yes" there',
  },
  hole: {
    exitCode: ExitCode.SharedLogLost,
    code: "REPLICA_HOLE",
    next: "Copy the directory of another node here (rsync), or reseed the group; the directories of the nodes are intact",
  },
  "log-refused": {
    exitCode: ExitCode.SharedLogLost,
    code: "REPLICA_LOG_REFUSED",
    next: "Check the URL, the credentials and TLS: runnerbean replica check URL",
  },
  "log-missing": {
    exitCode: ExitCode.SharedLogLost,
    code: "REPLICA_LOG_MISSING",
    next: 'Create it with "runnerbean replica init" if the group is new. If it was lost, stop all servers of the group and run "runnerbean replica reseed URL -b DIR --yes" on the most advanced directory: "runnerbean binlog inspect DIR" shows epoch and batch',
  },
};

interface GroupRoleOptions {
  options: Options;
  topology: Topology;
  /** Message port between the group's thread and the binlog thread. */
  port: GroupThreadData["port"];
  log: Logger;
  onDeath: OnThreadDeath;
  /** Called with the exit code when the server must end. */
  onEnd: (exitCode: number) => void;
  /** Called when another server should take the lead. */
  onYield: () => void;
  /** Receives the members of the group from time to time. */
  onMembers: (members: GroupMembers) => void;
}

export class GroupRole {
  /** Resolves when this server has the lead and may serve. */
  readonly mayServe: Promise<void>;
  readonly #options: GroupRoleOptions;
  readonly #order: (order: NodeOrder) => void;
  #onMayServe: () => void = () => {};
  #onDrained: () => void = () => {};

  constructor(options: GroupRoleOptions) {
    this.#options = options;
    this.mayServe = new Promise((resolve) => {
      this.#onMayServe = resolve;
    });
    const { topology, port } = options;
    const { replicate, replicateAs, replicateLease, port: clientPort } = options.options;
    const address = replicateAs ?? `${hostname()}:${clientPort}`;
    // Before -u takes effect: the new user may not be allowed to read the credentials.
    const url = operatorFault(() => readGroupUrl(replicate!));
    const waitsForStandby = options.options.replicateWait === "standby";
    const leaseMs = 1000 * replicateLease;
    const versions = { version: VERSION, logVersion: LOG_VERSION };
    const node = { url, address, leaseMs, waitsForStandby, ...versions };
    this.#order = startGroup({ topology, options: node, port }, options.onDeath, (news) =>
      this.#onNews(news),
    );
  }

  start(): void {
    this.#order("start");
  }

  /** Notes that clients are served from now on. */
  serves(): void {
    this.#order("serves");
  }

  /**
   * Resolves when the shared log has all changes, or after a time limit, which has the same effect
   * as a kill.
   */
  async drained(): Promise<void> {
    const drained = new Promise<void>((resolve) => {
      this.#onDrained = resolve;
    });
    this.#order("drain");
    await Promise.race([drained, sleep(DRAIN_MS_MAX, undefined, { ref: false })]);
  }

  #onNews(news: NodeNews): void {
    const { log } = this.#options;
    switch (news.news) {
      case "log":
        log[news.level](news.message);
        break;
      case "leads":
        log.info(`has the lead, epoch ${news.epoch}`);
        setTimeout(() => this.#onMayServe(), news.mayServeInMs);
        break;
      case "drained":
        this.#onDrained();
        break;
      case "yield-asked":
        log.info("was asked to give up the lead");
        this.#options.onYield();
        break;
      case "members":
        this.#options.onMembers(news);
        break;
      case "ended":
        this.#ended(news);
    }
  }

  #ended({ how, why, folder }: NodeNews & { news: "ended" }): void {
    const { exitCode, code, next } = ENDS[how];
    const where = folder === undefined ? "" : `; its files are in ${folder}`;
    const level = exitCode === ExitCode.LeadLost ? "warn" : "fatal";
    this.#options.log[level](`${code}: ${why}${where}. ${next}`);
    this.#options.onEnd(exitCode);
  }
}

/** Throws an OperatorError for options that exclude each other, and for unusable credentials. */
export function checkGroupOptions({ replicate, binlog, user, port, salvage, listen }: Options): void {
  if (replicate === undefined) return;
  const refuse = (what: string): never => {
    throw new OperatorError(`--replicate ${what}`, ExitCode.Usage);
  };
  if (binlog === undefined) refuse("needs a directory for the log: -b DIR");
  if (salvage)
    refuse(
      "and --salvage exclude each other: a log in a group must be complete. Move the directory away, and the server gets everything from the group",
    );
  if (listen.startsWith("unix:")) refuse("needs a TCP port: health checks test whether it is open");
  if (process.env["LISTEN_FDS"] !== undefined)
    refuse("and sockets of systemd exclude each other: the port may only be open while this server serves");
  if (user !== undefined && Number(port) > 0 && Number(port) < 1024)
    refuse(`and -u exclude each other for port ${port}: the server binds it only when it takes the lead`);
  operatorFault(() => readGroupUrl(replicate), "--replicate: ");
}
