// Tells systemd how the server is, where its unit asks for that (Type=notify).

import { execFile } from "node:child_process";

/** "ready", "stopping" or "reloading" is passed on; without a unit, or without the tool, nothing happens. */
export function notifySystemd(state: "ready" | "stopping", status: string): void {
  if (process.env["NOTIFY_SOCKET"] === undefined) return;
  const args = [`--${state}`, `--pid=${process.pid}`, `--status=${status}`];
  // Who does not have it has no systemd either.
  execFile("systemd-notify", args, () => {}).on("error", () => {});
}
