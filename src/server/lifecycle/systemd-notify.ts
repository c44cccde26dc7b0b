// Notifications to systemd, for units with Type=notify.

import { execFile } from "node:child_process";

/** Reports "ready" or "stopping". Without a unit or without systemd-notify, it does nothing. */
export function notifySystemd(state: "ready" | "stopping", status: string): void {
  if (process.env["NOTIFY_SOCKET"] === undefined) return;
  const args = [`--${state}`, `--pid=${process.pid}`, `--status=${status}`];
  // Missing systemd-notify means no systemd.
  execFile("systemd-notify", args, () => {}).on("error", () => {});
}
