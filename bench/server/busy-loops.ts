// Busy loops beside the servers, in processes of their own with the servers' priority.
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("./busy-loop.ts", import.meta.url));

/** Runs `work` once all loops turn, and ends them when it has settled. */
export async function withBusyLoops<T>(count: number, work: () => Promise<T>): Promise<T> {
  const loops: BusyLoop[] = [];
  const killAll = () => {
    for (const loop of loops) loop.kill();
  };
  process.on("exit", killAll);
  try {
    for (let i = 0; i < count; i++) loops.push(new BusyLoop());
    await Promise.all(loops.map(({ isTurning }) => isTurning));
    return await work();
  } finally {
    await Promise.all(loops.map((loop) => loop.stop()));
    process.off("exit", killAll);
  }
}

class BusyLoop {
  /** Rejects if it ends before. */
  readonly isTurning: Promise<void>;
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;

  constructor() {
    this.#child = spawn(process.execPath, [PROGRAM], { stdio: ["ignore", "pipe", "inherit"] });
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

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  async stop(): Promise<void> {
    this.kill();
    await this.#ended;
  }
}
