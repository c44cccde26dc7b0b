// One turn of the scale scenario: our server with a number of threads, what a command cost it, and
// what its threads had to tell each other.
import type { TurnCounts } from "../../src/message/turn-counters.ts";
import { OUR_COMMAND } from "../contenders.ts";
import { type LoadResult, type LoadSource, NO_MARKS } from "../load/load-source.ts";
import { WORKLOAD_DEFAULTS, type Workload } from "../load/workload.ts";
import { turnsIn } from "../profile/watched-run.ts";
import { ask, statOf } from "../server/ask.ts";
import { type Contender, commandContender } from "../server/contender.ts";
import { busySeconds, keepSelfTo, keptTo, usableCores } from "./cores.ts";
import { type ThreadTime, threadTimes, timesBetween } from "./thread-times.ts";

export type ScalePlacement = "together" | "apart";

export interface ScalePoint {
  readonly placement: ScalePlacement;
  /** Acceptors, and as many shards; with `together` also the threads. */
  readonly threads: number;
  readonly tubes: number;
  /** The server's cores; the generator has the others, or all where the server has all. */
  readonly cores: number;
}

/** Times are in microseconds, and all but the rate for each command. */
export interface ScaleFigures {
  readonly commandsPerSecond: number;
  /** Of the threads that serve. */
  readonly cpu: number;
  /** Of all others: most of it is V8, which compiles for each thread. */
  readonly helpers: number;
  /** Of all acceptors and of all shards; only known apart. */
  readonly acceptors: number;
  readonly shards: number;
  /** Of the thread that had most to do. */
  readonly busiest: number;
  readonly generator: number;
  /** Cores that other programs took from the server and the generator. */
  readonly taken: number;
  /** Messages that another thread wrote. */
  readonly crossed: number;
  readonly wakes: number;
  readonly sleeps: number;
  readonly turns: number;
  readonly moves: number;
}

interface ScaleLoad {
  /** For each thread: more threads are for more clients, so that a turn has as many commands. */
  readonly connections: number;
  readonly seconds: number;
  /**
   * Commands for each thread before that. Each compiles the code for itself, so that sixteen take
   * as many commands until they are fast as one does in a sixteenth of the time.
   */
  readonly warmCommands: number;
}

const REPLY_MS = 20_000;
/** Commands of each connection before those that count: after 64 it may move to another thread. */
const SETTLE_COMMANDS = 200;
/** After a warm-up that was too short to tell the rate. */
const SETTLE_SECONDS_MAX = 5;
const WARM_SECONDS_MAX = 300;
/** Put, reserve, delete. */
const COMMANDS_PER_JOB = 3;

export async function scaleRun(
  point: ScalePoint,
  { connections: each, seconds, warmCommands }: ScaleLoad,
  load: LoadSource,
): Promise<ScaleFigures> {
  const all = usableCores();
  const own = all.slice(0, point.cores);
  const others = all.slice(point.cores);
  const isKept = others.length > 0;
  const connections = each * point.threads;
  const base: Workload = { ...WORKLOAD_DEFAULTS, connections, tubes: point.tubes };
  const jobs = Math.ceil((warmCommands * point.threads) / COMMANDS_PER_JOB);
  let log = "";
  const server = await contenderOf(point, isKept ? own : [], (text) => {
    log = text;
  }).start({});
  const look = (): Look => ({ threads: threadTimes(server.pid!), busySeconds: busySeconds(all) });
  let before: Look | undefined;
  let after: Look | undefined;
  let lived = Number.NaN;
  let used: Omit<ScaleFigures, keyof Talk>;
  if (isKept) keepSelfTo(others);
  try {
    const warm = { ...base, jobs, seconds: WARM_SECONDS_MAX, warmupSeconds: 0 };
    const warmed = await load.run(server.address, warm, NO_MARKS);
    const warmRate = warmed.commands / warmed.seconds;
    const warmupSeconds = Math.min(SETTLE_SECONDS_MAX, (SETTLE_COMMANDS * connections) / warmRate);
    const measured = { ...base, seconds, warmupSeconds };
    const result = await load.run(server.address, measured, {
      begin: () => {
        before = look();
      },
      end: () => {
        after = look();
      },
    });
    lived = commandsOf(await ask(server.address, "stats", REPLY_MS));
    if (result.commands === 0) throw new Error("no reply came in the measured part");
    const generatorSeconds = (result.generatorCpuSeconds * seconds) / (seconds + warmupSeconds);
    used = {
      commandsPerSecond: result.commands / result.seconds,
      ...usageOf(before!, after!, result, generatorSeconds),
    };
  } finally {
    if (isKept) keepSelfTo(all);
    await server.stop();
  }
  return { ...used, ...talkOf(turnsIn(log), lived) };
}

interface Look {
  readonly threads: readonly ThreadTime[];
  readonly busySeconds: number;
}

function contenderOf(
  { placement, threads }: ScalePoint,
  kept: readonly number[],
  onStopped: (log: string) => void,
): Contender {
  const flags = ["--acceptors", `${threads}`, "--shards", `${threads}`, "--placement", placement];
  if (placement === "together") flags.push("--threads", `${threads}`);
  const prefix = kept.length > 0 ? keptTo(kept) : [];
  const command = [...prefix, ...OUR_COMMAND, ...flags, "--log-level", "debug"];
  return commandContender("runnerbean", command, { onStopped, isOurs: true });
}

/** Those of the load's program, from the server's start on. */
function commandsOf(stats: string): number {
  return ["put", "reserve", "delete"].reduce((sum, name) => sum + statOf(stats, `cmd-${name}`), 0);
}

type Usage = Pick<
  ScaleFigures,
  "cpu" | "helpers" | "acceptors" | "shards" | "busiest" | "generator" | "taken"
>;

function usageOf(before: Look, after: Look, result: LoadResult, generatorSeconds: number): Usage {
  const { commands, seconds } = result;
  const threads = timesBetween(before.threads, after.threads);
  const micros = (wanted: (name: string) => boolean): number =>
    threads.reduce((sum, { name, cpuSeconds }) => sum + (wanted(name) ? cpuSeconds : 0), 0) *
    (1e6 / commands);
  const acceptors = micros((name) => name.startsWith("acceptor"));
  const shards = micros((name) => name.startsWith("shard"));
  const helpers = micros(() => true) - acceptors - shards;
  const generator = generatorSeconds * (1e6 / commands);
  const all = after.busySeconds - before.busySeconds;
  const ours = ((acceptors + shards + helpers + generator) * commands) / 1e6;
  return {
    cpu: acceptors + shards,
    helpers,
    acceptors,
    shards,
    busiest: Math.max(...threads.map(({ cpuSeconds }) => cpuSeconds)) * (1e6 / commands),
    generator,
    taken: Math.max(0, (all - ours) / seconds),
  };
}

type Talk = Pick<ScaleFigures, "crossed" | "wakes" | "sleeps" | "turns" | "moves">;

/** What the threads counted in their whole life, in which they served this many commands. */
function talkOf(threads: readonly TurnCounts[], commands: number): Talk {
  const each = (figure: "crossed" | "wakes" | "sleeps" | "busyTurns" | "moved"): number =>
    threads.reduce((sum, thread) => sum + thread[figure], 0) / commands;
  return {
    crossed: each("crossed"),
    wakes: each("wakes"),
    sleeps: each("sleeps"),
    turns: each("busyTurns"),
    moves: each("moved"),
  };
}
