// The command line of the bench.
import { availableParallelism } from "node:os";
import { Command, InvalidArgumentError } from "commander";

export interface BenchOptions {
  readonly scenario?: string[];
  readonly connections?: number[];
  readonly pipeline?: number[];
  readonly body?: number[];
  readonly tubes?: number[];
  readonly watchers?: number;
  readonly rate?: number[];
  readonly jobs?: number;
  readonly seconds?: number;
  readonly warmup?: number;
  readonly turns: number;
  readonly shards?: number;
  readonly acceptors?: number;
  readonly transport?: string[];
  readonly binlog?: string;
  readonly fsync?: string;
  readonly ours: string | false;
  /** Commands, each with a name of its own where it is written as name=command. */
  readonly theirs: readonly string[] | false;
  readonly target?: string[];
  /** Busy loops beside the servers; absent: none but those of a case. */
  readonly burn?: number;
  readonly quick: boolean;
  readonly profile: boolean;
  readonly json?: string;
  readonly report?: string;
  readonly record: boolean;
  readonly generators: number;
}

/** `args` is without program and script. */
export function parseOptions(program: string, about: string, args = process.argv.slice(2)): BenchOptions {
  const command = new Command(program)
    .description(about)
    .option(
      "--scenario <names>",
      "default, quick, readme, placement, everyday, all, or names with commas between (see bench/README.md)",
      words,
    )
    .option("--connections <n,..>", "client connections", numbers)
    .option("--pipeline <n,..>", "commands a connection sends before it waits", numbers)
    .option("--body <bytes,..>", "size of a job's body", numbers)
    .option("--tubes <n,..>", "number of tubes", numbers)
    .option("--watchers <n>", "of `tubes`: clients that watch all tubes", positiveNumber)
    .option("--rate <n,..>", "commands/s of all connections together (as fast as replies come)", numbers)
    .option(
      "--jobs <n>",
      "of memory, start, backlog, bulk, batch, unique, members, schedules and standing: how many",
      positiveNumber,
    )
    .option("--seconds <s>", "length of the measured part of a turn", positiveNumber)
    .option("--warmup <s>", "part of a turn before that, which isn't measured", positiveNumber)
    .option("--turns <n>", "turns of each server, one after the other in alternation", positiveNumber, 3)
    .option("--shards <n>", "given to our server", positiveNumber)
    .option("--acceptors <n>", "given to our server", positiveNumber)
    .option("--transport <kinds>", "given to our server; with libuv,io_uring both are measured", words)
    .option("--binlog <dir>", "both servers keep a log, in a new directory under this one")
    .option("--fsync <ms>", "with --binlog: milliseconds between syncs, 0: before each reply, or `never`")
    .option("--ours <command>", "starts our server; -l -p -z -b -f are added")
    .option("--no-ours", "leave our server out")
    .option(
      "--theirs <[name=]command>",
      "starts a server to compare with; given several times, all are measured (beanstalkd)",
      another,
    )
    .option("--no-theirs", "compare with nothing")
    .option(
      "--target <host:port,..>",
      "compare with a server that runs already, instead of beanstalkd",
      words,
    )
    .option(
      "--burn <n>",
      "busy loops beside server and load, as many processes: a machine that others use too",
      wholeNumber,
    )
    .option("--quick", "three cases in 20 s, with servers that have just started", false)
    .option("--profile", "our server only: CPU time by thread role, batches, CPU profiles, projection", false)
    .option(
      "--generators <n>",
      "threads that make the load",
      positiveNumber,
      Math.max(1, Math.min(4, availableParallelism() >> 1)),
    )
    .option("--json <file>", "append a line of JSON per case to a file")
    .option("--record", "append it to bench/results/results.jsonl", false)
    .option("--report <file>", "write a page of HTML with figures and curves")
    .allowExcessArguments(false)
    .parse(args, { from: "user" });
  const options = command.opts<Omit<BenchOptions, "ours" | "theirs"> & Partial<BenchOptions>>();
  return { ...options, ours: options.ours ?? "", theirs: options.theirs ?? ["beanstalkd"] };
}

/** Of an option; also takes 100_000. */
export function positiveNumber(text: string): number {
  const value = Number(text.replaceAll("_", ""));
  if (!(value > 0) || !Number.isFinite(value))
    throw new InvalidArgumentError("A number above 0 is expected.");
  return value;
}

function wholeNumber(text: string): number {
  const value = positiveNumber(text);
  if (!Number.isInteger(value)) throw new InvalidArgumentError("A whole number is expected.");
  return value;
}

/** Of an option that may be given several times. */
function another(text: string, before: readonly string[] | false | undefined): string[] {
  return [...(before || []), text];
}

function numbers(text: string): number[] {
  return text.split(",").map((part) => {
    const value = Number(part);
    if (part === "" || !Number.isInteger(value) || value < 0)
      throw new InvalidArgumentError("Whole numbers are expected.");
    return value;
  });
}

export function words(text: string): string[] {
  return text.split(",").map((part) => part.trim());
}
