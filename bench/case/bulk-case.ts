// Case of commands for a million jobs of a tube, and the delay of other clients: list-jobs to its
// end, with and without a text search, and clear-tube.
import { setTimeout as sleep } from "node:timers/promises";
import { Latency } from "../load/latency.ts";
import type { Address } from "../load/load-source.ts";
import { WORKLOAD_DEFAULTS } from "../load/workload.ts";
import type { Figures } from "../result/figures.ts";
import { wholeReply } from "../server/ask.ts";
import { ServerRefused } from "../server/contender.ts";
import { Asker } from "./asker.ts";
import { type BenchCase, startFlags } from "./bench-case.ts";
import { fill } from "./fill.ts";

const BULK_TIMEOUT_MS = 300_000;
/** The tube of a load with one tube. */
const TUBE = "bench-0";
/**
 * How long the others are watched before anything begins: what they wait then is the machine's
 * doing.
 */
const QUIET_MS = 2000;

export function bulkCase(jobs: number): BenchCase {
  return {
    key: `bulk-${jobs}`,
    title: `list, search and clear ${jobs} jobs, and what others wait meanwhile`,
    group: "bulk",
    workload: { ...WORKLOAD_DEFAULTS, scenario: "put", jobs },
    headline: "clearSeconds",
    turnsMax: 3,
    async measure(context) {
      const server = await context.contender.start(startFlags(context));
      try {
        await fill(context.load, server.address, jobs);
        return await measureBulk(server.address, jobs);
      } finally {
        await server.stop();
      }
    },
  };
}

async function measureBulk(address: Address, jobs: number): Promise<{ figures: Figures; latency: Latency }> {
  const bulk = await Asker.open(address, BULK_TIMEOUT_MS);
  const others = await Asker.open(address, BULK_TIMEOUT_MS);
  const probe = new Probe(others);
  try {
    await sleep(QUIET_MS);
    const quietMax = probe.takeMax();
    const [listSeconds, listed] = await timed(() => listAll(bulk, "limit=1000"));
    if (listed !== jobs) throw new Error(`${listed} of ${jobs} jobs were listed`);
    const listMax = probe.takeMax();
    const [searchSeconds, found] = await timed(() => listAll(bulk, "limit=1000 contains=nowhere"));
    if (found !== 0) throw new Error(`${found} jobs have a text that none has`);
    const searchMax = probe.takeMax();
    const [clearSeconds, cleared] = await timed(() => bulk.ask(`clear-tube ${TUBE}\r\n`, wholeReply));
    if (cleared !== `CLEARED ${jobs}`) throw new Error(`a clear of ${jobs} jobs was answered ${cleared}`);
    const clearMax = probe.takeMax();
    return {
      figures: { listSeconds, searchSeconds, clearSeconds, quietMax, listMax, searchMax, clearMax },
      latency: probe.latency,
    };
  } finally {
    await probe.stop();
    bulk.close();
    others.close();
  }
}

async function timed<Result>(run: () => Promise<Result>): Promise<[seconds: number, Result]> {
  const startedAt = performance.now();
  const result = await run();
  return [(performance.now() - startedAt) / 1000, result];
}

/** Walks a whole tube; how many jobs were listed. */
async function listAll(bulk: Asker, options: string): Promise<number> {
  let listed = 0;
  for (let after = 0; ; ) {
    const reply = await bulk.ask(`list-jobs ${TUBE} ${options} after=${after}\r\n`, wholeReply);
    if (reply === "UNKNOWN_COMMAND") throw new ServerRefused("it has no list-jobs");
    const [, next] = /^next: (\d+)$/m.exec(reply) ?? [];
    if (next === undefined) throw new Error(`a list was answered ${reply.slice(0, 100)}`);
    listed += reply.split("\n- {").length - 1;
    if (next === "0") return listed;
    after = Number(next);
  }
}

/**
 * A client that asks for the statistics of the tube again and again, one at a time, and remembers
 * what it waits.
 */
class Probe {
  readonly latency = new Latency();
  readonly #asker: Asker;
  #max = 0;
  #stopped = false;
  readonly #done: Promise<void>;

  constructor(asker: Asker) {
    this.#asker = asker;
    this.#done = this.#run();
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const startedAt = performance.now();
      await this.#asker.ask(`stats-tube ${TUBE}\r\n`, wholeReply);
      const micros = (performance.now() - startedAt) * 1000;
      this.latency.record(micros, 1);
      this.#max = Math.max(this.#max, micros);
    }
  }

  /** The longest wait since the last call, us. */
  takeMax(): number {
    const max = this.#max;
    this.#max = 0;
    return max;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#done;
  }
}
