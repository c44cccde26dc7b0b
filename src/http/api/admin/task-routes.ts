// Routes that show the progress of tasks and cancel them.

import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { mayTouchTube } from "../../../access/identity.ts";
import type { Task } from "../../state/task-registry.ts";
import { answers, type Routes } from "../api.ts";
import { Problem } from "../problem.ts";
import { Fields, TaskBody } from "../schemas.ts";

const may = { may: "manage" } as const;
const Params = Type.Object({ id: Type.String({ maxLength: 40 }) });

export const taskRoutes: Routes = (api, service) => {
  const find = ({
    params: { id },
    identity,
  }: Pick<FastifyRequest, "identity"> & { params: { id: string } }): Task => {
    const task = service.tasks.get(id);
    // Hide tasks on tubes that the token can't access.
    if (task === undefined || (identity !== undefined && !mayTouchTube(identity, task.tube)))
      throw new Problem("task-not-found", `There is no task ${id}; the server keeps the last 100.`);
    return task;
  };
  api.get(
    "/v1/tasks",
    {
      config: { ...may, live: true },
      schema: { summary: "Tasks", response: answers({ 200: Fields({ items: Type.Array(TaskBody) }) }) },
    },
    () => ({ items: service.tasks.all.map(taskView) }),
  );
  api.get(
    "/v1/tasks/:id",
    {
      config: { ...may, live: true },
      schema: { summary: "A task", params: Params, response: answers({ 200: TaskBody }, 404) },
    },
    (request) => taskView(find(request)),
  );
  api.delete(
    "/v1/tasks/:id",
    {
      config: may,
      schema: {
        summary: "Cancels a task and keeps what it has done",
        params: Params,
        response: answers({ 200: TaskBody }, 404),
      },
    },
    async (request) => {
      const task = find(request);
      task.cancel();
      await task.done.catch(() => {});
      return taskView(task);
    },
  );
};

export function taskView(task: Task): Static<typeof TaskBody> {
  const { id, act, tube, state, fault, affected, examined, progress, startedAtMs, endedAtMs } = task;
  return {
    id,
    act,
    tube,
    state,
    fault: fault ?? null,
    affected,
    examined,
    progress: Math.round(progress * 1000) / 1000,
    startedAt: new Date(startedAtMs).toISOString(),
    endedAt: endedAtMs === undefined ? null : new Date(endedAtMs).toISOString(),
  };
}
