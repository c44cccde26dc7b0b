// Case of jobs through workers: one hundred by reserve-batch and delete-batch, against as many
// pipelined single commands.
import type { Address, LoadSource, TakenBatches } from "../load/load-source.ts";
import { WORKLOAD_DEFAULTS } from "../load/workload.ts";
import type { Figures } from "../result/figures.ts";
import { ServerRefused } from "../server/contender.ts";
import { processUsage } from "../server/process-usage.ts";
import { Asker, firstLines } from "./asker.ts";
import { type BenchCase, startFlags } from "./bench-case.ts";

const WORKERS = 50;
const BATCH = 100;
/** On several shards most of these are on different ones; each worker watches all. */
const TUBES = 8;
const BODY = "x".repeat(8);

export function batchCase(jobs: number): BenchCase {
  return {
    key: `batch-${jobs}`,
    title: `${jobs} jobs through ${WORKERS} workers, ${BATCH} at a time`,
    group: "batch",
    workload: { ...WORKLOAD_DEFAULTS, scenario: "put-reserve-delete", jobs, connections: WORKERS },
    headline: "batchJobsPerSecond",
    turnsMax: 5,
    async measure(context) {
      const server = await context.contender.start(startFlags(context));
      try {
        const cpuSeconds = (): number => (server.pid === undefined ? 0 : processUsage(server.pid).cpuSeconds);
        return { figures: await measureBatches(server.address, jobs, cpuSeconds, context.load) };
      } finally {
        await server.stop();
      }
    },
  };
}

async function measureBatches(
  address: Address,
  jobs: number,
  cpuSeconds: () => number,
  load: LoadSource,
): Promise<Figures> {
  const workers = await Promise.all(Array.from({ length: WORKERS }, () => Worker.open(address)));
  try {
    const [asked] = await workers[0]!.ask("extensions\r\n", 1);
    if (asked === "UNKNOWN_COMMAND") throw new ServerRefused("it has no reserve-batch");
    const watches = Array.from({ length: TUBES }, (_, tube) => `watch bench-${tube}\r\n`).join("");
    for (const worker of workers) await worker.ask(watches, TUBES);
    const rateOf = (isSingle: boolean): Promise<number> =>
      load.takeBatches === undefined
        ? through(workers, jobs, (worker) => (isSingle ? worker.takeSingly() : worker.takeBatch()))
        : rateOfTaken(
            jobs,
            load.takeBatches(address, { connections: WORKERS, batch: BATCH, tubes: TUBES, isSingle }),
          );
    const measure = async (isSingle: boolean): Promise<[rate: number, cpu: number]> => {
      await fill(workers[0]!, jobs);
      const before = cpuSeconds();
      const rate = await rateOf(isSingle);
      return [rate, ((cpuSeconds() - before) * 1e6) / jobs];
    };
    // An uncounted run first: V8 compiles during it, at the expense of the first contender.
    await measure(true);
    await measure(false);
    const [singlesPerSecond, singlesCpu] = await measure(true);
    const [batchJobsPerSecond, batchCpu] = await measure(false);
    return { singlesPerSecond, singlesCpu, batchJobsPerSecond, batchCpu };
  } finally {
    for (const worker of workers) worker.close();
  }
}

async function fill(worker: Worker, jobs: number): Promise<void> {
  for (let left = jobs; left > 0; left -= 1000) {
    const puts = Array.from({ length: Math.min(left, 1000) }, (_, index) => {
      return `put-in-tube bench-${index % TUBES} 0 0 600 ${BODY.length}\r\n${BODY}\r\n`;
    });
    await worker.ask(puts.join(""), puts.length);
  }
}

async function rateOfTaken(wanted: number, taking: Promise<TakenBatches>): Promise<number> {
  const { jobs, seconds } = await taking;
  if (jobs !== wanted) throw new Error(`${jobs} of ${wanted} jobs were done`);
  return jobs / seconds;
}

/** Has the workers take and delete all jobs; how many a second. */
async function through(
  workers: readonly Worker[],
  jobs: number,
  take: (worker: Worker) => Promise<number>,
): Promise<number> {
  const startedAt = performance.now();
  let done = 0;
  const work = async (worker: Worker): Promise<void> => {
    for (let taken = await take(worker); taken > 0; taken = await take(worker)) done += taken;
  };
  await Promise.all(workers.map(work));
  if (done !== jobs) throw new Error(`${done} of ${jobs} jobs were done`);
  return jobs / ((performance.now() - startedAt) / 1000);
}

/** One connection. */
class Worker {
  readonly #asker: Asker;

  static async open(address: Address): Promise<Worker> {
    return new Worker(await Asker.open(address));
  }

  private constructor(asker: Asker) {
    this.#asker = asker;
  }

  /** The first lines of so many replies; a batch is one reply. */
  ask(commands: string, replies: number): Promise<string[]> {
    return this.#asker.ask(commands, firstLines(replies));
  }

  /** Single commands in flight: as many as a batch has jobs. */
  async takeSingly(): Promise<number> {
    const replies = await this.ask("reserve-with-timeout 0\r\n".repeat(BATCH), BATCH);
    const ids = replies.filter((reply) => reply.startsWith("RESERVED ")).map((reply) => reply.split(" ")[1]);
    if (ids.length === 0) return 0;
    const deleted = await this.ask(ids.map((id) => `delete ${id}\r\n`).join(""), ids.length);
    return deleted.filter((reply) => reply === "DELETED").length;
  }

  async takeBatch(): Promise<number> {
    const jobs = await this.ask(`reserve-batch ${BATCH} 0\r\n`, 1);
    const ids = jobs.slice(1).map((reply) => reply.split(" ")[1]);
    if (ids.length === 0) return 0;
    const [reply] = await this.ask(`delete-batch ${ids.join(" ")}\r\n`, 1);
    return Number(reply!.split(" ")[1]);
  }

  close(): void {
    this.#asker.close();
  }
}
