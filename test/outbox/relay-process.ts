// `runnerbean outbox run` in a process.

import { type ChildProcess, spawn } from "node:child_process";
import { endsWithUs, ourMain, TEST_ENV } from "../support/server/server-process.ts";

export class RelayProcess {
  readonly child: ChildProcess;
  readonly exited: Promise<number | null>;
  #stderr = "";

  /** `args` follow `outbox run`. */
  constructor(args: readonly string[]) {
    const command = [ourMain(TEST_ENV), "outbox", "run", ...args];
    this.child = spawn(process.execPath, command, { env: TEST_ENV, stdio: ["ignore", "ignore", "pipe"] });
    endsWithUs(this.child);
    this.child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
    });
    this.exited = new Promise((resolve) => this.child.once("close", resolve));
  }

  get stderr(): string {
    return this.#stderr;
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<number | null> {
    this.child.kill(signal);
    return await this.exited;
  }
}
