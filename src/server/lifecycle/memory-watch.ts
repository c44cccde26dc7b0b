// Memory watch: tells the operator when jobs have used up --max-memory, and when there is memory
// again.

import { sizeText } from "../../config/quantity.ts";
import type { MemoryWords } from "../../ring/memory-words.ts";

const LOOK_MS = 1000;
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
    this.#timer = setInterval(() => this.look(), LOOK_MS).unref();
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
