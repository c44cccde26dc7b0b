// Registry of bulk tasks: the running ones with their progress, and the last ones that ended.

import type { BulkPart, BulkQuestion } from "../../message/control.ts";
import { Busy } from "../link/busy.ts";
import type { ControlClient } from "../link/control-client.ts";
import type { Copying } from "./copying.ts";
import { TaskRefused } from "./task-refused.ts";

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
