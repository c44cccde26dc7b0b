// Runs `runnerbean WORD …` like an operator.

import { spawn } from "node:child_process";
import { ourMain, TEST_ENV } from "./server-process.ts";

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
    const environment = { ...TEST_ENV, ...env };
    const child = spawn(process.execPath, [ourMain(environment), ...args], { env: environment });
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
