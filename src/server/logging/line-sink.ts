// Lines for stdout or stderr. Whoever reads them may be slow, stuck or gone: the server never waits for it.
//
// A blocking write to a full pipe would hold the thread that supervises all others, and with it every signal
// and every exit. So the descriptor does not block; what it does not take at once waits here, up to a bound,
// and what finds no room is dropped and counted. A later line says how many were.

import { constants, fstatSync, openSync, writeSync } from "node:fs";
import { Socket } from "node:net";

const LINES_MAX = 1000;
const BYTES_MAX = 1 << 20;
/** How often what waits is tried again, ms. */
const RETRY_MS = 50;

/** Writes some of the bytes and returns how many; throws a system error, EAGAIN when there is no room. */
export type WriteSome = (bytes: Uint8Array) => number;

export class LineSink {
  readonly #writeSome: WriteSome;
  readonly #droppedLine: (count: number) => string;
  /** Whole lines, but for the first, of which a part may have left. */
  #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #dropped = 0;
  /** The last thing written is a part of a line that could not be finished. */
  #torn = false;
  #timer: NodeJS.Timeout | undefined;
  #onEmpty: (() => void)[] = [];

  /** `droppedLine` words the line that tells how many were dropped. */
  constructor(writeSome: WriteSome, droppedLine: (count: number) => string) {
    this.#writeSome = writeSome;
    this.#droppedLine = droppedLine;
  }

  /** Writes a line, which ends in a newline, now or later or never. Does not block and does not throw. */
  write(line: string): void {
    if (this.#queue.length > 0) {
      this.#enqueue(Buffer.from(line));
      return;
    }
    this.#tellDropped();
    if (this.#queue.length > 0) this.#enqueue(Buffer.from(line));
    else this.#put(Buffer.from(line), 1);
  }

  /** Resolves when nothing waits any more, after `waitMs` at the latest. */
  drained(waitMs: number): Promise<void> {
    if (this.#queue.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const late = setTimeout(resolve, waitMs);
      this.#onEmpty.push(() => {
        clearTimeout(late);
        resolve();
      });
    });
  }

  #enqueue(line: Uint8Array): void {
    if (this.#queue.length >= LINES_MAX || this.#queuedBytes + line.length > BYTES_MAX) {
      this.#dropped++;
      return;
    }
    this.#queue.push(line);
    this.#queuedBytes += line.length;
    this.#timer ??= setTimeout(this.#retry, RETRY_MS);
  }

  #tellDropped(): void {
    const count = this.#dropped;
    if (count === 0) return;
    this.#dropped = 0;
    this.#put(Buffer.from(this.#droppedLine(count)), count);
  }

  /** Writes a line, or queues what is left of it; `count` lines are lost with it if that fails. */
  #put(line: Uint8Array, count: number): void {
    let rest = this.#torn ? Buffer.concat([Buffer.from("\n"), line]) : line;
    try {
      while (rest.length > 0) {
        rest = rest.subarray(this.#writeSome(rest));
        this.#torn = rest.length > 0;
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") {
        this.#dropped += count;
        return;
      }
      // Its rest follows in any case, so the line is not torn.
      this.#torn = false;
      this.#queue.unshift(rest);
      this.#queuedBytes += rest.length;
      this.#timer ??= setTimeout(this.#retry, RETRY_MS);
    }
  }

  readonly #retry = (): void => {
    this.#timer = undefined;
    while (this.#queue.length > 0) {
      const line = this.#queue.shift()!;
      this.#queuedBytes -= line.length;
      this.#put(line, 1);
      // It stands at the head again.
      if (this.#timer !== undefined) return;
    }
    this.#tellDropped();
    if (this.#queue.length > 0) return;
    const waiting = this.#onEmpty;
    this.#onEmpty = [];
    for (const resolve of waiting) resolve();
  };
}

/** Writes to a standard descriptor without ever waiting. */
export function nonBlockingWriter(descriptor: number): WriteSome {
  const { own, keep } = withoutWaiting(descriptor);
  return (bytes) => {
    // Kept, because its end would close the descriptor.
    void keep;
    return writeSync(own, bytes);
  };
}

/**
 * A pipe or terminal is opened once more: the flag O_NONBLOCK of the descriptor that was inherited belongs to
 * all processes that share it, and these would meet errors that they do not expect. What cannot be opened
 * again, a socket or a pipe of another user, gets the flag after all, through libuv, which sets it on what it
 * opens. Files do not block.
 */
function withoutWaiting(descriptor: number): { own: number; keep?: Socket } {
  try {
    if (fstatSync(descriptor).isFile()) return { own: descriptor };
    try {
      const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
      return { own: openSync(`/proc/self/fd/${descriptor}`, O_WRONLY | O_NONBLOCK | O_NOCTTY) };
    } catch {
      return { own: descriptor, keep: new Socket({ fd: descriptor, readable: false, writable: true }) };
    }
  } catch {
    // Closed, or of no known kind: every write says so.
    return { own: descriptor };
  }
}
