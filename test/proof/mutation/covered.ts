// Which test files execute which bytes of a source file, from V8's coverage of one run of each.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { runInGroup } from "../group-child.ts";

export const ROOT: string = fileURLToPath(new URL("../../..", import.meta.url));
const REPLACE = fileURLToPath(new URL("replace.ts", import.meta.url));
/** Workers inherit them; those that run a text don't preload what `--import` names. */
const NODE_FLAGS = ["--disable-warning=ExperimentalWarning", `--require=${REPLACE}`];
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

/** What a run of test files costs. */
export interface Cost {
  readonly cpuMs: number;
  readonly ms: number;
}

export interface TestFile extends Cost {
  /** Below the root. */
  readonly path: string;
  /**
   * By the URL of a source file: ranges of its functions and blocks, the outer first, in each
   * thread and process that the tests start.
   */
  readonly covered: ReadonlyMap<string, readonly (readonly Range[])[]>;
}

interface ChildResult extends Cost {
  readonly code: number | "timeout";
  readonly said: string;
}

/** Exit code of a child that has nothing to do, and tests that have not ended. */
export const STALLED = 3;
/** Exit code of a shell whose program was ended by SIGXCPU. */
const CPU_LIMIT_CODE = 128 + 24;

/** Runs test files in a process of their own; `env` says what is replaced. */
export async function runChild(
  files: readonly string[],
  env: Readonly<Record<string, string>>,
  limit: Cost,
): Promise<ChildResult> {
  const seconds = Math.ceil(limit.cpuMs / 1000);
  const { code, output, ms } = await runInGroup({
    program: "sh",
    // The shell stays, because its exit code tells which signal ended Node.
    words: [
      "-c",
      `ulimit -c 0; ulimit -S -t ${seconds}; "$@"; exit $?`,
      "sh",
      process.execPath,
      ...NODE_FLAGS,
      CHILD,
    ].concat(files.map((file) => join(ROOT, file))),
    ...{ folder: ROOT, environment: { RUNNERBEAN_CHECKED: "1", ...env }, timeoutMs: limit.ms },
  });
  const cpuMs = Number(/^CPU (\d+) ms$/m.exec(output)?.[1] ?? limit.cpuMs);
  const isLate = code === CPU_LIMIT_CODE || code === STALLED;
  return { code: isLate ? "timeout" : code, said: output, ms, cpuMs };
}

/**
 * Runs a test file once, as it is, and notes what it executes of the sources below `below`;
 * undefined if it fails by itself in such a process.
 */
export async function coverageOf(path: string, below: string, limit: Cost): Promise<TestFile | undefined> {
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-coverage-"));
  try {
    const { code, ms, cpuMs } = await runChild(
      [path],
      { NODE_V8_COVERAGE: folder, NODE_DISABLE_COMPILE_CACHE: "1" },
      limit,
    );
    if (code !== 0) return undefined;
    const covered = new Map<string, (readonly Range[])[]>();
    const sources = pathToFileURL(join(ROOT, below)).href;
    for (const name of readdirSync(folder)) {
      const { result } = JSON.parse(readFileSync(join(folder, name), "utf8")) as { result: ScriptCoverage[] };
      for (const { url, functions } of result) {
        if (!url.startsWith(sources)) continue;
        const ranges = functions.flatMap((each) => each.ranges);
        covered.set(url, [...(covered.get(url) ?? []), ranges]);
      }
    }
    return { path, ms, cpuMs, covered };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Whether the test file executes the code at an offset, in any of its threads and processes. */
export function executes({ covered }: TestFile, url: string, offset: number): boolean {
  return (covered.get(url) ?? []).some((ranges) => countAt(ranges, offset) > 0);
}

/** What the innermost range there says. */
function countAt(ranges: readonly Range[], offset: number): number {
  let innermost: Range | undefined;
  for (const range of ranges) {
    if (range.startOffset > offset || range.endOffset <= offset) continue;
    const isInner =
      innermost === undefined ||
      range.endOffset - range.startOffset <= innermost.endOffset - innermost.startOffset;
    if (isInner) innermost = range;
  }
  return innermost?.count ?? 0;
}
