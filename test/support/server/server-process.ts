// Starts and stops one server process, ours or Debian's beanstalkd, for a test that talks to it
// over a socket.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Turns } from "../conversations/turns.ts";
import { freePort } from "../machine/free-port.ts";
import { waitedForCoresMs } from "../machine/waited-for-cores.ts";
import { COMPILE_CACHE } from "./compile-cache.ts";

export type ServerKind = "ours" | "beanstalkd-1.12";

export const OUR_MAIN = fileURLToPath(new URL("../../../src/server/main.ts", import.meta.url));
/**
 * The same in a few files, whose start takes half the processor time: `npm test` makes it
 * (server-bundle.ts).
 */
const SERVER_BUNDLE = resolve(process.env["SERVER_BUNDLE"] ?? OUR_MAIN);
export const { BEANSTALKD = "/usr/bin/beanstalkd" } = process.env;
/**
 * Flags given to every server of ours, so that any test can be run with, say, another transport.
 */
const { OUR_FLAGS = "" } = process.env;

export interface ServerOptions {
  readonly kind: ServerKind;
  readonly flags?: readonly string[];
  /** Listen on this unix socket path instead of a TCP port. */
  readonly unixPath?: string;
  /** Program and arguments put before the server's own, such as `["prlimit", "--nofile=64"]`. */
  readonly wrapper?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly startMs?: number;
}

interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/**
 * For a server that hangs. One that works takes half a minute on a machine with ten busy threads a
 * core.
 */
const START_MS = 120_000;
/** Of its own time. */
const STOP_MS = 8_000;
/** At most so much waiting for a core is allowed for: a server that spins waits, too. */
const WAITED_MS = 60_000;
const LOOK_MS = 250;
const BIND_ATTEMPTS = 5;
const POLL_MS = 5;
/**
 * Starting is work for the processor: more at once would only disturb the timing of tests that run.
 */
const STARTS_AT_ONCE = 2;
/**
 * As bin/runnerbean sets it; a server without it executes itself once more, which takes a tenth of
 * its start.
 */
const MALLOC_MMAP_THRESHOLD_ = "262144";

/** Environment of the test, with settings that make starts quick. */
export const TEST_ENV: NodeJS.ProcessEnv = {
  NODE_COMPILE_CACHE: COMPILE_CACHE,
  MALLOC_MMAP_THRESHOLD_,
  ...process.env,
};

/**
 * The file to start in that environment: what is loaded into a server to change parts of it, or
 * counts the calls of its functions, finds them in its sources alone.
 */
export function ourMain({ NODE_OPTIONS = "", NODE_V8_COVERAGE }: NodeJS.ProcessEnv): string {
  return NODE_OPTIONS.includes("--import") || NODE_V8_COVERAGE !== undefined ? OUR_MAIN : SERVER_BUNDLE;
}

const startTurns = new Turns(STARTS_AT_ONCE);
const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, () => process.exit(130));

/** However this process ends, but by SIGKILL, the child ends with it. */
export function endsWithUs(child: ChildProcess): void {
  running.add(child);
  child.once("exit", () => running.delete(child));
}

export class ServerProcess {
  readonly kind: ServerKind;
  readonly child: ChildProcess;
  readonly port: number;
  readonly unixPath: string | undefined;
  readonly exited: Promise<Exit>;
  /** It has been seen listening. */
  isReady = false;
  #stdout = "";
  #stderr = "";
  #exit: Exit | undefined;

