// State of the log's room: whether there is any, what to refuse without it, and when to check
// again. Reports each change once.

import { assert } from "../../base/assert.ts";
import type { StorageNotice } from "./storage-options.ts";

/** Delay before the next attempt. */
export const RETRY_ROOM_MS = 1000;

export class RoomShortage {
  readonly #path: string;
  readonly #notice: (notice: StorageNotice) => void;
  /** Whether puts must be refused. */
  full = false;
  /** Whether nothing can be written until there is room. */
  waiting = false;
  /** Time of the next attempt to make room while the log is full. */
  retryAtMs = Number.POSITIVE_INFINITY;
  /** Time of the next attempt to write while the log waits. */
  resumeAtMs = 0;

  constructor(path: string, notice: (notice: StorageNotice) => void) {
    this.#path = path;
    this.#notice = notice;
  }

  /** Records that no room could be made. `code` is the system's, or "" for none. */
  begin(nowMs: number, code: string): void {
    if (code === "") return;
    this.retryAtMs = nowMs + RETRY_ROOM_MS;
    if (this.full) return;
    this.full = true;
    const what = code.endsWith("FILE") ? "There are no file descriptors left" : "The disk is full";
    const message = `${what} (${code}): puts are refused until there is room in ${this.#path}`;
    this.#notice({ level: "error", code: "BINLOG_FULL", message });
  }

  /** Records that the log has all the room it wants. */
  end(): void {
    assert(!this.waiting, "a waiting log has no room");
    this.retryAtMs = Number.POSITIVE_INFINITY;
    if (!this.full) return;
    this.full = false;
    const message = `There is room again in ${this.#path}: puts are accepted`;
    this.#notice({ level: "info", code: "BINLOG_ROOM", message });
  }

  /** Records that a write found no room. */
  wait(nowMs: number, code: string): void {
    assert(code !== "", "a wait has a reason");
    this.resumeAtMs = nowMs + RETRY_ROOM_MS;
    this.begin(nowMs, code);
    if (this.waiting) return;
    assert(this.full, "a waiting log is full");
    this.waiting = true;
    const message = `Nothing can be written to ${this.#path} (${code}): changes of jobs wait until there is room`;
    this.#notice({ level: "error", code: "BINLOG_WAITS", message });
  }

  /** Records that all waiting changes are written. */
  goOn(): void {
    assert(this.waiting && this.full, "only a waiting log continues");
    this.waiting = false;
    const message = `Changes of jobs are written to ${this.#path} again`;
    this.#notice({ level: "info", code: "BINLOG_GOES_ON", message });
  }
}
