// Load on an HTTP side: 10,000 tubes that change every second, and clients that request them.

import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { freePort } from "../../test/support/machine/free-port.ts";

export const MAIN = fileURLToPath(new URL("../../src/server/main.ts", import.meta.url));
const BESIDE = "--beside";
const POLL_MS = 50;
const POLLS_MAX = 600;

/** What this process is, by its arguments: the server, or what is beside it. */
export async function serveBeside(
  file: string,
  keepBusy: (url: string, port: number) => Promise<unknown>,
): Promise<void> {
  const args = process.argv.slice(2);
  if (args[0] === BESIDE) {
    const url = `http://127.0.0.1:${args[1]}`;
    await untilReady(url);
    await keepBusy(url, Number(args[2]));
    return;
  }
  const http = await freePort();
  const port = args[args.indexOf("-p") + 1] ?? "11300";
  spawn(process.execPath, [file, BESIDE, `${http}`, port], { stdio: ["ignore", "ignore", "inherit"] });
  const command = [process.execPath, MAIN, ...args, "--http", `127.0.0.1:${http}`];
  process.execve!(process.execPath, command, process.env as Record<string, string>);
}

export async function untilReady(url: string): Promise<void> {
  for (let poll = 0; poll < POLLS_MAX; poll++) {
    const isReady = await fetch(`${url}/readyz`).then(
      ({ status }) => status === 200,
      () => false,
    );
    if (isReady) return;
    await sleep(POLL_MS);
  }
  throw new Error(`${url} does not answer`);
}
