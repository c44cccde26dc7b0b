// Routes that show the progress of tasks and cancel them.

import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { mayTouchTube } from "../../access/identity.ts";
import { answers, type Routes, requireServing } from "../api/api.ts";
import { Problem } from "../api/problem.ts";
import { Fields, TaskBody } from "../api/schemas.ts";
import { type Backup, type BackupRefusal, GONE } from "../queue/backups.ts";
import type { Service } from "../queue/service.ts";
import type { Task } from "../state/task-registry.ts";

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

// Route that streams a backup of the log while the server runs.

const MEBIBYTE = 1 << 20;
/** Default and maximum of the rate, MiB/s. */
const RATE = 16;
const RATE_MAX = 10_000;
/** A client that takes no piece for this long is disconnected, ms. */
const STALL_MS_MAX = 20_000;
/** A client whose average rate is lower is disconnected, once this time has passed. */
const SLOWEST_BYTES_PER_SECOND: number = MEBIBYTE / 2;
const SLOW_AFTER_MS = 60_000;

const REFUSALS: Readonly<Record<BackupRefusal, Problem>> = {
  "under-way": new Problem("backup-under-way", "Another backup is under way; try again when it has ended."),
  full: new Problem("disk-full", "The log's disk has no room for a backup: free some, then try again."),
  late: new Problem("busy", "The log cannot be written now, so no backup can start; try again in a moment."),
};

export const backupRoutes: Routes = (api, service) => {
  const Query = Type.Object({
    rate: Type.Optional(
      Type.Integer({ minimum: 1, maximum: RATE_MAX, description: `MiB per second, ${RATE} by default.` }),
    ),
  });
  api.get(
    "/v1/backup",
    {
      // HEAD would make a cut.
      exposeHeadRoute: false,
      config: { may: "admin", hasEffect: true },
      schema: {
        summary: "All jobs and settings at one moment: a tar archive of the log, for runnerbean restore",
        querystring: Query,
        produces: ["application/x-tar"],
        response: answers({ 200: Type.String() }, 400, 404, 409, 503, 507),
      },
    },
    async (request, reply) => {
      if (service.backups === undefined)
        throw new Problem("no-binlog", "The server was started without -b: there is no log to copy.");
      requireServing(service);
      const backup = await service.backups.begin();
      if (typeof backup === "string") throw REFUSALS[backup];
      const { raw } = reply;
      const forget = request.onRevoked?.(() => raw.destroy());
      raw.on("close", () => {
        forget?.();
        backup.end();
      });
      // The client disconnected, or its token was removed, during the cut.
      if (raw.destroyed || request.stands?.() === false) {
        forget?.();
        backup.breakOff(GONE);
        throw new Problem("unauthenticated", "The token was removed or expired while the backup started.");
      }
      const rate = (request.query.rate ?? RATE) * MEBIBYTE;
      const headers = {
        ...(reply.getHeaders() as OutgoingHttpHeaders),
        "content-type": "application/x-tar",
        "content-disposition": 'attachment; filename="runnerbean-backup.tar"',
      };
      // Fastify doesn't say when the kernel has taken a piece. Without it, no hook records this.
      reply.hijack();
      request.noteAudited?.();
      send(backup, rate, headers, service, raw).then(
        () => raw.end(),
        (error: Error) => {
          backup.breakOff(error.message);
          raw.destroy();
        },
      );
      return reply;
    },
  );
};

/** Throws if the client is too slow, if it disconnects or if the server stops. */
async function send(
  backup: Backup,
  rate: number,
  headers: OutgoingHttpHeaders,
  { state, nowMs }: Service,
  raw: ServerResponse,
): Promise<void> {
  const sinceMs = nowMs();
  let sent = 0;
  try {
    raw.writeHead(200, headers);
    for await (const piece of backup.pieces(rate)) {
      if (state.phase === "stopping") throw new Error("the server stops");
      if (piece.length === 0) continue;
      await written(raw, piece);
      sent += piece.length;
      const tookMs = nowMs() - sinceMs;
      if (tookMs > SLOW_AFTER_MS && sent / tookMs < Math.min(SLOWEST_BYTES_PER_SECOND, rate / 2) / 1000)
        throw new Error("the client reads too slowly");
    }
  } finally {
    // Once everything is read, a client that doesn't take the rest must not hold segments.
    backup.end();
  }
}

/** Resolves once the kernel has taken the piece, which may then be overwritten. */
async function written(raw: ServerResponse, piece: Uint8Array): Promise<void> {
  const stalled = setTimeout(() => raw.destroy(), STALL_MS_MAX);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onClose = (): void => reject(new Error(GONE));
  // A response that waits for its turn on a connection drops its pieces when that is closed.
  raw.once("close", onClose);
  raw.write(piece, (error) => (error ? onClose() : resolve()));
  try {
    await promise;
  } finally {
    clearTimeout(stalled);
    raw.off("close", onClose);
  }
}
