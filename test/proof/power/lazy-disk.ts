// A disk that loses power: LazyFS (https://github.com/dsrhaslab/lazyfs), a FUSE file system that
// keeps what was not synced in its own memory. When its process ends, that is gone.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../../support/eventually.ts";
import type { SeededRandom } from "../../support/seeded-random.ts";

/**
 * How the power goes: between writes, or so that parts of a write reach the disk, or some writes of
 * a sequence.
 */
export type Loss = "between" | "torn write" | "torn sequence";

const { LAZYFS = "" } = process.env;
/** The disk under LazyFS need not be one: the kernel keeps its power. */
const MEMORY = "/dev/shm";
/** A write that is to be torn must come. */
const TEAR_MS = 1000;
const PARTS_MAX = 8;

/** Why there can be no such disk here; undefined if there can. */
export function whyNoLazyDisk(): string | undefined {
  if (LAZYFS === "") return "set LAZYFS to the program lazyfs, built as its README says";
  if (!existsSync(LAZYFS)) return `LAZYFS=${LAZYFS}: there is no such file`;
  if (!existsSync("/dev/fuse")) return "there is no /dev/fuse here";
  return spawnSync("fusermount3", ["-V"]).status === 0 ? undefined : "there is no fusermount3 here (fuse3)";
}

export class LazyDisk {
  /** What the server uses. */
  readonly path: string;
  /** What is on the disk. Its path is short: a command to LazyFS has at most 100 bytes. */
  readonly #root: string;
  readonly #folder: string;
  readonly #fifo: string;
  #process: ChildProcess | undefined;

  constructor() {
    // LazyFS takes a path with "-o" in it for an option.
    this.#folder = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), "p."));
    this.#root = join(this.#folder, "r");
    this.path = join(this.#folder, "m");
    this.#fifo = join(this.#folder, "f");
    for (const folder of [this.#root, this.path]) mkdirSync(folder);
    spawnSync("mkfifo", [this.#fifo]);
    writeFileSync(join(this.#folder, "c"), this.#configuration());
  }

  #configuration(): string {
    return [
      "[faults]",
      `fifo_path="${this.#fifo}"`,
      "[cache]",
      "apply_eviction=false",
      "[cache.simple]",
      'custom_size="256mb"',
      "blocks_per_page=1",
      "[filesystem]",
      "log_all_operations=false",
      'logfile=""',
      "",
    ].join("\n");
  }

  async powerOn(): Promise<void> {
    const options = [
      "--config-path",
      join(this.#folder, "c"),
      "-o",
      "modules=subdir",
      "-o",
      `subdir=${this.#root}`,
    ];
    const child = spawn(LAZYFS, [this.path, ...options, "-f"], { stdio: ["ignore", "pipe", "pipe"] });
    this.#process = child;
    let words = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("latin1").on("data", (text: string) => {
        words = (words + text).slice(-5000);
      });
    await eventually(
      () => `LazyFS mounts ${this.path}: ${words}`,
      () => {
        if (child.exitCode !== null) throw new Error(`LazyFS ended: ${words}`);
        return /waiting for fault commands/.test(words) && isMounted(this.path);
      },
    );
  }

  /**
   * Takes the power away. Returns a moment before that, by the clock of `performance.now`: what was
   * synced by then is on the disk.
   */
  async losePower(loss: Loss, random: SeededRandom): Promise<number> {
    const lostAtMs = performance.now();
    if (loss !== "between") {
      writeFileSync(this.#fifo, `${this.#tear(loss, random)}\n`);
      // It ends by itself with the write; where no such write comes, it is ended all the same.
      while (this.#isOn && performance.now() < lostAtMs + TEAR_MS) await sleep(1);
    }
    await this.#end();
    return lostAtMs;
  }

  /** Also after a loss of power. */
  async remove(): Promise<void> {
    await this.#end();
    rmSync(this.#folder, { recursive: true });
  }

  get #isOn(): boolean {
    return (
      this.#process !== undefined && this.#process.exitCode === null && this.#process.signalCode === null
    );
  }

  /** A command to LazyFS about the file that was written last. */
  #tear(loss: "torn write" | "torn sequence", random: SeededRandom): string {
    const names = readdirSync(this.path).filter((name) => name !== "lock");
    const times = names.map((name) => statSync(join(this.path, name)).mtimeMs);
    const file = join(this.#root, names[times.indexOf(Math.max(...times))] ?? "none");
    if (loss === "torn sequence")
      return `lazyfs::torn-seq::op=write::file=${file}::persist=${random.pick(["2", "3", "1,3", "2,4"])}`;
    const parts = random.between(2, PARTS_MAX);
    const [one, other] = [random.between(1, parts), random.between(1, parts)];
    const kept = one === other ? `${one}` : `${Math.min(one, other)},${Math.max(one, other)}`;
    return `lazyfs::torn-op::file=${file}::parts=${parts}::persist=${kept}`;
  }

  async #end(): Promise<void> {
    const child = this.#process;
    if (child === undefined) return;
    this.#process = undefined;
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    }
    spawnSync("fusermount3", ["-u", "-z", this.path]);
  }
}

const isMounted = (path: string): boolean => readFileSync("/proc/mounts", "latin1").includes(` ${path} fuse`);
