// Case of the cost of unique keys: puts into the used tube, into a named one, and with a key, in
// turns on one server; and the memory of a key that outlives its job.
import { NO_MARKS } from "../load/load-source.ts";
import type { ScenarioName } from "../load/programs.ts";
import { WORKLOAD_DEFAULTS, type Workload } from "../load/workload.ts";
import type { Figures } from "../result/figures.ts";
import { spreadOf } from "../result/measurement.ts";
import { wholeReply } from "../server/ask.ts";
import { type RunningServer, ServerRefused } from "../server/contender.ts";
import { preciseCpuSeconds, processUsage } from "../server/process-usage.ts";
import { Asker } from "./asker.ts";
import { type BenchCase, startFlags, type TurnContext } from "./bench-case.ts";

const CONNECTIONS = 50;
/** Counted ones; V8 compiles in one before them. */
const ROUNDS = 7;
const KINDS = ["put", "put-in-tube", "put-unique"] as const;
const SECONDS_MAX = 120;

/**
 * CPU of the server for each command, us: of the puts, and of taking and deleting what they left.
 */
interface Costs {
  readonly put: number[];
  readonly drain: number[];
}

export function uniqueCase(pipeline: number, jobs: number): BenchCase {
  const jobsOfRound = Math.ceil(jobs / (pipeline === 1 ? 20 : 5));
  return {
    key: `unique-${CONNECTIONS}x${pipeline}-${jobs}`,
    title: `puts with a unique key, ${CONNECTIONS} x ${pipeline}; ${jobs} remembered`,
    group: "unique",
    workload: { ...WORKLOAD_DEFAULTS, scenario: "put-unique", connections: CONNECTIONS, pipeline, jobs },
    headline: "uniqueRatio",
    turnsMax: 3,
    async measure(context) {
      if (!context.contender.canStart)
        throw new ServerRefused("the CPU time of a server elsewhere can't be seen");
      const server = await context.contender.start(startFlags(context));
      try {
        await assertExtended(server);
        const workload = { ...WORKLOAD_DEFAULTS, connections: CONNECTIONS, pipeline, jobs: jobsOfRound };
        const costs = await costsOf(server, workload, context);
        const bytesPerKey = await memoryOfKeys(server, jobs, context);
        return { figures: { ...costFigures(costs), bytesPerKey } };
      } finally {
        await server.stop();
      }
    },
  };
}

async function assertExtended({ address }: RunningServer): Promise<void> {
  const asker = await Asker.open(address);
  const reply = await asker.ask("extensions\r\n", wholeReply);
  asker.close();
  if (reply === "UNKNOWN_COMMAND") throw new ServerRefused("it has no put-in-tube");
}

async function costsOf(server: RunningServer, workload: Workload, context: TurnContext): Promise<Costs[]> {
  const costs: Costs[] = KINDS.map(() => ({ put: [], drain: [] }));
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [kind, scenario] of KINDS.entries()) {
      const put = await cpuOf(server, { ...workload, scenario }, context);
      const drain = await cpuOf(server, drainOf(workload), context);
      if (round === 0) continue;
      costs[kind]!.put.push(put);
      costs[kind]!.drain.push(drain);
    }
  }
  return costs;
}

/** CPU of the server for each command of a run, us. */
async function cpuOf(server: RunningServer, workload: Workload, { load }: TurnContext): Promise<number> {
  let begin = 0;
  let end = 0;
  const cpuSeconds = (): number => preciseCpuSeconds(server.pid!);
  const { commands } = await load.run(
    server.address,
    { ...workload, seconds: SECONDS_MAX, warmupSeconds: 0 },
    {
      begin: () => {
        begin = cpuSeconds();
      },
      end: () => {
        end = cpuSeconds();
      },
    },
  );
  return ((end - begin) * 1e6) / commands;
}

const drainOf = (workload: Workload): Workload => ({ ...workload, scenario: "drain", jobs: 0 });

function costFigures([plain, named, unique]: readonly Costs[]): Figures {
  const ratio = (of: keyof Costs): number =>
    spreadOf(unique![of].map((cost, round) => cost / plain![of][round]!)).median;
  const median = (costs: readonly number[]): number => spreadOf(costs).median;
  return {
    putCpu: median(plain!.put),
    namedPutCpu: median(named!.put),
    uniquePutCpu: median(unique!.put),
    uniqueRatio: ratio("put"),
    drainCpu: median(plain!.drain),
    uniqueDrainCpu: median(unique!.drain),
  };
}

/**
 * By how much the memory grows that a server has after its jobs are gone, if their keys are
 * remembered.
 */
async function memoryOfKeys(server: RunningServer, jobs: number, { load }: TurnContext): Promise<number> {
  const through = async (scenario: ScenarioName): Promise<number> => {
    const workload = {
      ...WORKLOAD_DEFAULTS,
      connections: 20,
      pipeline: 50,
      seconds: SECONDS_MAX,
      warmupSeconds: 0,
    };
    const { inserted } = await load.run(server.address, { ...workload, scenario, jobs }, NO_MARKS);
    if (inserted !== jobs) throw new Error(`only ${inserted} of ${jobs} jobs were put in ${SECONDS_MAX} s`);
    await load.run(server.address, drainOf(workload), NO_MARKS);
    return processUsage(server.pid!).residentBytes;
  };
  // With keys that end with their jobs: what these leave behind is no memory of keys.
  const without = await through("put-unique");
  return ((await through("put-remembered")) - without) / jobs;
}
