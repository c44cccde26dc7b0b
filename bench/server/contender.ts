// A server in the bench: one that the bench starts and stops, or one that already runs elsewhere.

import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../test/support/machine/free-port.ts";
import type { Address } from "../load/load-source.ts";
import { ask } from "./ask.ts";

const START_LIMIT_MS = 60_000;
const STOP_LIMIT_MS = 20_000;
const POLL_MS = 5;
/** Characters of a server's stderr that are kept. */
const COMPLAINTS_MAX = 65_536;
const MAX_BODY_BYTES = 2 ** 21;

export interface StartFlags {
  /** Absent: no log on disk. */
  readonly binlogDirectory?: string;
  /** Milliseconds between syncs, or `never`; absent: the server's default. */
  readonly fsync?: string;
}

export interface RunningServer {
  readonly address: Address;
  /** Absent if it is not a process of ours. */
  readonly pid?: number;
  /** From the start of the process to its first reply. */
  readonly startSeconds: number;
  stop(): Promise<void>;
}

export interface Contender {
  readonly name: string;
  /** How it is started, or where it is. */
  readonly description: string;
  readonly canStart: boolean;
  /** Whether it is the server of this project. */
  readonly isOurs: boolean;
  start(flags: StartFlags): Promise<RunningServer>;
}

/** The server can't do what a case needs. The case is reported as skipped. */
export class ServerRefused extends Error {}

export function targetContender(name: string, address: Address): Contender {
  return {
    name,
    description: `${address.host}:${address.port}`,
    canStart: false,
    isOurs: false,
    async start(flags) {
      if (flags.binlogDirectory) throw new ServerRefused("the flags of a running server can't be changed");
      await ask(address, "list-tube-used", 5000);
      return { address, startSeconds: 0, stop: async () => {} };
    },
  };
}

export interface CommandExtras {
  /** The command as results give it, where it holds paths of this machine. */
  readonly shown?: readonly string[];
  readonly isOurs?: boolean;
  /** On top of our own environment. */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Takes what the server has said on stderr. With it the server is always ended in order, and not
   * killed.
   */
  readonly onStopped?: (log: string) => void;
}

export function commandContender(
  name: string,
  command: readonly string[],
  extras: CommandExtras = {},
): Contender {
  return {
    name,
    description: (extras.shown ?? command).join(" "),
    canStart: true,
    isOurs: extras.isOurs ?? false,
    start: (flags) => startCommand(name, command, flags, extras),
  };
}

async function startCommand(
  name: string,
  command: readonly string[],
  flags: StartFlags,
  { env, onStopped }: CommandExtras,
): Promise<RunningServer> {
  const address = { host: "127.0.0.1", port: await freePort() };
  const [program, ...rest] = [...command, ...flagWords(address, flags)];
  const startedAtMs = performance.now();
  const child = spawn(program!, rest, {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, ...env },
  });
  const kill = () => child.kill("SIGKILL");
  process.on("exit", kill);
  let complaints = "";
  child.stderr!.setEncoding("utf8").on("data", (text: string) => {
    complaints = (complaints + text).slice(-COMPLAINTS_MAX);
  });
  const ended = new Promise<string>((resolve) => {
    child.on("error", (error) => resolve(error.message));
    child.on("exit", (code, signal) => resolve(`ended with ${code ?? signal}`));
  });
  let isOver = false;
  ended.then(() => {
    isOver = true;
    process.off("exit", kill);
  });

  const problem = await Promise.race([ended, untilReady(address, () => isOver)]);
  if (problem !== null) {
    child.kill("SIGKILL");
    const lastLine = messageOf(complaints.trim().split("\n").at(-1) ?? "");
    throw new ServerRefused(`${name} didn't start: ${problem}${lastLine === "" ? "" : `: ${lastLine}`}`);
  }
  return {
    address,
    pid: child.pid!,
    startSeconds: (performance.now() - startedAtMs) / 1000,
    stop: async () => {
      await stopChild(child, ended, flags.binlogDirectory !== undefined || onStopped !== undefined);
      showTimings(name, complaints);
      onStopped?.(complaints);
    },
  };
}

/** Our server tells at its end how the disk behaved. */
function showTimings(name: string, complaints: string): void {
  const line = complaints.split("\n").find((each) => each.includes("the log is closed"));
  if (line !== undefined) process.stderr.write(`${name}: ${messageOf(line)}\n`);
}

/** Without a terminal our server logs lines of JSON with the text in `msg`. */
function messageOf(line: string): string {
  try {
    const { msg } = JSON.parse(line) as { msg?: string };
    return msg ?? line;
  } catch {
    return line;
  }
}

function flagWords(address: Address, flags: StartFlags): string[] {
  const words = ["-l", address.host, "-p", `${address.port}`, "-z", `${MAX_BODY_BYTES}`];
  if (flags.binlogDirectory === undefined) return words;
  words.push("-b", flags.binlogDirectory);
  if (flags.fsync === "never") words.push("-F");
  else if (flags.fsync !== undefined) words.push("-f", flags.fsync);
  return words;
}

/** Null once the server answers; what is wrong if it doesn't. */
async function untilReady(address: Address, isOver: () => boolean): Promise<string | null> {
  const deadlineMs = performance.now() + START_LIMIT_MS;
  while (performance.now() < deadlineMs && !isOver()) {
    try {
      await ask(address, "list-tube-used", START_LIMIT_MS);
      return null;
    } catch {
      await sleep(POLL_MS);
    }
  }
  return `no reply within ${START_LIMIT_MS / 1000} s`;
}

/** Without a log there is nothing to bring to an end. */
async function stopChild(child: ChildProcess, ended: Promise<string>, inOrder: boolean): Promise<void> {
  child.kill(inOrder ? "SIGTERM" : "SIGKILL");
  const patience = new AbortController();
  const late = sleep(STOP_LIMIT_MS, "late", { signal: patience.signal }).catch(() => "");
  if ((await Promise.race([ended, late])) === "late") child.kill("SIGKILL");
  patience.abort();
  await ended;
}
