// Bare Fastify server as a baseline: takes a small JSON POST and answers with a number. Prints its
// port when it listens.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import autocannon, { type RequestOf, type Result } from "autocannon";
import Table from "cli-table3";
import { Command } from "commander";
import { Packr } from "msgpackr";
import { positiveNumber } from "../options.ts";

interface HttpBenchOptions {
  readonly seconds: number;
  readonly warmup: number;
  readonly turns: number;
  readonly case?: string;
}

interface HttpCase {
  readonly name: string;
  /** Jobs, or things done, in one request. */
  readonly unit: number;
  readonly connections: number;
  readonly pipelining: number;
  readonly requests: readonly RequestOf[];
  /** Contenders that it is for. */
  readonly on: readonly Contender[];
  /** Jobs that are there before. */
  readonly fill?: number;
}

type Contender = "bare fastify" | "ours" | "ours -f 0";

const packr = new Packr({ useRecords: false });
const PATH = "/v1/tubes/bench/jobs";
const JSON_TYPE = { "content-type": "application/json" };
const MSGPACK_TYPE = { "content-type": "application/vnd.msgpack", accept: "application/vnd.msgpack" };
const ALL: readonly Contender[] = ["bare fastify", "ours", "ours -f 0"];
const OURS: readonly Contender[] = ["ours", "ours -f 0"];

const post = (path: string, headers: Record<string, string>, body: string | Buffer): RequestOf => ({
  method: "POST",
  path,
  headers,
  body,
});
const text = (bytes: number): string => "x".repeat(bytes);
const batch = (count: number, bytes: number): { jobs: { body: string | Buffer }[] } => ({
  jobs: Array.from({ length: count }, () => ({ body: text(bytes) })),
});
const single = post(PATH, JSON_TYPE, JSON.stringify({ body: text(64) }));
const many = (count: number, bytes: number): RequestOf =>
  post(PATH, JSON_TYPE, JSON.stringify(batch(count, bytes)));
const packed = (count: number, bytes: number): RequestOf => {
  const jobs = Array.from({ length: count }, () => ({ body: Buffer.alloc(bytes, "x") }));
  return post(PATH, MSGPACK_TYPE, packr.pack({ jobs }));
};

/** Reserves `count` jobs, then deletes them in one request. */
function work(count: number): RequestOf[] {
  const reserve: RequestOf = {
    ...post("/v1/reserve", JSON_TYPE, JSON.stringify({ tubes: ["bench"], max: count, wait: 0 })),
    onResponse(_status, body, context) {
      context["leases"] = (JSON.parse(body) as { jobs: { lease: string }[] }).jobs.map(({ lease }) => lease);
    },
  };
  const finish: RequestOf = {
    ...post("/v1/leases", JSON_TYPE, ""),
    setupRequest: (request, context) => ({
      ...request,
      body: JSON.stringify({ delete: context["leases"] ?? [] }),
    }),
  };
  return [reserve, finish];
}

const CASES: readonly HttpCase[] = [
  { name: "put, 50 x 1, 64 B", unit: 1, connections: 50, pipelining: 1, requests: [single], on: ALL },
  { name: "put, 50 x 10, 64 B", unit: 1, connections: 50, pipelining: 10, requests: [single], on: ALL },
  {
    name: "put 100 at once, JSON, 64 B",
    unit: 100,
    connections: 50,
    pipelining: 1,
    requests: [many(100, 64)],
    on: OURS,
  },
  {
    name: "put 100 at once, MessagePack, 64 B",
    unit: 100,
    connections: 50,
    pipelining: 1,
    requests: [packed(100, 64)],
    on: OURS,
  },
  {
    name: "put 100 at once, JSON, 4 KiB",
    unit: 100,
    connections: 10,
    pipelining: 1,
    requests: [many(100, 4096)],
    on: ["ours"],
  },
  {
    name: "put 100 at once, MessagePack, 4 KiB",
    unit: 100,
    connections: 10,
    pipelining: 1,
    requests: [packed(100, 4096)],
    on: ["ours"],
  },
  {
    name: "reserve 1, delete 1",
    unit: 0.5,
    connections: 50,
    pipelining: 1,
    requests: work(1),
    on: OURS,
    fill: 150_000,
  },
  {
    name: "reserve 10, delete 10",
    unit: 5,
    connections: 50,
    pipelining: 1,
    requests: work(10),
    on: OURS,
    fill: 300_000,
  },
];

