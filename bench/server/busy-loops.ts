// Busy loops beside the servers, in processes of their own with the servers' priority.
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("./busy-loop.ts", import.meta.url));

/** Runs `work` once all loops turn, and ends them when it has settled. */
export async function withBusyLoops<T>(count: number, work: () => Promise<T>): Promise<T> {
  const loops: BusyLoop[] = [];
  try {
    for (let i = 0; i < count; i++) loops.push(new BusyLoop());
    await Promise.all(loops.map(({ isTurning }) => isTurning));
    return await work();
  } finally {
    await Promise.all(loops.map((loop) => loop.stop()));
  }
}

class BusyLoop {
  /** Rejects if it ends before. */
  readonly isTurning: Promise<void>;
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  readonly #kill = () => this.#child.kill("SIGKILL");

  constructor() {
    this.#child = spawn(process.execPath, [PROGRAM], { stdio: ["ignore", "pipe", "inherit"] });
    process.on("exit", this.#kill);
    this.#ended = new Promise((resolve) => {
      this.#child.on("error", () => resolve());
      this.#child.on("close", () => resolve());
    });
    const failed = this.#ended.then(() => {
      throw new Error("A busy loop ended by itself");
    });
    const said = new Promise<void>((resolve) => this.#child.stdout!.once("data", () => resolve()));
    this.isTurning = Promise.race([said, failed]);
    this.isTurning.catch(() => {}); // the waiting caller handles it
  }

  async stop(): Promise<void> {
    this.#kill();
    await this.#ended;
    process.off("exit", this.#kill);
  }
}
