// Which test files execute which bytes of a source file, from V8's coverage of one run of each.

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const ROOT: string = fileURLToPath(new URL("../../..", import.meta.url));
const NODE = join(ROOT, "bin/node");
const CHILD = fileURLToPath(new URL("child.ts", import.meta.url));

interface Range {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly count: number;
}

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly { readonly ranges: readonly Range[] }[];
}

export interface TestFile {
  /** Below the root. */
  readonly path: string;
  readonly ms: number;
  /** By the URL of a source file: ranges of its functions and blocks, the outer first. */
  readonly covered: ReadonlyMap<string, readonly Range[]>;
}

export interface ChildResult {
  readonly code: number | "timeout";
  readonly said: string;
  readonly ms: number;
}

/** Runs test files in a process of their own; `env` says what is replaced. */
export async function runChild(
  files: readonly string[],
  env: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<ChildResult> {
  const startedAt = performance.now();
  const child = spawn(
    NODE,
    ["--disable-warning=ExperimentalWarning", CHILD, ...files.map((file) => join(ROOT, file))],
    {
      cwd: ROOT,
      env: { ...process.env, RUNNERBEAN_CHECKED: "1", ...env },
      stdio: ["ignore", "pipe", "pipe"],
      // A group of its own, so that what a test started ends with it.
      detached: true,
    },
  );
  let said = "";
  child.stdout.on("data", (bytes) => (said += bytes));
  child.stderr.on("data", (bytes) => (said += bytes));
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    process.kill(-child.pid!, "SIGKILL");
  }, timeoutMs);
  const code = await new Promise<number>((resolve) => child.once("exit", (exit) => resolve(exit ?? 1)));
  clearTimeout(timer);
  return { code: isLate ? "timeout" : code, said, ms: performance.now() - startedAt };
}

/** Runs a test file once, as it is; undefined if it fails by itself in such a process. */
export async function coverageOf(path: string, timeoutMs: number): Promise<TestFile | undefined> {
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-coverage-"));
  try {
    const { code, ms } = await runChild([path], { NODE_V8_COVERAGE: folder }, timeoutMs);
    if (code !== 0) return undefined;
    const covered = new Map<string, Range[]>();
    const sources = pathToFileURL(join(ROOT, "src/")).href;
    for (const name of readdirSync(folder)) {
      const { result } = JSON.parse(readFileSync(join(folder, name), "utf8")) as { result: ScriptCoverage[] };
      for (const { url, functions } of result) {
        if (!url.startsWith(sources)) continue;
        const ranges = functions.flatMap((each) => each.ranges);
        covered.set(url, [...(covered.get(url) ?? []), ...ranges]);
      }
    }
    return { path, ms, covered };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Whether the test file executes the code at an offset: what the innermost range there says. */
export function executes({ covered }: TestFile, url: string, offset: number): boolean {
  let innermost: Range | undefined;
  for (const range of covered.get(url) ?? []) {
    if (range.startOffset > offset || range.endOffset <= offset) continue;
    const isInner =
      innermost === undefined ||
      range.endOffset - range.startOffset <= innermost.endOffset - innermost.startOffset;
    if (isInner) innermost = range;
  }
  return (innermost?.count ?? 0) > 0;
}
