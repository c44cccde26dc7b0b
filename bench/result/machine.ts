// Description of the machine that was measured. No host name, because results are published.
import { execFileSync, type StdioOptions } from "node:child_process";
import { readFileSync, statfsSync } from "node:fs";
import os from "node:os";

const TMPFS = 0x01021994;

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGib: number;
  readonly kernel: string;
  /** Congestion control of TCP, also on loopback; undefined in older results. */
  readonly tcp?: string;
  readonly node: string;
  readonly disk: string;
  readonly commit: string;
}

export function machine(logDirectory: string): Machine {
  return {
    cpu: os.cpus()[0]?.model.trim() ?? "unknown",
    cores: os.availableParallelism(),
    memoryGib: Math.round(os.totalmem() / 2 ** 30),
    kernel: `${os.type()} ${os.release().split("-")[0]} ${os.arch()}`,
    tcp: readFileSync("/proc/sys/net/ipv4/tcp_congestion_control", "utf8").trim(),
    node: process.version,
    disk: diskOf(logDirectory),
    commit: commit(),
  };
}

function diskOf(directory: string): string {
  if (statfsSync(directory).type === TMPFS) return "tmpfs: a sync costs nothing";
  const mounts = readFileSync("/proc/self/mounts", "utf8").trim().split("\n");
  const found = mounts
    .map((line) => line.split(" "))
    .filter(([, point]) => point === "/" || directory === point || directory.startsWith(`${point}/`))
    .sort((a, b) => b[1]!.length - a[1]!.length)[0];
  return found ? `${found[2]} on ${found[0]}` : "unknown";
}

function commit(): string {
  try {
    const id = git("rev-parse", "--short", "HEAD");
    const isClean = git("status", "--porcelain", "--", "../../src") === "";
    return isClean ? id : `${id} with changes`;
  } catch {
    return "unknown";
  }
}

function git(...words: string[]): string {
  const stdio: StdioOptions = ["ignore", "pipe", "ignore"];
  return execFileSync("git", words, { encoding: "utf8", cwd: import.meta.dirname, stdio }).trim();
}
