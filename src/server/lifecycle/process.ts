// -u: switches to another user with that user's groups, and drops those of root.

import { execFile, execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { ExitCode, OperatorError } from "../options/operator-error.ts";

/**
 * Returns the user's numbers, from the name service if there is one. Throws an OperatorError for an
 * unknown user.
 */
export function idsOf(user: string): { user: number; group: number } {
  let entries: string;
  try {
    entries = execFileSync("getent", ["passwd", user], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
  } catch {
    try {
      entries = readFileSync("/etc/passwd", "utf8");
    } catch (error) {
      throw new OperatorError(
        `cannot look up user "${user}": ${(error as Error).message}`,
        ExitCode.UserLookup,
      );
    }
  }
  const entry = entries.split("\n").find((line) => line.startsWith(`${user}:`));
  if (entry === undefined) throw new OperatorError(`no such user: "${user}"`, ExitCode.UserUnknown);
  const [, , id, group] = entry.split(":");
  return { user: Number(id), group: Number(group) };
}

/** Switches the whole process. Call it after binding and before serving. */
export function switchUser(user: string): void {
  const { group } = idsOf(user);
  try {
    (process as typeof process & { initgroups(user: string, group: number): void }).initgroups(user, group);
    process.setgid!(group);
    process.setuid!(user);
  } catch (error) {
    throw new OperatorError(
      `cannot switch to user "${user}": ${(error as Error).message}`,
      ExitCode.UserSwitch,
    );
  }
}

// Limit of file descriptors of the process, for a warning when connections use them up.

/**
 * Returns the soft limit of open files, which Node raises to the hard limit; Infinity if unknown.
 */
export function descriptorLimit(): number {
  try {
    const line = /^Max open files\s+(\S+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return line === undefined || line === "unlimited" ? Number.POSITIVE_INFINITY : Number(line);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

// SIGUSR1, which drains the server. Without --disable-sigusr1, Node opens a debugger's port on it
// until a handler is there, and with the flag, Node blocks the signal for good. So the launcher
// gives the flag, and the signal is unblocked once the handler is there: an earlier one is pending.

/** rt_sigprocmask, on x86-64 and arm64. */
const SYS_SIGPROCMASK = process.arch === "arm64" ? 135n : 14n;
const SIG_UNBLOCK = 1n;
const SIGUSR1_BIT = 1 << 9;
/** Bytes of the kernel's signal set. */
const SET_BYTES = 8;

export function onSigusr1(handler: () => void): void {
  process.on("SIGUSR1", handler);
  const set = new Int32Array(SET_BYTES / Int32Array.BYTES_PER_ELEMENT);
  set[0] = SIGUSR1_BIT;
  // Loaded only here, because it is experimental: see docs/differences.md.
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    const { dlopen, getRawPointer } = process.getBuiltinModule("node:ffi");
    const { functions } = dlopen(null, {
      syscall: { arguments: ["i64", "i64", "u64", "u64", "i64"], return: "i64" },
    });
    functions.syscall(SYS_SIGPROCMASK, SIG_UNBLOCK, getRawPointer(set), 0n, BigInt(SET_BYTES));
  } finally {
    process.emitWarning = emitWarning;
  }
}

// Notifications to systemd, for units with Type=notify or Type=notify-reload.

/** Ends when systemd has every notification so far: they must arrive in order. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Reports a state, with a line for `systemctl status`. "ready" also ends "reloading". Without a
 * unit or without systemd-notify, it does nothing.
 */
export function notifySystemd(state: "ready" | "reloading" | "stopping", status?: string): void {
  if (process.env["NOTIFY_SOCKET"] === undefined) return;
  // systemd compares this time with that of its own signal. Debian 12's systemd-notify has no
  // `--reloading`.
  const now = process.hrtime.bigint() / 1000n;
  const words = state === "reloading" ? ["RELOADING=1", `MONOTONIC_USEC=${now}`] : [`--${state}`];
  const args = [`--pid=${process.pid}`, ...(status === undefined ? [] : [`--status=${status}`]), ...words];
  // Missing systemd-notify means no systemd.
  const tell = () => new Promise((resolve) => execFile("systemd-notify", args, resolve));
  // A stopping process may exit before an earlier notification has ended.
  last = state === "stopping" ? tell() : last.then(tell);
}

// Loads what Intl needs for time zones before a schedule does.
//
// The first date format of a process looks through the data of all locales, which takes 25 ms. The
// first `set-schedule` would do that on a thread that serves clients.

/** Starts that a script waits for, and servers that live briefly, do without. */
const AFTER_MS = 200;

/** Does so soon, in the calling thread, which should serve no clients. */
export function loadTimeZonesSoon(): void {
  setTimeout(() => new Intl.DateTimeFormat("en-US", { timeZone: "UTC" }), AFTER_MS).unref();
}