export async function httpBench(args: readonly string[]): Promise<void> {
  const options = new Command("npm run bench --")
    .description("Measures the HTTP side beside a bare fastify.")
    .option("--scenario <name>", "http")
    .option("--seconds <n>", "of a turn", positiveNumber, 4)
    // Both servers reach their speed after three or four seconds; before that it is the compiler's
    // that is measured.
    .option("--warmup <s>", "before a turn, which isn't measured", positiveNumber, 4)
    .option("--turns <n>", "of each in each case", positiveNumber, 5)
    .option("--case <words>", "only cases whose names have these words in them")
    .parse(args as string[], { from: "user" })
    .opts<HttpBenchOptions>();
  const cases = CASES.filter(({ name }) => name.includes(options.case ?? ""));
  const medians = new Map<string, Map<Contender, number>>();
  const table = new Table({
    head: ["case", ...ALL, "p99 ours, ms"],
    style: { head: [], border: [], compact: true },
  });
  for (const each of cases) {
    const rates = new Map<Contender, number[]>();
    const p99: number[] = [];
    for (let turn = 0; turn < options.turns; turn++) {
      for (const contender of each.on) {
        const result = await measure(each, contender, options);
        const before = rates.get(contender) ?? [];
        rates.set(contender, [...before, (result.requests.total * each.unit) / result.duration]);
        if (contender === "ours") p99.push(result.latency.p99);
      }
    }
    const found = new Map(Array.from(rates, ([contender, values]) => [contender, median(values)]));
    medians.set(each.name, found);
    const cells = ALL.map((contender) =>
      found.has(contender) ? `${Math.round(found.get(contender)!)}/s` : "",
    );
    table.push([each.name, ...cells, median(p99).toFixed(1)]);
  }
  console.log(table.toString());
  for (const line of goals(medians)) console.log(line);
}

/** Starts the contender afresh, and loads it. A wrong answer is a failure, never a fast one. */
async function measure(
  each: HttpCase,
  contender: Contender,
  { seconds, warmup }: HttpBenchOptions,
): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), "http-bench-"));
  const { url, child } = await start(contender, folder);
  try {
    if (each.fill !== undefined) await fill(url, each.fill);
    const load = { url, connections: each.connections, pipelining: each.pipelining, requests: each.requests };
    await autocannon({ ...load, duration: warmup });
    const result = await autocannon({ ...load, duration: seconds });
    if (result.non2xx > 0 || result.errors > 0)
      throw new Error(`${each.name}, ${contender}: ${result.non2xx} wrong answers, ${result.errors} errors`);
    return result;
  } finally {
    child.kill();
    await new Promise((resolve) => child.once("exit", resolve));
    rmSync(folder, { recursive: true, force: true });
  }
}

async function fill(url: string, jobs: number): Promise<void> {
  const body = JSON.stringify(batch(1000, 64));
  for (let put = 0; put < jobs; put += 1000)
    await fetch(`${url}${PATH}`, { method: "POST", headers: JSON_TYPE, body });
}

async function start(contender: Contender, folder: string): Promise<{ url: string; child: ChildProcess }> {
  const file = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
  const log = contender === "ours -f 0" ? ["-b", folder, "-f", "0"] : [];
  const ours = [file("../../src/server/main.ts"), "-p", "0", "--http", "127.0.0.1:0", ...log];
  const args = contender === "bare fastify" ? [file("bare-fastify.ts")] : ours;
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  const url = await new Promise<string>((resolve, reject) => {
    let said = "";
    const hear = (chunk: Buffer): void => {
      said += chunk.toString();
      const found = /(http:\/\/127\.0\.0\.1:[0-9]+) with/.exec(said)?.[1];
      if (found !== undefined) resolve(found);
    };
    child.stdout!.on("data", hear);
    child.stderr!.on("data", hear);
    child.once("exit", () => reject(new Error(`${contender} has ended: ${said}`)));
  });
  return { url, child };
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length === 0 ? Number.NaN : sorted[sorted.length >> 1]!;
}

/** What the figures are to be at least. */
function goals(medians: ReadonlyMap<string, ReadonlyMap<Contender, number>>): string[] {
  const of = (name: string, contender: Contender): number => medians.get(name)?.get(contender) ?? Number.NaN;
  const [put, , json64, , json4k, packed4k, workOne, workTen] = CASES.map(({ name }) => name) as [
    ...(readonly string[]),
  ] as string[];
  const goal = (what: string, ratio: number, least: number): string =>
    `${ratio >= least ? "yes" : "NO "}  ${what}: ${ratio.toFixed(2)} (at least ${least})`;
  const all = [
    goal("put 50 x 1, of a bare fastify", of(put!, "ours") / of(put!, "bare fastify"), 0.6),
    goal("put 50 x 1 with -f 0, of a bare fastify", of(put!, "ours -f 0") / of(put!, "bare fastify"), 0.5),
    goal("put 100 at once, of one by one", of(json64!, "ours") / of(put!, "ours"), 10),
    goal("4 KiB in MessagePack, of JSON", of(packed4k!, "ours") / of(json4k!, "ours"), 1.3),
    goal("reserve and delete 10, of one by one", of(workTen!, "ours") / of(workOne!, "ours"), 5),
  ];
  // What was not measured is no number.
  return all.filter((line) => !line.includes("NaN"));
}
