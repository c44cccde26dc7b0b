// What is done to many jobs, as tasks: how far each has come, and the last that have ended.

import type { BulkQuestion } from "../../message/control.ts";
import { Busy } from "./busy.ts";
import type { ControlClient } from "./control-client.ts";

const RUNNING_MAX = 8;
const ENDED_MAX = 100;

export interface Task {
  readonly id: string;
  readonly act: BulkQuestion["act"];
  readonly tube: string;
  readonly startedAtMs: number;
  endedAtMs: number | undefined;
  affected: number;
  examined: number;
  /** 0 to 1. */
  progress: number;
  state: "running" | "done" | "cancelled";
  /** Resolves when it has ended. */
  readonly done: Promise<void>;
  cancel(): void;
}

export class TaskBook {
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

  /** Begins on the shard of the tube. */
  start(shard: number, question: BulkQuestion): Task {
    if (this.all.filter(({ state }) => state === "running").length >= RUNNING_MAX)
      throw new Busy(`${RUNNING_MAX} tasks are under way`);
    const id = `t${++this.#count}`;
    const { number, done } = this.#control.begin(shard, "bulk", question, (bytes) => {
      Object.assign(task, this.#control.valueOf<"bulk">(bytes));
    });
    const task: Task = {
      id,
      act: question.act,
      tube: question.tube,
      startedAtMs: this.#wallMs(),
      endedAtMs: undefined,
      affected: 0,
      examined: 0,
      progress: 0,
      state: "running",
      done: done
        .catch((error: unknown) => {
          task.state = "cancelled";
          throw error;
        })
        .finally(() => {
          if (task.state === "running") task.state = "done";
          task.endedAtMs = this.#wallMs();
        }),
      cancel: () => {
        if (task.state !== "running") return;
        task.state = "cancelled";
        this.#control.ask(shard, "cancel", { number }).catch(() => {});
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