  constructor(kind: ServerKind, child: ChildProcess, port: number, unixPath: string | undefined) {
    this.kind = kind;
    this.child = child;
    this.port = port;
    this.unixPath = unixPath;
    running.add(child);
    child.stdout?.setEncoding("latin1").on("data", (text: string) => {
      this.#stdout += text;
    });
    child.stderr?.setEncoding("latin1").on("data", (text: string) => {
      this.#stderr += text;
    });
    this.exited = new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, signal) => {
        running.delete(child);
        this.#exit = { code, signal };
        resolve(this.#exit);
      });
    });
    // The awaiter of `exited` sees the error; an unawaited start must not end the test process.
    this.exited.catch(() => {});
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  get stdout(): string {
    return this.#stdout;
  }

  get stderr(): string {
    return this.#stderr;
  }

  get hasExited(): boolean {
    return this.#exit !== undefined;
  }

  /** Where a client connects to. */
  get address(): { readonly port: number; readonly host: string } | { readonly path: string } {
    return this.unixPath === undefined ? { port: this.port, host: "127.0.0.1" } : { path: this.unixPath };
  }

  /**
   * The end of a start that has to be refused; fails as soon as it serves, where `exited` would
   * wait for ever.
   */
  async refused(): Promise<Exit> {
    const serves = new Promise<never>((_, reject) => {
      const look = (): void => {
        if (saysReady(this)) reject(new Error("It serves, and should have been refused"));
      };
      for (const stream of [this.child.stdout, this.child.stderr]) stream?.on("data", look);
      look();
    });
    try {
      return await Promise.race([this.exited, serves]);
    } finally {
      if (!this.hasExited) await this.kill();
    }
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  /** Resident memory in bytes, all threads together. */
  residentBytes(): number {
    const status = readFileSync(`/proc/${this.pid}/status`, "latin1");
    const match = /^VmRSS:\s+(\d+) kB$/m.exec(status);
    if (match === null) throw new Error(`Cannot read the memory of process ${this.pid}`);
    return Number(match[1]) * 1024;
  }

  /** User and system time used so far, in seconds. */
  cpuSeconds(): number {
    const stat = readFileSync(`/proc/${this.pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / 100;
  }

  /**
   * Ends the process with SIGTERM. Kills one that hangs, and fails; never fails for one that is
   * gone. Time that its threads wait for a core doesn't count towards the limit.
   */
  async stop(limitMs = STOP_MS): Promise<Exit> {
    if (this.#exit !== undefined) return this.#exit;
    const startedAt = performance.now();
    let waitedBefore = waitedForCoresMs(this.pid);
    let waitedMs = 0;
    let hasHung = false;
    this.child.kill("SIGTERM");
    const timer = setInterval(() => {
      const waitedNow = waitedForCoresMs(this.pid);
      // It is less than before if a thread has ended.
      waitedMs = Math.min(WAITED_MS, waitedMs + Math.max(0, waitedNow - waitedBefore));
      waitedBefore = waitedNow;
      hasHung ||= performance.now() - startedAt - waitedMs >= limitMs;
      if (hasHung) this.child.kill("SIGKILL");
    }, LOOK_MS);
    try {
      const exit = await this.exited;
      if (hasHung) throw new Error(`The server did not end within ${limitMs} ms of SIGTERM\n${this.stderr}`);
      return exit;
    } finally {
      clearInterval(timer);
    }
  }

  /** Ends the process without giving it a chance to react. */
  async kill(): Promise<Exit> {
    if (this.#exit !== undefined) return this.#exit;
    this.child.kill("SIGKILL");
    return await this.exited;
  }
}

/**
 * Starts a server and waits until its socket listens. A port that was taken meanwhile is replaced.
 */
export async function startServer(options: ServerOptions): Promise<ServerProcess> {
  for (let attempt = 1; ; attempt++) {
    const server = await startTurns.take(() => launchAndWait(options));
    if (server.isReady) return server;
    await server.kill();
    const portWasTaken = /in use|EADDRINUSE/i.test(server.stderr + server.stdout);
    if (!portWasTaken || options.unixPath !== undefined || attempt === BIND_ATTEMPTS) {
      throw new Error(
        `Cannot start ${options.kind}: ${JSON.stringify(await server.exited)}\n${server.stderr}`,
      );
    }
  }
}

async function launchAndWait(options: ServerOptions): Promise<ServerProcess> {
  const server = await launch(options);
  server.isReady = await becomesReady(server, options.startMs ?? START_MS);
  return server;
}

/** Starts a server without waiting for it, for tests of a start that fails. */
export async function launch(options: ServerOptions): Promise<ServerProcess> {
  const port = options.unixPath === undefined ? await freePort() : 0;
  const where =
    options.unixPath === undefined
      ? ["-l", "127.0.0.1", "-p", `${port}`]
      : ["-l", `unix:${options.unixPath}`];
  const env = { ...TEST_ENV, ...options.env };
  const ours = [process.execPath, ourMain(env), ...OUR_FLAGS.split(" ").filter((flag) => flag !== "")];
  const program = options.kind === "ours" ? ours : [BEANSTALKD];
  const [command, ...args] = [...(options.wrapper ?? []), ...program, ...where, ...(options.flags ?? [])];
  if (command === undefined) throw new Error("unreachable: no command");
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], env });
  return new ServerProcess(options.kind, child, port, options.unixPath);
}

async function becomesReady(server: ServerProcess, limitMs: number): Promise<boolean> {
  const deadline = performance.now() + limitMs;
  while (performance.now() < deadline) {
    if (server.hasExited) return false;
    if (saysReady(server) && listens(server)) return true;
    await sleep(POLL_MS);
  }
  return false;
}

/**
 * Ours says so when all acceptors listen; before that one may already, while others are still to
 * come.
 */
function saysReady(server: ServerProcess): boolean {
  return server.kind !== "ours" || /serves on/.test(server.stdout + server.stderr);
}

/** Returns whether the socket is the server's own, and not that of a faster process on the port. */
function owns(server: ServerProcess, inode: string): boolean {
  // Ours would not say that it serves; and behind a wrapper it may be a child of the process.
  if (server.kind === "ours") return true;
  const folder = `/proc/${server.pid}/fd`;
  try {
    return readdirSync(folder).some((name) => readlinkSync(`${folder}/${name}`) === `socket:[${inode}]`);
  } catch {
    return false; // It has ended.
  }
}

/** Looks in the kernel's tables, so that no probe connection shows up in the server's counters. */
function listens(server: ServerProcess): boolean {
  if (server.unixPath !== undefined) {
    const table = readFileSync("/proc/net/unix", "latin1");
    // Column 4 is the flags: 00010000 marks a listening socket.
    return table.split("\n").some((row) => row.includes(" 00010000 ") && row.endsWith(` ${server.unixPath}`));
  }
  const wanted = `:${server.port.toString(16).toUpperCase().padStart(4, "0")}`;
  return ["/proc/net/tcp", "/proc/net/tcp6"].some(
    (table) => existsSync(table) && listeners(table, wanted).some((inode) => owns(server, inode)),
  );
}

/** The inodes of the sockets that listen at a port. */
function listeners(table: string, wanted: string): string[] {
  return readFileSync(table, "latin1")
    .split("\n")
    .map((row) => row.trim().split(/\s+/))
    .filter(([, local, , state]) => state === "0A" && local?.endsWith(wanted))
    .map((columns) => columns[9] ?? "");
}
