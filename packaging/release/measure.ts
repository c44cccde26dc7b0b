// Measures the times and memory of a start.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export interface Start {
  /** Time from the start of the process to the first reply to a client. */
  readonly replyMs: number;
  /** Processor time until then. */
  readonly processorMs: number;
  /** Memory after it has been idle for a while. */
  readonly residentBytes: number;
}

const STARTS = 5;
/** An idle server gives memory back within this time, ms: src/server/lifecycle/memory.ts. */
const IDLE_MS = 10_000;
/** Linux counts processor time in hundredths of a second (sysconf(_SC_CLK_TCK)). */
const TICK_MS = 10;
const PAGE = 4096;

async function start(command: readonly string[], flags: readonly string[]): Promise<Start> {
  const [program, ...args] = command;
  const startedAt = performance.now();
  const child = spawn(program!, [...args, "-p", "0", ...flags], { stdio: ["ignore", "ignore", "pipe"] });
  const exited = once(child, "exit");
  try {
    const port = await portOf(child.stderr);
    const socket = connect({ port, host: "127.0.0.1" });
    socket.write("put 0 0 60 1\r\nx\r\n");
    await once(socket, "data");
    const replyMs = performance.now() - startedAt;
    socket.destroy();
    const fields = readFileSync(`/proc/${child.pid}/stat`, "latin1").split(") ")[1]!.split(" ");
    const processorMs = (Number(fields[11]) + Number(fields[12])) * TICK_MS;
    await sleep(IDLE_MS);
    const residentBytes = Number(readFileSync(`/proc/${child.pid}/statm`, "latin1").split(" ")[1]) * PAGE;
    return { replyMs, processorMs, residentBytes };
  } finally {
    child.kill("SIGTERM");
    await exited;
  }
}

async function portOf(stderr: NodeJS.ReadableStream): Promise<number> {
  let said = "";
  for await (const chunk of stderr) {
    said += chunk;
    const [, port] = /serves on [\d.]+:(\d+)/.exec(said) ?? [];
    if (port !== undefined) return Number(port);
  }
  throw new Error(`the server ended: ${said}`);
}

/** Returns the median of some starts, value by value. */
export async function measureStarts(command: readonly string[], flags: readonly string[]): Promise<Start> {
  const starts: Start[] = [];
  for (let count = 0; count < STARTS; count++) starts.push(await start(command, flags));
  const median = (of: (start: Start) => number): number =>
    starts.map(of).sort((one, other) => one - other)[Math.floor(STARTS / 2)]!;
  return {
    replyMs: median(({ replyMs }) => replyMs),
    processorMs: median(({ processorMs }) => processorMs),
    residentBytes: median(({ residentBytes }) => residentBytes),
  };
}
