// Runs the command that does a job for `reserve`, and finds out why it failed.

import { spawn } from "node:child_process";
import { stripVTControlCharacters } from "node:util";
import { CommandFailed, ExitCode } from "./exit-code.ts";

/** Bytes to keep from the end of stderr, for its last line. */
const KEPT_BYTES = 64 * 1024;
/**
 * Time for the rest of stderr after the command's end, ms. A process that the command left behind
 * may keep stderr open forever.
 */
const REST_MS = 500;
/** Added to a signal's number, as shells do: the exit code of a command that the signal ended. */
const SIGNALLED = 128;

interface Job {
  readonly id: number;
  readonly tube: string;
  readonly body: Buffer;
}

export interface Ended {
  readonly exitCode: number;
  /** The signal that ended the command, if one did. */
  readonly signal: string | null;
  /** "exit status 3: no such user", or "killed by SIGKILL". */
  readonly reason: string;
}

export interface RunningJob {
  /** Rejects with CommandFailed if the command can't be run. */
  readonly ended: Promise<Ended>;
  /** Kills the command with its children, unless they have left its process group. */
  kill(): void;
}

/**
 * Runs a command with the body on stdin; its output goes where ours goes. It has a process group of
 * its own, so that Ctrl-C on a terminal reaches only this program, which lets it end.
 */
export function runJob([program = "", ...args]: readonly string[], { id, tube, body }: Job): RunningJob {
  const { promise, resolve, reject } = Promise.withResolvers<Ended>();
  const env = { ...process.env, JOB_ID: `${id}`, JOB_TUBE: tube };
  const child = spawn(program, args, { env, stdio: ["pipe", "inherit", "pipe"], detached: true });
  let end = Buffer.alloc(0);
  child.stderr.on("data", (bytes: Buffer) => {
    end = Buffer.concat([end, bytes]).subarray(-KEPT_BYTES);
  });
  child.stderr.pipe(process.stderr, { end: false });
  child.on("error", (error) =>
    reject(new CommandFailed(`cannot run ${program}: ${error.message}`, ExitCode.BadArguments)),
  );
  let timer: NodeJS.Timeout | undefined;
  child.on("exit", (code, signal) => {
    const finish = (): void => {
      clearTimeout(timer);
      const line = lastLine(end);
      const what = code === null ? `killed by ${signal}` : `exit status ${code}`;
      resolve({ exitCode: code ?? SIGNALLED, signal, reason: line === "" ? what : `${what}: ${line}` });
    };
    child.once("close", finish);
    timer = setTimeout(() => {
      // It must not keep this process, either.
      (child.stderr as typeof child.stderr & { unref(): void }).unref();
      finish();
    }, REST_MS);
  });
  // A command need not read its stdin.
  child.stdin.on("error", () => {});
  child.stdin.end(body);
  return { ended: promise, kill: () => killGroup(child.pid) };
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has just ended.
  }
}

/** Returns the last line that isn't blank, as text without colours. */
function lastLine(bytes: Buffer): string {
  const lines = stripVTControlCharacters(bytes.toString()).split(/[\r\n]/);
  return lines.map((line) => line.trim()).findLast((line) => line !== "") ?? "";
}
