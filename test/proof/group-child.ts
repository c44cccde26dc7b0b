// A program in a process group of its own, which ends with all that it has started: at its time
// limit, or when this process is told to end.

import { spawn } from "node:child_process";

interface GroupChild {
  readonly program: string;
  readonly words: readonly string[];
  readonly folder: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

interface GroupResult {
  readonly code: number | "timeout";
  /** The last of what it wrote to both outputs. */
  readonly output: string;
  readonly ms: number;
}

const OUTPUT_CHARACTERS_MAX = 1_000_000;
const SIGNALS = ["SIGINT", "SIGTERM"] as const;

export async function runInGroup(options: GroupChild): Promise<GroupResult> {
  const { program, words, folder, environment = {}, timeoutMs } = options;
  const startedAt = performance.now();
  const child = spawn(program, words, {
    cwd: folder,
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const closed = new Promise<number>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve(code ?? 1));
  });
  const kill = (): void => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL");
  };
  const end = (signal: NodeJS.Signals): void => {
    kill();
    // As without a handler.
    for (const each of SIGNALS) process.off(each, end);
    process.kill(process.pid, signal);
  };
  for (const signal of SIGNALS) process.on(signal, end);
  let output = "";
  const keep = (bytes: Buffer): void => {
    output = (output + bytes.toString()).slice(-OUTPUT_CHARACTERS_MAX);
  };
  child.stdout.on("data", keep);
  child.stderr.on("data", keep);
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    kill();
  }, timeoutMs);
  try {
    const code = await closed;
    return { code: isLate ? "timeout" : code, output, ms: performance.now() - startedAt };
  } finally {
    clearTimeout(timer);
    for (const signal of SIGNALS) process.off(signal, end);
  }
}
