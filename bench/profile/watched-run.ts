// One turn of a case on our server that also records its threads: what they used in the measured
// parts, and their own counters.
import type { TurnCounts } from "../../src/message/turn-counters.ts";
import type { BenchCase, TurnContext } from "../case/bench-case.ts";
import { ourContender } from "../contenders.ts";
import { type LoadSource, NO_MARKS } from "../load/load-source.ts";
import type { BenchOptions } from "../options.ts";
import type { Contender } from "../server/contender.ts";
import { type RoleUsage, usageBetween } from "./role-usage.ts";
import { type ThreadUsage, threadUsages } from "./thread-usage.ts";

/** Roles are told by the names of their threads, so each has one of its own. */
const FLAGS = ["--log-level", "debug", "--placement", "apart"];

export interface WatchedRun {
  /** In the measured parts. */
  readonly commands: number;
  readonly seconds: number;
  readonly commandsPerSecond: number;
  readonly roles: readonly RoleUsage[];
  /** Over the server's whole life. */
  readonly turns: readonly TurnCounts[];
  /** At the end of the measured part. */
  readonly threads: readonly ThreadUsage[];
}

/** `env` is given to the server, as for a profiler. Rejects if the case measures no load. */
export async function watchedRun(
  benchCase: BenchCase,
  options: BenchOptions,
  context: Omit<TurnContext, "contender">,
  env: Readonly<Record<string, string>> = {},
): Promise<WatchedRun> {
  let log = "";
  const watch = new Watch();
  const onStopped = (text: string): void => {
    log = text;
  };
  const contender = ourContender(options, FLAGS, { env, onStopped });
  await benchCase.measure({
    ...context,
    contender: watch.contender(contender),
    load: watch.load(context.load),
  });
  return watch.result(turnsIn(log));
}

/** Looks at the server's threads where the measured part of a load begins and ends. */
class Watch {
  #pid: number | undefined;
  #before: { readonly atMs: number; readonly threads: ThreadUsage[] } | undefined;
  #runs = 0;
  #commands = 0;
  #seconds = 0;
  #commandsPerSecond = 0;
  #threads: ThreadUsage[] = [];
  #roles: RoleUsage[] = [];

  contender(contender: Contender): Contender {
    return {
      ...contender,
      start: async (flags) => {
        const server = await contender.start(flags);
        this.#pid = server.pid;
        return server;
      },
    };
  }

  load(load: LoadSource): LoadSource {
    return {
      name: load.name,
      close: () => load.close(),
      run: async (address, workload, marks) => {
        if (marks === NO_MARKS) return load.run(address, workload, marks);
        const result = await load.run(address, workload, {
          begin: () => {
            marks.begin();
            this.#begin();
          },
          end: () => {
            this.#end();
            marks.end();
          },
        });
        this.#runs++;
        this.#commands = result.commands;
        this.#commandsPerSecond = result.commands / result.seconds;
        return result;
      },
    };
  }

  #begin(): void {
    this.#before = { atMs: performance.now(), threads: threadUsages(this.#pid!) };
  }

  #end(): void {
    this.#threads = threadUsages(this.#pid!);
    this.#seconds = (performance.now() - this.#before!.atMs) / 1000;
    this.#roles = usageBetween(this.#before!.threads, this.#threads);
  }

  result(turns: readonly TurnCounts[]): WatchedRun {
    if (this.#runs !== 1)
      throw new Error(
        "--profile takes cases that measure one load: no rate sweep, memory, start or the like.",
      );
    return {
      commands: this.#commands,
      seconds: this.#seconds,
      commandsPerSecond: this.#commandsPerSecond,
      roles: this.#roles,
      turns,
      threads: this.#threads,
    };
  }
}

/** From the line that the server says when it stops. */
export function turnsIn(log: string): TurnCounts[] {
  for (const line of log.split("\n")) {
    if (!line.includes('"threads"')) continue;
    return (JSON.parse(line) as { threads: TurnCounts[] }).threads;
  }
  throw new Error(`The server did not say what its threads did. It said:\n${log}`);
}
