// Worker loop: reserves jobs up to its limits, touches them, deletes finished ones, and stops
// cleanly.

import { wholeSeconds } from "./command-text.ts";
import { Closed, DeadlineSoon, JobCancelled } from "./errors.ts";
import type { Job } from "./job.ts";
import { TIMER_MS_MAX } from "./link.ts";
import type { Queue } from "./queue.ts";
import type { Reserver, Tubes } from "./reserver.ts";
import type { Tracer } from "./tracing.ts";
import type { ReserveOrder } from "./wire.ts";

export type Handler<Out> = (job: Job<Out>, signal: AbortSignal) => unknown;

/** How a worker retries a job whose handler failed. */
export interface RetryOptions {
  /** How often a job is tried, 1 or more; then it is buried. By default, the tube decides. */
  readonly attempts?: number;
  /** Seconds until the next attempt, or a function of the number of the failed attempt; 0. */
  readonly delay?: number | ((attempt: number) => number);
}

export interface WorkOptions<Out> {
  /** Number of jobs at the same time; 1 by default. */
  readonly concurrency?: number;
  /** Maximum of jobs per reserve; by default as many as there is room for. */
  readonly batch?: number;
  /**
   * Called when a handler fails, to decide about the job. A job that is still held afterwards is
   * retried or buried as `retry` says, as it is without this function.
   */
  readonly onError?: (error: unknown, job: Job<Out>) => unknown;
  /**
   * Whether a failed job is tried again. By default, it is released with the error's message as the
   * reason if its tube has `maxAttempts`, whose backoff and dead letter apply then, and buried
   * otherwise. `false` always buries.
   */
  readonly retry?: false | RetryOptions;
  /**
   * Called for other errors: of a handler if there is no `onError`, of a reserve, or at the end of
   * a job. Use it for logging; the worker continues. Without it, the worker writes them to stderr,
   * one per line.
   */
  readonly onWarning?: (error: unknown, job?: Job<Out>) => void;
  /**
   * For tubes with weights: whether these are shares of the jobs (`"weighted"`) or of the time for
   * which the worker has jobs.
   */
  readonly order?: ReserveOrder;
  /** Follows the client's name on the worker's connections, as in `host:pid/label`. */
  readonly label?: string;
}

const LINE_LENGTH_MAX = 2000;
/** Delay before a failed reserve is retried. */
const PAUSE_MS = 1000;

export class Worker<Out> {
  readonly #reserver: Reserver<Out>;
  readonly #handler: Handler<Out>;
  readonly #options: WorkOptions<Out>;
  readonly #tracer: Tracer | undefined;
  readonly #running = new Map<Job<Out>, Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #taking: Promise<void>;
  #stopped: Promise<void> | undefined;
  #wake = (): void => {};
  /** The last line about a reserve: a repeated failure is reported once. */
  #lastLine = "";

  /** @internal Use `work`. */
  constructor(
    reserver: Reserver<Out>,
    handler: Handler<Out>,
    options: WorkOptions<Out>,
    tracer: Tracer | undefined,
  ) {
    this.#reserver = reserver;
    this.#handler = handler;
    this.#options = options;
    this.#tracer = tracer;
    if (typeof handler !== "function")
      throw new TypeError("a worker needs a handler: work(queue, tubes, async (job) => …)");
    for (const number of [options.concurrency ?? 1, options.batch ?? 1])
      if (!Number.isInteger(number) || number < 1)
        throw new RangeError(`${number} is not a valid number of jobs: 1 or more`);
    const { attempts = 1, delay = 0 } = options.retry || {};
    if (!Number.isInteger(attempts) || attempts < 1)
      throw new RangeError(`${attempts} is not a valid number of attempts: 1 or more`);
    if (typeof delay === "number") wholeSeconds(delay, "delay");
    this.#taking = this.#take();
  }

  /**
   * Stops the worker. It takes no more jobs and waits up to `graceMs` (forever by default) for
   * running ones. It aborts the signals of the rest, gives them back and closes the connections.
   * With extensions, giving back doesn't count as an attempt.
   */
  stop({ graceMs = Number.POSITIVE_INFINITY }: { readonly graceMs?: number } = {}): Promise<void> {
    this.#stopped ??= this.#stop(graceMs);
    return this.#stopped;
  }

