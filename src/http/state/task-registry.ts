// Registry of bulk tasks: the running ones with their progress, and the last ones that ended.

import type { BrowsePart, BulkPart, BulkQuestion, JobFacts } from "../../message/control.ts";
import { Busy, type ControlClient } from "../link/control-client.ts";
import type { NewPut, PutPool } from "../link/put-pool.ts";
import type { Bodies } from "../link/wire-connection.ts";

// Error that ends a task: the target tube or its shard refuses the jobs that the task moves or
// copies.

export class TaskRefused extends Error {
  /** The reply that a put would get, such as `TUBE_FULL`. */
  readonly refusal: string;

  /** `done` says what the task did before that, such as `After 2 copies, a put`. */
  constructor(refusal: string, done: string) {
    super(`${done} was refused: ${refusal}`);
    this.refusal = refusal;
  }
}

// Copies jobs of a tube into any tube. Each copy is a put by this thread, so the target may be on
// another shard.

/** Maximum of jobs, and of their body bytes, that are read before they are put. */
const STEP_JOBS = 100;
const STEP_BODY_BYTES = 512 * 1024;
/** Maximum of a body that comes with its job. Longer ones are read separately. */
const BODY_BYTES_MAX = 65_536;
const LOOKS_MAX = 50_000;

interface CopyQuestion extends Omit<BulkQuestion, "act"> {
  readonly to: string;
}

interface CopyParts {
  readonly control: ControlClient;
  readonly bodies: Bodies;
  readonly puts: PutPool;
}

/**
 * Copies jobs in order of their ids, up to `lastId`, so that copies into the same tube are not
 * copied again.
 */
export class Copying {
  readonly #parts: CopyParts;
  readonly #shard: number;
  readonly #question: CopyQuestion;
  readonly #firstId: number;
  readonly #lastId: number;
  #affected = 0;
  #examined = 0;
  #isStopped = false;

  constructor(parts: CopyParts, shard: number, question: CopyQuestion, lastId: number) {
    this.#parts = parts;
    this.#shard = shard;
    this.#question = question;
    this.#firstId = Math.max(1, question.where.idFrom ?? 1) - 1;
    this.#lastId = Math.min(lastId, question.where.idTo ?? lastId);
  }

