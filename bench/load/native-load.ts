// Load from the generator in C: builds native-bench/ and runs `beanload`.
import { execFile, execFileSync, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Latency } from "./latency.ts";
import {
  type Address,
  type BatchWorkers,
  type LoadResult,
  type LoadSource,
  type Marks,
  METRIC_NAMES,
  type MetricName,
  type TakenBatches,
} from "./load-source.ts";
import { latencyOfBuckets } from "./native-latency.ts";
import type { Workload } from "./workload.ts";

const NATIVE_DIRECTORY = fileURLToPath(new URL("../../native-bench", import.meta.url));

interface NativeLine {
  readonly commands: number;
  readonly seconds: number;
  readonly inserted: number;
  readonly generatorCpuSeconds: number;
  readonly bucketSubBits: number;
  readonly metrics: Partial<Record<MetricName, { max: number; buckets: [lowNs: number, count: number][] }>>;
}

export class NativeLoad implements LoadSource {
  readonly name = "native";
  readonly #threads: number;

  constructor(threads: number) {
    this.#threads = threads;
    makeNative();
  }

  async run(address: Address, workload: Workload, marks: Marks): Promise<LoadResult> {
    const line = await runBeanload(
      [...addressFlags(address), ...workloadFlags(workload), "--threads", `${this.#threads}`],
      marks,
    );
    const metrics = new Map<MetricName, Latency>();
    for (const name of METRIC_NAMES) {
      const found = line.metrics[name];
      if (found) metrics.set(name, latencyOfBuckets(found.buckets, found.max, line.bucketSubBits));
    }
    return { ...line, metrics };
  }

  async takeBatches(address: Address, workers: BatchWorkers): Promise<TakenBatches> {
    const { connections, batch, tubes, isSingle } = workers;
    const numbers = { connections, batch, tubes };
    const flags = Object.entries(numbers).flatMap(([name, value]) => [`--${name}`, `${value}`]);
    const single = isSingle ? ["--single"] : [];
    const { stdout } = await promisify(execFile)(`${NATIVE_DIRECTORY}/build/batch`, [
      ...addressFlags(address),
      ...flags,
      ...single,
    ]);
    return JSON.parse(stdout) as TakenBatches;
  }

  async close(): Promise<void> {}
}

function makeNative(): void {
  try {
    execFileSync("make", ["-s", "-C", NATIVE_DIRECTORY], { stdio: ["ignore", "ignore", "pipe"] });
  } catch (error) {
    const { code, stderr } = error as { code?: string; stderr?: Buffer };
    const why = code === "ENOENT" ? "there is no make on the PATH" : `${stderr ?? error}`.trim();
    throw new Error(
      `Cannot build the load generator in native-bench/: ${why}\n` +
        "It needs make and a C compiler (gcc or clang; on Debian: apt-get install gcc make). `npm run bench` needs neither.",
    );
  }
}

function addressFlags(address: Address): string[] {
  return ["--host", address.host, "--port", `${address.port}`];
}

function workloadFlags(w: Workload): string[] {
  const flags = {
    scenario: w.scenario,
    connections: w.connections,
    watchers: w.watchers,
    pipeline: w.pipeline,
    body: w.bodyBytes,
    tubes: w.tubes,
    seconds: w.seconds,
    warmup: w.warmupSeconds,
    rate: w.rate,
    delay: w.delaySeconds,
  };
  const words = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, `${value}`]);
  if (w.processes > 0) words.push("--processes", `${w.processes}`);
  return w.jobs > 0 ? [...words, "--jobs", `${w.jobs}`] : words;
}

function runBeanload(flags: string[], marks: Marks): Promise<NativeLine> {
  const child = spawn(`${NATIVE_DIRECTORY}/build/beanload`, [...flags, "--marks"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const kill = () => child.kill();
  process.on("exit", kill);
  let output = "";
  let complaints = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    if (text.includes("mark begin")) marks.begin();
    if (text.includes("mark end")) marks.end();
    complaints += text.replace(/mark (begin|end)\n/g, "");
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      process.off("exit", kill);
      if (code === 0) resolve(JSON.parse(output) as NativeLine);
      else reject(new Error(complaints.trim() || `beanload ended with ${code}`));
    });
  });
}
