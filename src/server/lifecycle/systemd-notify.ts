// Notifications to systemd, for units with Type=notify or Type=notify-reload.

import { execFile } from "node:child_process";

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
