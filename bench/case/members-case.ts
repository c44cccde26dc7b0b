// Case of the cost of a member of a batch against a job with a group: the CPU of its put, reserve
// and delete, in turns on one server, and its memory.
import type { Address } from "../load/load-source.ts";
import type { Figures } from "../result/figures.ts";
import { spreadOf } from "../result/measurement.ts";
import { wholeReply } from "../server/ask.ts";
import { type RunningServer, ServerRefused } from "../server/contender.ts";
import { preciseCpuSeconds, processUsage } from "../server/process-usage.ts";
import { Asker, firstLines } from "./asker.ts";
import { type BenchCase, startFlags, type TurnContext } from "./bench-case.ts";

/** Counted ones; V8 compiles in two before them. */
const ROUNDS = 7;
const WARM_ROUNDS = 2;
const KINDS = ["group", "batch"] as const;
/** Commands in flight. */
const PIPELINE = 500;
const BODY = "x".repeat(64);

type Kind = (typeof KINDS)[number];

export function membersCase(jobs: number): BenchCase {
  return {
    key: `members-${jobs}`,
    title: `members of a batch against jobs with a group, ${jobs} jobs`,
    group: "members",
    headline: "memberRatio",
    turnsMax: 3,
    async measure(context) {
      if (!context.contender.canStart)
        throw new ServerRefused("the CPU time of a server elsewhere can't be seen");
      const costs = await withServer(context, (server) => costsOf(server, Math.ceil(jobs / 10)));
      const grouped = await memoryOf(context, "group", jobs);
      return { figures: { ...costs, memberBytes: (await memoryOf(context, "batch", jobs)) - grouped } };
    },
  };
}

/** Runs something on a fresh server. */
async function withServer<Result>(
  context: TurnContext,
  run: (server: RunningServer) => Promise<Result>,
): Promise<Result> {
  const server = await context.contender.start(startFlags(context));
  try {
    return await run(server);
  } finally {
    await server.stop();
  }
}

async function costsOf({ address, pid }: RunningServer, jobs: number): Promise<Figures> {
  const producer = await Producer.open(address);
  const costs: Record<Kind, number[]> = { group: [], batch: [] };
  for (let round = 0; round < WARM_ROUNDS + ROUNDS; round++) {
    for (const kind of KINDS) {
      const name = await producer.begin(kind, round);
      const before = preciseCpuSeconds(pid!);
      await producer.put(kind, name, jobs);
      await producer.takeAll(jobs);
      if (round >= WARM_ROUNDS) costs[kind].push(((preciseCpuSeconds(pid!) - before) * 1e6) / jobs);
      if (kind === "batch") await producer.ask([`commit-batch ${name}\r\n`], "COMMITTED");
    }
  }
  producer.close();
  return {
    groupedCpu: spreadOf(costs.group).median,
    memberCpu: spreadOf(costs.batch).median,
    memberRatio: spreadOf(costs.batch.map((cost, round) => cost / costs.group[round]!)).median,
  };
}

/** Returns the memory of a job, bytes. */
function memoryOf(context: TurnContext, kind: Kind, jobs: number): Promise<number> {
  return withServer(context, async ({ address, pid }) => {
    const producer = await Producer.open(address);
    const name = await producer.begin(kind, 0);
    // Buffers and code that the first jobs bring with them.
    await producer.put(kind, name, PIPELINE);
    const before = processUsage(pid!).residentBytes;
    await producer.put(kind, name, jobs);
    const after = processUsage(pid!).residentBytes;
    producer.close();
    return (after - before) / jobs;
  });
}

/** One connection that puts and takes jobs. */
class Producer {
  readonly #asker: Asker;

  static async open(address: Address): Promise<Producer> {
    const asker = await Asker.open(address);
    if ((await asker.ask("extensions\r\n", wholeReply)) === "UNKNOWN_COMMAND")
      throw new ServerRefused("it has no put-in-tube");
    return new Producer(asker);
  }

  private constructor(asker: Asker) {
    this.#asker = asker;
  }

  /** Returns the name for the jobs of a round, after opening the batch of that name. */
  async begin(kind: Kind, round: number): Promise<string> {
    const name = `${kind}-${round}`;
    if (kind === "batch") await this.ask([`open-batch ${name}\r\n`], "OPENED");
    return name;
  }

  async put(kind: Kind, name: string, jobs: number): Promise<void> {
    const line = `put-in-tube default 0 0 600 ${BODY.length} ${kind}=${name}\r\n${BODY}\r\n`;
    await this.ask(Array(jobs).fill(line), "INSERTED ");
  }

  /** Reserves and deletes all jobs. */
  async takeAll(jobs: number): Promise<void> {
    for (let left = jobs; left > 0; left -= PIPELINE) {
      const replies = await this.ask(Array(Math.min(left, PIPELINE)).fill("reserve\r\n"), "RESERVED ");
      const deletes = replies.map((reply) => `delete ${reply.split(" ")[1]}\r\n`);
      await this.ask(deletes, "DELETED");
    }
  }

  /** Returns the first lines of the replies, each of which must begin so. */
  async ask(commands: readonly string[], expected: string): Promise<string[]> {
    const lines: string[] = [];
    for (let at = 0; at < commands.length; at += PIPELINE) {
      const some = commands.slice(at, at + PIPELINE);
      lines.push(...(await this.#asker.ask(some.join(""), firstLines(some.length))));
    }
    const wrong = lines.find((line) => !line.startsWith(expected));
    if (wrong !== undefined) throw new Error(`the reply to ${commands[0]?.trimEnd()} was ${wrong}`);
    return lines;
  }

  close(): void {
    this.#asker.close();
  }
}
