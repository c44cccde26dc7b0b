// Copies jobs of a tube into any tube. Each copy is a put by this thread, so the target may be on
// another shard.

import type { BrowsePart, BulkPart, BulkQuestion, JobFacts } from "../../message/control.ts";
import type { Bodies } from "../link/bodies.ts";
import type { ControlClient } from "../link/control-client.ts";
import type { NewPut, PutPool } from "../link/put-pool.ts";
import { TaskRefused } from "./task-refused.ts";

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
