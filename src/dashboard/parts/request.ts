// Requests that change something, and tasks of bulk operations.

import type { TaskRow as Task } from "./view-types.ts";

export type { Task };

const POLL_MS = 250;

/** The filter of a list of jobs: as a request has it, and in words ("with “acme” in the body"). */
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
 * Returns the response's content; undefined if it has none. Throws an error with a readable
 * message.
 */
export async function send(
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? headers : { "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch {
    throw new Error("The server did not answer; the request may or may not have been carried out.");
  }
  const answer: unknown = response.status === 204 ? undefined : await response.json();
  if (!response.ok) throw new Error((answer as { detail: string }).detail);
  return answer;
}

/** Sends a request that may become a task, and follows the task to its end. */
export async function sendBulk(
  path: string,
  body: unknown,
  onTask: (task: Task) => void,
): Promise<{ affected: number; isStopped: boolean }> {
  const answer = (await send("POST", path, body, { prefer: "respond-async" })) as Task | { affected: number };
  if (!("id" in answer)) return { affected: answer.affected, isStopped: false };
  onTask(answer);
  const ended = isOver(answer) ? answer : await follow(answer.id, onTask);
  if (ended.state === "failed") throw new Error(ended.fault ?? "It has failed.");
  return { affected: ended.affected, isStopped: ended.state === "cancelled" };
}

/** A cancelled task first finishes its current step. */
const isOver = ({ endedAt }: Task): boolean => endedAt !== null;

/**
 * Follows a task by a stream. Without a stream it polls, and throws if the server doesn't answer.
 */
async function follow(id: string, onTask: (task: Task) => void): Promise<Task> {
  const seen = await stream(id, onTask);
  if (seen !== undefined) return seen;
  for (;;) {
    const task = (await send("GET", `v1/tasks/${id}`)) as Task;
    onTask(task);
    if (isOver(task)) return task;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Resolves to undefined if the stream ends before the task. */
function stream(id: string, onTask: (task: Task) => void): Promise<Task | undefined> {
  return new Promise((resolve) => {
    const source = new EventSource(`v1/events?view=task&id=${id}`);
    const end = (task?: Task): void => {
      source.close();
      resolve(task);
    };
    source.addEventListener("view", (event) => {
      const { task } = JSON.parse((event as MessageEvent<string>).data) as { task: Task | null };
      if (task === null) return end();
      onTask(task);
      if (isOver(task)) end(task);
    });
    source.addEventListener("error", () => end());
  });
}
