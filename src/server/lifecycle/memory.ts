// Memory watch: tells the operator when jobs have used up --max-memory, and when there is memory
// again.

import { openSync, readFileSync, readSync } from "node:fs";
import type { Logger } from "pino";
import { sizeText } from "../../config/setting.ts";
import type { MemoryWords } from "../../ring/shared-words.ts";
import type { Options } from "../options/options.ts";

const LIMIT_LOOK_MS = 1000;
/** Minimum time between two warnings, ms, for a state that changes often. */
const TOLD_EVERY_MS = 60_000;

interface MemoryWatchOptions {
  readonly words: MemoryWords;
  readonly nowMs: () => number;
  readonly warn: (message: string) => void;
  readonly info: (message: string) => void;
}

export class MemoryWatch {
  readonly #options: MemoryWatchOptions;
  #timer: NodeJS.Timeout | undefined;
  #isTold = false;
  #toldAtMs: number = Number.NEGATIVE_INFINITY;

  constructor(options: MemoryWatchOptions) {
    this.#options = options;
  }

  /** Sets the limit; Infinity for none. */
  configure(bytesMax: number): void {
    this.#options.words.limitBytes = bytesMax;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.look();
    if (bytesMax === Number.POSITIVE_INFINITY) return;
    this.#timer = setInterval(() => this.look(), LIMIT_LOOK_MS).unref();
  }

  look(): void {
    const { words, nowMs, warn, info } = this.#options;
    const { isFull } = words;
    if (isFull === this.#isTold) return;
    if (isFull && nowMs() < this.#toldAtMs + TOLD_EVERY_MS) return;
    this.#isTold = isFull;
    if (!isFull) {
      info("there is memory for jobs again: puts are accepted");
      return;
    }
    this.#toldAtMs = nowMs();
    warn(
      `jobs have all the memory that max-memory gives them (${sizeText(words.limitBytes)}): puts are answered OUT_OF_MEMORY until jobs are deleted; raise it in the file, then kill -HUP ${process.pid}`,
    );
  }
}

// Memory of an idle server: gives back what only its start, or a burst of commands, needed.
//
// A start reads most of Node's program once. Those pages count as resident until the system is
// short of memory, although they are unchanged. If the server needs a dropped page later, a page
// fault brings it back from the page cache. malloc also keeps freed memory between blocks that are
// still in use.

const IDLE_LOOK_MS = 3000;
/** With fewer messages between two checks, the server counts as idle. */
const BUSY_MESSAGES = 1000;
/** Value from asm-generic/mman-common.h. */
const MADV_DONTNEED = 4;
/** Bytes of an entry in /proc/PID/pagemap, and flags in its last byte. */
const ENTRY_BYTES = 8;
const PRESENT = 0x80;
const SWAPPED = 0x40;
const OF_FILE = 0x20;

/** Decides when to give memory back: once after the start, and once after each busy period. */
export class IdleMemory {
  readonly #give: () => void;
  #hasMore = true;
  #seen = 0;

  constructor(give: () => void) {
    this.#give = give;
  }

  /** Checks whether the server is idle. `messages` is how many all threads have taken so far. */
  look(messages: number): void {
    const isBusy = messages - this.#seen >= BUSY_MESSAGES;
    this.#seen = messages;
    if (isBusy) this.#hasMore = true;
    else if (this.#hasMore) {
      this.#hasMore = false;
      this.#give();
    }
  }
}

/**
 * Returns a function that gives memory back from then on, in the calling thread, which should serve
 * no clients. `messages` returns how many messages all threads have taken so far. Call it before
 * the process switches its user, because afterwards it can't read its own page map. With
 * `--transport libuv` (the default on older kernels), which avoids Node's experimental interface to
 * the C library, the function does nothing.
 */
export function memoryGiver({ transport }: Options, messages: () => number, log: Logger): () => void {
  if (transport === "libuv") return () => {};
  const pagemap = openPagemap();
  const idle = new IdleMemory(() => {
    try {
      giveMemory(pagemap);
    } catch (error) {
      log.debug({ err: error }, "can't give memory back to the system");
    }
  });
  return () => {
    setInterval(() => idle.look(messages()), IDLE_LOOK_MS).unref();
  };
}

function openPagemap(): number | undefined {
  try {
    return openSync("/proc/self/pagemap", "r");
  } catch {
    return undefined;
  }
}

/**
 * Takes a few milliseconds, however many jobs there are. Throws on an unusual system or C library.
 */
function giveMemory(pagemap: number | undefined): void {
  const { malloc_trim: trim, getpagesize: pageSize, madvise } = libc();
  trim(0n);
  if (pagemap === undefined) return;
  const pageBytes = pageSize();
  // Finds all pages before it drops the first: the search needs a good part of Node's program.
  const unchanged = mappedFiles(readFileSync("/proc/self/maps", "latin1")).filter(({ start, end }) =>
    isUnchanged(entriesOf(pagemap, start / pageBytes, end / pageBytes)),
  );
  for (const { start, end } of unchanged) madvise(BigInt(start), BigInt(end - start), MADV_DONTNEED);
}

interface Mapping {
  readonly start: number;
  readonly end: number;
}

/** Returns the private mappings of files in /proc/PID/maps that can't be written to. */
export function mappedFiles(maps: string): Mapping[] {
  const found = maps.matchAll(/^([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ \d+ +\//gm);
  return Array.from(found, ([, start, end]) => ({
    start: Number.parseInt(start!, 16),
    end: Number.parseInt(end!, 16),
  }));
}

/** Returns the entries of pages in /proc/PID/pagemap. */
function entriesOf(pagemap: number, first: number, end: number): Buffer {
  const entries = Buffer.alloc((end - first) * ENTRY_BYTES);
  for (let at = 0; at < entries.length; ) {
    const read = readSync(pagemap, entries, at, entries.length - at, first * ENTRY_BYTES + at);
    if (read === 0) throw new Error("/proc/self/pagemap ends before its last page");
    at += read;
  }
  return entries;
}

/**
 * Returns whether no page differs from the file. The loader writes addresses into some before it
 * protects them, and a debugger its breakpoints; dropping those pages would undo that.
 */
export function isUnchanged(entries: Uint8Array): boolean {
  for (let at = ENTRY_BYTES - 1; at < entries.length; at += ENTRY_BYTES) {
    const flags = entries[at]! & (PRESENT | SWAPPED | OF_FILE);
    if (flags !== 0 && flags !== (PRESENT | OF_FILE)) return false;
  }
  return true;
}

function libc(): {
  malloc_trim: (pad: bigint) => unknown;
  getpagesize: () => number;
  madvise: (address: bigint, length: bigint, advice: number) => unknown;
} {
  // Loaded only here, because it is experimental: see docs/differences.md.
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    const { dlopen } = process.getBuiltinModule("node:ffi");
    return dlopen(null, {
      malloc_trim: { arguments: ["u64"], return: "i32" },
      getpagesize: { arguments: [], return: "i32" },
      madvise: { arguments: ["u64", "u64", "i32"], return: "i32" },
    }).functions;
  } finally {
    process.emitWarning = emitWarning;
  }
}
