// Requests that change something, and tasks: what is done to many jobs.

export interface Task {
  readonly id: string;
  readonly state: "running" | "done" | "cancelled" | "failed";
  /** Why it has failed. */
  readonly fault: string | null;
  readonly affected: number;
  /** 0 to 1. */
  readonly progress: number;
}

const POLL_MS = 250;

/** Undefined for an answer without content. Throws what went wrong, in words. */
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
    throw new Error("The server does not answer; nobody knows whether it was done.");
  }
  const answer: unknown = response.status === 204 ? undefined : await response.json();
  if (!response.ok) throw new Error((answer as { detail: string }).detail);
  return answer;
}

/** Asks for something that may become a task, and follows that to its end. */
export async function sendBulk(
  path: string,
  body: unknown,
  onTask: (task: Task) => void,
): Promise<{ affected: number; isStopped: boolean }> {
  let answer = (await send("POST", path, body, { prefer: "respond-async" })) as Task | { affected: number };
  while ("id" in answer) {
    onTask(answer);
    if (answer.state !== "running") break;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    answer = (await send("GET", `v1/tasks/${answer.id}`)) as Task;
  }
  if ("state" in answer && answer.state === "failed") throw new Error(answer.fault ?? "It has failed.");
  return { affected: answer.affected, isStopped: "state" in answer && answer.state === "cancelled" };
}