  /** Stops after the current step. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Resolves once all copies are as durable as `-f` requires. Throws TaskRefused. */
  async run(report: (part: BulkPart) => void): Promise<void> {
    let afterId = this.#firstId;
    let hasEnded = false;
    let progress = 0;
    const tell = (): void => report({ affected: this.#affected, examined: this.#examined, progress });
    try {
      while (!hasEnded && !this.#isStopped && this.#affected < this.#question.max) {
        const parts = await this.#read(afterId);
        for (const { jobs, examined } of parts) {
          this.#examined += examined;
          await this.#put(jobs);
        }
        const last = parts.at(-1)!;
        hasEnded = last.hasEnded;
        afterId = last.doneId;
        const share = (afterId - this.#firstId) / Math.max(1, this.#lastId - this.#firstId);
        progress = Math.min(1, share);
        tell();
      }
      progress = this.#isStopped ? 0 : 1;
    } finally {
      // Also reports the copies before a refused one.
      tell();
    }
  }

  async #read(afterId: number): Promise<BrowsePart[]> {
    const { tube, states, where, max } = this.#question;
    const { control } = this.#parts;
    const parts: BrowsePart[] = [];
    const question = {
      tube,
      states,
      where: { ...where, idTo: this.#lastId },
      order: "scan",
      afterId,
      limit: Math.min(STEP_JOBS, max - this.#affected),
      bodyMax: BODY_BYTES_MAX,
      bodyBytesMax: STEP_BODY_BYTES,
      looksMax: LOOKS_MAX,
    } as const;
    await control.askParts(this.#shard, "browse", question, (bytes) => {
      parts.push(control.valueOf<"browse">(bytes));
    });
    return parts;
  }

  async #put(jobs: readonly JobFacts[]): Promise<void> {
    const puts: { put: NewPut; body: Uint8Array }[] = [];
    for (const job of jobs) {
      const body = await this.#bodyOf(job);
      if (body !== undefined) puts.push({ put: this.#copyOf(job), body });
    }
    const outcomes = await this.#parts.puts.putMany(puts);
    this.#affected += outcomes.filter((outcome) => "id" in outcome).length;
    const refused = outcomes.find((outcome) => "refusal" in outcome);
    if (refused !== undefined && "refusal" in refused)
      throw new TaskRefused(refused.refusal, `After ${this.#affected} copies, a put`);
  }

  /** Returns the body, or undefined if the job no longer exists. */
  async #bodyOf({ id, bytes, body }: JobFacts): Promise<Uint8Array | undefined> {
    return body !== undefined && body.length === bytes ? body : await this.#parts.bodies.read(id);
  }

  #copyOf({ state, pri, ttr, timeLeft }: JobFacts): NewPut {
    const delay = state === "delayed" ? Math.ceil(timeLeft) : 0;
    return { tube: this.#question.to, pri, delay, ttr };
  }
}

const RUNNING_MAX = 8;
const ENDED_MAX = 100;

export interface Task {
  readonly id: string;
  readonly act: BulkQuestion["act"] | "copy";
  readonly tube: string;
  readonly startedAtMs: number;
  endedAtMs: number | undefined;
  affected: number;
  examined: number;
  /** 0 to 1. */
  progress: number;
  state: "running" | "done" | "cancelled" | "failed";
  /** Reason of a failure. */
  fault: string | undefined;
  /** Resolves when the task has ended; rejects if it failed. */
  readonly done: Promise<void>;
  cancel(): void;
}

/** The work behind a task. It can be stopped. */
interface Work {
  readonly done: Promise<void>;
  stop(): void;
}

export class TaskRegistry {
  readonly #control: ControlClient;
  readonly #wallMs: () => number;
  /** Oldest first. */
  readonly #tasks = new Map<string, Task>();
  #count = 0;

  constructor(control: ControlClient, wallMs: () => number) {
    this.#control = control;
    this.#wallMs = wallMs;
  }

  get all(): Task[] {
    return [...this.#tasks.values()];
  }

  get(id: string): Task | undefined {
    return this.#tasks.get(id);
  }

  /** Starts a bulk operation on the tube's shard. */
  start(shard: number, question: BulkQuestion): Task {
    return this.#add(question.act, question.tube, (report) => {
      let last: BulkPart | undefined;
      const { number, done: ended } = this.#control.begin(shard, "bulk", question, (bytes) => {
        last = this.#control.valueOf<"bulk">(bytes);
        report(last);
      });
      const done = ended.then(() => {
        if (last?.refusal !== undefined)
          throw new TaskRefused(last.refusal, `After ${last.affected} jobs one`);
      });
      return { done, stop: () => void this.#control.ask(shard, "cancel", { number }) };
    });
  }

  /** Starts a copy, which this thread runs. */
  startCopying(tube: string, copying: Copying): Task {
    return this.#add("copy", tube, (report) => ({ done: copying.run(report), stop: () => copying.stop() }));
  }

  #add(act: Task["act"], tube: string, begin: (report: (part: BulkPart) => void) => Work): Task {
    if (this.all.filter(({ state }) => state === "running").length >= RUNNING_MAX)
      throw new Busy(`${RUNNING_MAX} tasks are under way`);
    const id = `t${++this.#count}`;
    const work = begin(({ affected, examined, progress }) =>
      Object.assign(task, { affected, examined, progress }),
    );
    const task: Task = {
      id,
      act,
      tube,
      startedAtMs: this.#wallMs(),
      endedAtMs: undefined,
      affected: 0,
      examined: 0,
      progress: 0,
      state: "running",
      fault: undefined,
      done: work.done
        .catch((error: unknown) => {
          task.state = "failed";
          task.fault = (error as Error).message;
          throw error;
        })
        .finally(() => {
          if (task.state === "running") task.state = "done";
          task.endedAtMs = this.#wallMs();
        }),
      cancel: () => {
        if (task.state !== "running") return;
        task.state = "cancelled";
        work.stop();
      },
    };
    this.#tasks.set(id, task);
    this.#forgetOld();
    return task;
  }

  #forgetOld(): void {
    for (const [id, { state }] of this.#tasks) {
      if (this.#tasks.size <= ENDED_MAX) return;
      if (state !== "running") this.#tasks.delete(id);
    }
  }
}
