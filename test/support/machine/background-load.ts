// Load on a server from a separate thread, while the test measures other clients.

import { Worker } from "node:worker_threads";

export interface LoadData {
  readonly address: { readonly host: string; readonly port: number } | { readonly path: string };
  /** Kind of load: see load-worker.ts. */
  readonly kind: "greedy" | "huge" | "mixed";
  /** The tube that it uses, or how its tubes' names begin. */
  readonly tube: string;
  /** Number of jobs or large commands. */
  readonly jobs: number;
}

export type LoadNews = { readonly news: "phase"; readonly name: string } | { readonly news: "done" };

export class BackgroundLoad {
  /** Name of the present phase. */
  phase = "start";
  /** Settles when all is done; rejects when the server did not do what was asked. */
  readonly done: Promise<void>;
  isDone = false;
  readonly #worker: Worker;

  constructor(data: LoadData) {
    this.#worker = new Worker(new URL("load-worker.ts", import.meta.url), { workerData: data });
    this.done = new Promise((resolve, reject) => {
      this.#worker.on("message", (news: LoadNews) => {
        if (news.news === "phase") this.phase = news.name;
        else resolve();
      });
      this.#worker.once("error", reject);
      this.#worker.once("exit", () => reject(new Error(`the load ended during: ${this.phase}`)));
    });
    // The caller that awaits `done` sees the error.
    this.done
      .catch(() => {})
      .finally(() => {
        this.isDone = true;
      });
  }

  /** Ends a load that goes on until it is told to. */
  async stop(): Promise<void> {
    this.#worker.postMessage("stop");
    await this.done;
  }

  /** Ends it at once. */
  async abandon(): Promise<void> {
    await this.#worker.terminate();
  }
}
