// Requests to the server, each with a time limit, and tasks of bulk operations.

import type { TaskRow as Task } from "./view-types.ts";

export type { Task };

/** Time limit of each request, to the end of its answer; and of each silence of a stream. */
export const ANSWER_MS = 15_000;
/** A short task should show its end at once, and a long one needs no hurry. */
const POLL_MS_MIN = 200;
const POLL_MS_MAX = 1500;

/**
 * The filter of a list of jobs: in the request's form, and in words ("with “acme” in the body").
 */
export interface JobFilter {
  readonly where: object;
  readonly words: string;
}

/** One request of a bulk action: a tube, and which of its jobs. */
export interface Step {
  readonly tube: string;
  readonly where?: object;
}

/**
 * Returns the status and the content of the response. Throws an error with a readable message if no
 * complete response arrives within the limit, or if it isn't the server's.
 */
export async function answerOf(
  path: string,
  { signal, ...init }: RequestInit = {},
): Promise<{ readonly status: number; readonly content: unknown }> {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), ANSWER_MS);
  let status = 0;
  try {
    const signals = signal == null ? [limit.signal] : [limit.signal, signal];
    const response = await fetch(path, { ...init, signal: AbortSignal.any(signals) });
    status = response.status;
    const text = await response.text();
    return { status, content: text === "" ? undefined : JSON.parse(text) };
  } catch (error) {
    if (limit.signal.aborted) throw new Error(`The server has not answered within ${ANSWER_MS / 1000} s.`);
    if (error instanceof SyntaxError)
      throw new Error(
        `The answer, with status ${status}, is not from this server. Is there a proxy in between?`,
      );
    throw new Error("The server did not answer.");
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the detail of a problem; a proxy's response may have none. */
export const detailOf = (content: unknown, status: number): string =>
  (content as { detail?: string } | undefined)?.detail ?? `The server answered with status ${status}.`;

/**
 * Returns the response's content; undefined if it has none. Throws an error with a readable
 * message.
 */
export async function send(
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<unknown> {
  const { status, content } = await answerOf(path, {
    method,
    headers: body === undefined ? headers : { "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }).catch(({ message }: Error) => {
    throw new Error(
      method === "GET" ? message : `${message} The request may or may not have been carried out.`,
    );
  });
  if (status >= 400) throw new Refusal(detailOf(content, status), (content as { code?: string })?.code);
  return content;
}

/** Returns the content of a path, as `send` does. */
export const get = (path: string): Promise<unknown> => send("GET", path);

class Refusal extends Error {
  /** Undefined for a proxy's. */
  readonly code: string | undefined;

  constructor(detail: string, code: string | undefined) {
    super(detail);
    this.code = code;
  }
}

/** Tells whether a request was refused because its tube is gone: it has no jobs any more. */
export const isGone = (error: unknown): boolean =>
  error instanceof Refusal && error.code === "tube-not-found";

/** Sends a request that may become a task, and follows the task to its end. */
export async function sendBulk(
  path: string,
  body: unknown,
  onTask: (task: Task) => void,
): Promise<{ affected: number; isStopped: boolean }> {
  const answer = (await send("POST", path, body, { prefer: "respond-async" }).catch((error: Error) => {
    if (isGone(error)) return { affected: 0 };
    throw error;
  })) as Task | { affected: number };
  if (!("id" in answer)) return { affected: answer.affected, isStopped: false };
  onTask(answer);
  const ended = isOver(answer) ? answer : await follow(answer.id, onTask);
  if (ended.state === "failed") throw new Error(ended.fault ?? "The task failed.");
  return { affected: ended.affected, isStopped: ended.state === "cancelled" };
}

/** A cancelled task first finishes its current step. */
const isOver = ({ endedAt }: Task): boolean => endedAt !== null;

/** Follows a task. Throws if the server doesn't answer. */
async function follow(id: string, onTask: (task: Task) => void): Promise<Task> {
  for (let waitMs = POLL_MS_MIN; ; waitMs = Math.min(POLL_MS_MAX, waitMs * 1.5)) {
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    const task = (await get(`v1/tasks/${id}`)) as Task;
    onTask(task);
    if (isOver(task)) return task;
  }
}
