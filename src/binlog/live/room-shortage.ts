// Whether there is room for the log, what is not taken without it, and when to look again. Each change is told once.

import type { StorageNotice } from "./storage-options.ts";

/** How long until the next try. */
export const RETRY_ROOM_MS = 1000;

export class RoomShortage {
  readonly #path: string;
  readonly #notice: (notice: StorageNotice) => void;
  /** Puts must be refused. */
  full = false;
  /** Nothing can be written until there is room. */
  waiting = false;
  /** When to make room again, while it is full. */
  retryAtMs = Number.POSITIVE_INFINITY;
  /** When to write again, while it waits. */
  resumeAtMs = 0;

  constructor(path: string, notice: (notice: StorageNotice) => void) {
    this.#path = path;
    this.#notice = notice;
  }

  /** No room could be made. `code`: the system's, "" for none. */
  begin(nowMs: number, code: string): void {
    if (code === "") return;
    this.retryAtMs = nowMs + RETRY_ROOM_MS;
    if (this.full) return;
    this.full = true;
    const what = code.endsWith("FILE") ? "There are no file descriptors left" : "The disk is full";
    const message = `${what} (${code}): puts are refused until there is room in ${this.#path}`;
    this.#notice({ level: "error", code: "BINLOG_FULL", message });
  }

  /** There is all the room that is wanted. */
  end(): void {
    this.retryAtMs = Number.POSITIVE_INFINITY;
    if (!this.full) return;
    this.full = false;
    const message = `There is room again in ${this.#path}: puts are taken`;
    this.#notice({ level: "info", code: "BINLOG_ROOM", message });
  }

  /** Something found no room. */
  wait(nowMs: number, code: string): void {
    this.resumeAtMs = nowMs + RETRY_ROOM_MS;
    this.begin(nowMs, code);
    if (this.waiting) return;
    this.waiting = true;
    const message = `Nothing can be written to ${this.#path} (${code}): changes of jobs wait until there is room`;
    this.#notice({ level: "error", code: "BINLOG_WAITS", message });
  }

  /** All that waited is written. */
  goOn(): void {
    this.waiting = false;
    const message = `Changes of jobs are written to ${this.#path} again`;
    this.#notice({ level: "info", code: "BINLOG_GOES_ON", message });
  }
}
