// Those who judge a history: our checker in a thread and, if there is one, another program, whose
// verdicts must be the same.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { Worker } from "node:worker_threads";
import { type Judgement, operationsOf } from "./check-history.ts";
import type { Verdict } from "./linearize.ts";
import type { History } from "./operation.ts";

export interface Judge {
  judge(history: History): Promise<Judgement>;
  close(): Promise<void>;
}

/** Answers come in the order of the questions. */
export class OurJudge implements Judge {
  readonly #worker = new Worker(new URL("check-worker.ts", import.meta.url));
  readonly #waiting: { resolve(judgement: Judgement): void; reject(error: Error): void }[] = [];

  constructor() {
    this.#worker.on("message", (judgement: Judgement) => this.#waiting.shift()!.resolve(judgement));
    this.#worker.on("error", (error: Error) => this.#refuse(error));
    this.#worker.on("exit", () => this.#refuse(new Error("the thread of the checker has ended")));
  }

  judge(history: History): Promise<Judgement> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#worker.postMessage(history);
    });
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #refuse(error: Error): void {
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}

/**
 * A program that reads histories, one JSON object a line, and writes `accepted`, `refused` or
 * `undecided` for each: README.md says what is in them.
 */
export class ForeignJudge implements Judge {
  readonly #ours: Judge;
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #waiting: ((line: string | undefined) => void)[] = [];

  constructor(program: string, ours: Judge) {
    this.#ours = ours;
    const [file = program, ...args] = program.split(" ");
    this.#child = spawn(file, args, { stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface(this.#child.stdout);
    lines.on("line", (line) => this.#waiting.shift()?.(line));
    this.#child.on("error", (error) => console.error(`--checker ${program}: ${error.message}`));
    this.#child.on("close", () => {
      for (const give of this.#waiting.splice(0)) give(undefined);
    });
    // Whoever waits hears of the end.
    this.#child.stdin.on("error", () => {});
  }

  async judge(history: History): Promise<Judgement> {
    const ours = await this.#ours.judge(history);
    const operations = operationsOf(history, ours.slack, ours.sawUndone);
    const line = await new Promise<string | undefined>((resolve) => {
      this.#waiting.push(resolve);
      this.#child.stdin.write(`${JSON.stringify({ name: history.name, operations })}\n`);
    });
    if (line === undefined) throw new Error("the program named by --checker has ended");
    const theirs = line.trim() as Verdict;
    if (theirs === ours.verdict) return ours;
    const why = `ours says ${ours.verdict}, the other checker ${theirs}\n${ours.why}`;
    return {
      ...ours,
      verdict: theirs === "refused" || ours.verdict === "refused" ? "refused" : "undecided",
      why,
    };
  }

  async close(): Promise<void> {
    const ended = once(this.#child, "close");
    this.#child.stdin.end();
    await ended;
  }
}