  async #stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    await this.#taking;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise((resolve) => {
      if (graceMs < TIMER_MS_MAX) timer = setTimeout(resolve, graceMs);
    });
    await Promise.race([late, Promise.all(this.#running.values())]);
    clearTimeout(timer);
    // Sent before the connections close, and awaited no longer than that.
    const givenBack = [...this.#running.keys()].map((job) => this.#quietly(job.giveBack(), job));
    await this.#reserver.close();
    await Promise.all(givenBack);
  }

  async #take(): Promise<void> {
    const { signal } = this.#stopping;
    const { concurrency = 1, batch = concurrency } = this.#options;
    const count = (): number => Math.min(batch, concurrency - this.#running.size);
    let isAlone = false;
    while (!signal.aborted) {
      try {
        if (count() > 0)
          for (const job of await this.#reserver.take({ count, signal, isAlone })) this.#begin(job);
        else await this.#pause();
        this.#lastLine = "";
        isAlone = false;
      } catch (error) {
        if (signal.aborted) return;
        // Held jobs with a time to run of a second or two always cause DEADLINE_SOON, so reserve on
        // another connection.
        const isFirst: boolean = error instanceof DeadlineSoon && !isAlone;
        isAlone = isFirst;
        if (isFirst) continue;
        this.#warn(error);
        await this.#pause(PAUSE_MS);
      }
    }
  }

  /** Waits until a job ends or `stop` is called, or for the limit. */
  async #pause(limitMs = TIMER_MS_MAX): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      timer = setTimeout(resolve, limitMs);
      this.#wake = resolve;
    });
    clearTimeout(timer);
  }

  #begin(job: Job<Out>): void {
    // The job arrived during the stop.
    const run = this.#stopping.signal.aborted ? this.#quietly(job.giveBack(), job) : this.#run(job.keep());
    const over = run.finally(() => {
      this.#running.delete(job);
      this.#wake();
    });
    this.#running.set(job, over);
  }

  async #run(job: Job<Out>): Promise<void> {
    try {
      const handle = (): unknown => this.#handler(job, job.signal);
      await (this.#tracer === undefined ? handle() : this.#tracer.process(job, handle));
    } catch (error) {
      return await this.#failed(error, job);
    }
    // Deletes even a lost job: the finished work need not be repeated. The delete fails, and is
    // not sent, if the id may name another job by now.
    if (!job.isOver || job.signal.aborted) await this.#quietly(job.delete(), job);
  }

  async #failed(error: unknown, job: Job<Out>): Promise<void> {
    const { onError } = this.#options;
    // It goes, and that is no failure.
    if (!job.isOver && job.signal.reason instanceof JobCancelled)
      return await this.#quietly(job.release(), job);
    if (job.signal.aborted || onError === undefined) this.#warn(error, job);
    if (job.signal.aborted) return;
    if (onError !== undefined) await this.#quietly((async () => await onError(error, job))(), job);
    if (!job.isOver) await this.#quietly(this.#settle(error, job), job);
  }

  async #settle(error: unknown, job: Job<Out>): Promise<void> {
    const { retry = {} } = this.#options;
    const reason = messageOf(error);
    const attempt = retry === false ? 0 : await this.#retried(retry, job);
    if (retry === false || attempt === 0) return await job.bury({ reason });
    const { delay = 0 } = retry;
    await job.release({ reason, delay: typeof delay === "function" ? delay(attempt) : delay });
  }

  /** Returns the number of the failed attempt if the job is to be retried, 0 otherwise. */
  async #retried({ attempts, delay }: RetryOptions, job: Job<Out>): Promise<number> {
    try {
      if (attempts === undefined && !(await job.hasLimit())) return 0;
      if (attempts === undefined && typeof delay !== "function") return 1;
      const attempt = await job.attempt();
      return attempt < (attempts ?? Number.POSITIVE_INFINITY) ? attempt : 0;
    } catch (error) {
      // Without an answer, a job must not come back for ever.
      if (job.isOver) throw error;
      return 0;
    }
  }

  async #quietly(promise: Promise<unknown>, job: Job<Out>): Promise<void> {
    await promise.catch((error) => {
      // A handler may end after `stop`, when its job has been given back.
      if (!(error instanceof Closed && this.#stopping.signal.aborted)) this.#warn(error, job);
    });
  }

  #warn(error: unknown, job?: Job<Out>): void {
    const { onWarning } = this.#options;
    onWarning?.(error, job);
    // Handlers that a stopping worker has aborted need no attention.
    if (onWarning !== undefined || this.#stopping.signal.aborted) return;
    const tube = job?.tube === undefined ? "" : ` of tube ${job.tube}`;
    const what = job === undefined ? "a worker can't reserve" : `job ${job.id}${tube} failed`;
    const line = `runnerbean: ${what}: ${lineOf(error)}`;
    if (job === undefined && line === this.#lastLine) return;
    if (job === undefined) this.#lastLine = line;
    console.error(line);
  }
}

/** Returns the reason of a failure; the kind of an error without a message. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message === "" ? error.name : error.message;
}

/** Returns an error as one line, without its stack and without what a terminal would obey. */
function lineOf(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text.slice(0, LINE_LENGTH_MAX).replace(/[\s\p{Cc}\p{Cf}]+/gu, " ");
}

/**
 * Passes jobs of these tubes, by their weights if given, to a handler, on its own connections,
 * until it is stopped.
 */
export function work<Out, In>(
  queue: Queue<Out, In>,
  tubes: Tubes,
  handler: Handler<Out>,
  options: WorkOptions<Out> = {},
): Worker<Out> {
  const reserver = queue.reserver(options.label);
  reserver.watch(tubes, options.order);
  return new Worker(reserver, handler, options, queue.tracer);
}
