// Memory of an idle server: gives back what only its start, or a burst of commands, needed.
//
// A start reads most of Node's program once. Those pages count as resident until the system is
// short of memory, although they are unchanged. Once dropped, one that is needed after all comes
// from the page cache, at the price of a page fault. And malloc keeps what was freed between blocks
// that are still in use.

import { readFileSync } from "node:fs";
import type { Logger } from "pino";
import { Counter, countersOf, rolesOf, type Topology } from "../../message/topology.ts";
import type { Options } from "../options/options.ts";

const LOOK_MS = 3000;
/** With fewer messages between two looks, the server counts as idle. */
const BUSY_MESSAGES = 1000;
/** From asm-generic/mman-common.h. */
const MADV_DONTNEED = 4;

/**
 * Gives memory back from now on, in the calling thread, which should serve no clients. With
 * `--transport libuv`, which avoids Node's experimental way into the C library, it does nothing.
 */
export function giveMemoryWhenIdle(topology: Topology, { transport }: Options, log: Logger): void {
  if (transport === "libuv") return;
  const counters = Array.from({ length: rolesOf(topology) }, (_, role) => countersOf(topology, role));
  const idle = new IdleMemory(() => {
    try {
      giveMemory();
    } catch (error) {
      log.debug({ err: error }, "can't give memory back to the system");
    }
  });
  const look = (): void => idle.look(counters.reduce((sum, each) => sum + each[Counter.Messages]!, 0));
  setInterval(look, LOOK_MS).unref();
}

/** Decides when to give memory back: once after the start, and once after each busy time. */
export class IdleMemory {
  readonly #give: () => void;
  #hasMore = true;
  #seen = 0;

  constructor(give: () => void) {
    this.#give = give;
  }

  /** Looks whether the server is idle. `messages` is how many all threads have taken so far. */
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

/** Takes a few milliseconds. Throws if the system or its C library is an unusual one. */
export function giveMemory(): void {
  const { malloc_trim: trim, madvise } = libc();
  trim(0n);
  for (const { start, end } of unchangedFiles(readFileSync("/proc/self/smaps", "latin1")))
    madvise(start, end - start, MADV_DONTNEED);
}

interface Mapping {
  readonly start: bigint;
  readonly end: bigint;
}

/** Address range, permissions, and the path of a file. */
const FILE = /^([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ \d+ +\/.*\n(?:[A-Z].*\n)*?Anonymous: +0 kB$/gm;

/**
 * Returns the private read-only mappings of files in /proc/PID/smaps of which no page was changed.
 * The loader writes addresses into some before it protects them; dropping those would undo that.
 */
export function unchangedFiles(smaps: string): Mapping[] {
  return Array.from(smaps.matchAll(FILE), ([, start, end]) => ({
    start: BigInt(`0x${start}`),
    end: BigInt(`0x${end}`),
  }));
}

function libc(): {
  malloc_trim: (pad: bigint) => unknown;
  madvise: (address: bigint, length: bigint, advice: number) => unknown;
} {
  // Loaded only here: it is experimental, and Node says so. docs/differences.md does, too.
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    const { dlopen } = process.getBuiltinModule("node:ffi");
    return dlopen(null, {
      malloc_trim: { arguments: ["u64"], return: "i32" },
      madvise: { arguments: ["u64", "u64", "i32"], return: "i32" },
    }).functions;
  } finally {
    process.emitWarning = emitWarning;
  }
}
