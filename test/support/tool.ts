// Runs `runnerbean WORD …` as an operator does.

import { spawn } from "node:child_process";
import { OUR_MAIN, TEST_ENV } from "./server-process.ts";

export interface ToolResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** `env` is added to that of the test. */
export function runTool(
  args: readonly string[],
  { input = "", env = {} }: { input?: string | Buffer; env?: NodeJS.ProcessEnv } = {},
): Promise<ToolResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [OUR_MAIN, ...args], { env: { ...TEST_ENV, ...env } });
    let [stdout, stderr] = ["", ""];
    child.stdout.setEncoding("latin1").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding("latin1").on("data", (text: string) => {
      stderr += text;
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, stdout, stderr }));
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
}
