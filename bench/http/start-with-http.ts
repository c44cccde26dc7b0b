// Our server with an HTTP side, in a process of its own, for contenders of the bench that have something to do beside it.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("../../src/server/main.ts", import.meta.url));

/** Starts it with `args`; the bench's signals are passed on, and this process ends with it. Returns where HTTP is. */
export function startWithHttp(args: readonly string[]): Promise<string> {
  const server = spawn(process.execPath, [main, ...args, "--http", "127.0.0.1:0"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => server.kill(signal));
  server.on("exit", (code) => process.exit(code ?? 1));
  return new Promise((resolve) => {
    let said = "";
    server.stderr.on("data", (chunk: Buffer) => {
      process.stderr.write(chunk);
      said += chunk.toString();
      const found = / (http:\/\/127\.0\.0\.1:[0-9]+) with/.exec(said)?.[1];
      if (found !== undefined) resolve(found);
    });
  });
}
