// Routes for operators to pause, kick, clear, copy, move, update and delete tubes and their jobs.

import type { FastifyReply, FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import type { BulkAct, BulkQuestion, StateName } from "../../message/control.ts";
import { ControlWord } from "../../message/topology.ts";
import { JobIds } from "../../ring/shared-words.ts";
import { TubeField } from "../../schema/tube.ts";
import { taskView } from "../admin/task-routes.ts";
import { answers, type Routes, requireServing, shardOf, tubeOf } from "../api/api.ts";
import { States, WhereBody, whereOf } from "../api/parameters.ts";
import { Problem } from "../api/problem.ts";
import { Fields, TaskBody, TubeParams, tubeQuery } from "../api/schemas.ts";
import { JobSet, requireSomething, withTtr } from "../jobs/job-routes.ts";
import { refused } from "../jobs/put-routes.ts";
import type { Service } from "../queue/service.ts";
import { Copying, type Task, TaskRefused } from "../state/task-registry.ts";
import type { TubeEntry } from "../state/tube-cache.ts";

const may = { may: "manage" } as const;
/** A task that ends within this time is answered with its result, ms. */
const SOON_MS = 2000;
const PAUSE_SECONDS_MAX = 2 ** 32 - 1;

const TubeQuery = Type.Object(tubeQuery);
const KickRequest = Type.Optional(
  Type.Union([
    Fields({
      max: Type.Optional(Type.Integer({ minimum: 1 })),
      states: Type.Optional(States),
      where: Type.Optional(WhereBody),
      dryRun: Type.Optional(Type.Boolean({ description: "Counts only." })),
    }),
    Type.Null(),
  ]),
);
const ClearRequest = Fields({
  states: States,
  where: Type.Optional(WhereBody),
  max: Type.Optional(Type.Integer({ minimum: 1 })),
  dryRun: Type.Optional(Type.Boolean({ description: "Counts only." })),
});
const Affected = Fields({ affected: Type.Integer() });

export const manageRoutes: Routes = (api, service) => {
  addPause(api, service);
  addBulk(api, service);
  addMoveAndUpdate(api, service);
  addDelete(api, service);
};

const addPause: Routes = (api, service) => {
  const pause = async (tube: string, seconds: number): Promise<{ seconds: number }> => {
    requireServing(service);
    const { line } = await service.wire.command(`pause-tube ${tube} ${seconds}`);
    if (line !== "PAUSED") throw line === "NOT_FOUND" ? noSuchTube(tube) : refused(line, service);
    return { seconds };
  };
  const schema = {
    params: TubeParams,
    querystring: TubeQuery,
    response: answers({ 200: Fields({ seconds: Type.Integer() }) }, 400, 404, 503),
  };
  const Seconds = Fields({ seconds: Type.Integer({ minimum: 1, maximum: PAUSE_SECONDS_MAX }) });
  api.put(
    "/v1/tubes/:tube/pause",
    {
      config: may,
      schema: {
        summary: "Pauses a tube: no client can reserve from it for a while",
        body: Seconds,
        ...schema,
      },
    },
    (request) => pause(tubeOf(request.params, request.query), request.body.seconds),
  );
  api.delete(
    "/v1/tubes/:tube/pause",
    { config: may, schema: { summary: "Ends a pause", ...schema } },
    (request) => pause(tubeOf(request.params, request.query), 0),
  );
};

const addBulk: Routes = (api, service) => {
  const shared = {
    params: TubeParams,
    querystring: TubeQuery,
    response: answers({ 200: Affected, 202: TaskBody }, 400, 404, 503),
  };
  api.post(
    "/v1/tubes/:tube/kick",
    { config: may, schema: { summary: "Makes buried and delayed jobs ready", body: KickRequest, ...shared } },
    async (request, reply) => {
      const { states = ["buried", "delayed"], where = {}, max, dryRun } = request.body ?? {};
      if (states.some((state) => state !== "buried" && state !== "delayed"))
        throw new Problem("bad-request", "Only buried and delayed jobs can be kicked.");
      const tube = tubeOf(request.params, request.query);
      return await bulk(service, request, reply, questionOf(tube, "kick", states, { where, max, dryRun }));
    },
  );
  api.post(
    "/v1/tubes/:tube/clear",
    {
      config: may,
      schema: {
        summary: "Deletes jobs of a tube; reserved ones only if states names them",
        body: ClearRequest,
        ...shared,
      },
    },
    async (request, reply) => {
      const { states, where = {}, max, dryRun } = request.body;
      const tube = tubeOf(request.params, request.query);
      return await bulk(service, request, reply, questionOf(tube, "delete", states, { where, max, dryRun }));
    },
  );
};

const QueuedStates = Type.Array(
  Type.Union([Type.Literal("ready"), Type.Literal("delayed"), Type.Literal("buried")]),
  { minItems: 1, maxItems: 3 },
);
const bulkFields = {
  states: QueuedStates,
  where: Type.Optional(WhereBody),
  max: Type.Optional(Type.Integer({ minimum: 1 })),
  dryRun: Type.Optional(Type.Boolean({ description: "Counts only." })),
};

const QUEUED = ["ready", "delayed", "buried"] as const;
const RedriveRequest = Type.Optional(
  Type.Union([Fields({ ...bulkFields, states: Type.Optional(QueuedStates) }), Type.Null()]),
);

const copy = Type.Optional(
  Type.Boolean({
    description: "Puts copies with new ids there, and leaves the jobs where they are.",
  }),
);

const addMoveAndUpdate: Routes = (api, service) => {
  const shared = {
    params: TubeParams,
    querystring: TubeQuery,
    response: answers({ 200: Affected, 202: TaskBody }, 400, 404, 409, 503),
  };
  api.post(
    "/v1/tubes/:tube/move",
    {
      config: may,
      schema: {
        summary: "Moves jobs to another tube; they keep their ids and everything else",
        body: Fields({ ...bulkFields, to: Type.String(), copy }),
        ...shared,
        response: answers({ 200: Affected, 202: TaskBody }, 400, 404, 409, 503, 507),
      },
    },
    async (request, reply) => {
      const { states, where = {}, max, dryRun, to } = request.body;
      const tube = tubeOf(request.params, request.query);
      const question = {
        ...questionOf(tube, "move", states, { where, max, dryRun }),
        to: tubeOf({ tube: "-" }, { tube: to }),
      };
      const isCopy = request.body.copy === true;
      return await (isCopy ? copyTo : bulk)(service, request, reply, question);
    },
  );
  api.post(
    "/v1/tubes/:tube/redrive",
    {
      config: may,
      schema: {
        summary: "Returns dead jobs to the tubes where they died, ready and with all their attempts",
        body: RedriveRequest,
        ...shared,
        response: answers({ 200: Affected, 202: TaskBody }, 400, 404, 409, 503, 507),
      },
    },
    async (request, reply) => {
      const { states = QUEUED, where = {}, max, dryRun } = request.body ?? {};
      if (where.dead === false)
        throw new Problem("bad-request", '"/where/dead" must be true: only dead jobs go back.');
      const tube = tubeOf(request.params, request.query);
      const dead = { ...where, dead: true };
      const question = questionOf(tube, "redrive", states, { where: dead, max, dryRun });
      return await bulk(service, request, reply, question);
    },
  );
  api.post(
    "/v1/tubes/:tube/update",
    {
      config: may,
      schema: {
        summary: "Changes priority, delay or time to run of jobs",
        body: Fields({ ...bulkFields, set: JobSet }),
        ...shared,
      },
    },
    async (request, reply) => {
      const { states, where = {}, max, dryRun, set } = request.body;
      requireSomething(set);
      const tube = tubeOf(request.params, request.query);
      const question = { ...questionOf(tube, "update", states, { where, max, dryRun }), set: withTtr(set) };
      return await bulk(service, request, reply, question);
    },
  );
};

function questionOf(
  tube: string,
  act: BulkAct,
  states: readonly StateName[],
  {
    where,
    max,
    dryRun,
  }: { where: Static<typeof WhereBody>; max: number | undefined; dryRun: boolean | undefined },
): BulkQuestion {
  return {
    tube,
    ...(dryRun === true ? { act: "count", of: act } : { act }),
    states,
    where: whereOf(where),
    max: max ?? Number.MAX_SAFE_INTEGER,
  };
}

/**
 * RFC 7240: with `Prefer: respond-async`, the client gets the task at once, to show its progress.
 */
const wantsTask = ({ headers }: FastifyRequest): boolean =>
  /\brespond-async\b/i.test(`${headers["prefer"] ?? ""}`);

/** Runs a bulk operation on jobs of a tube, on its shard. */
function bulk(
  service: Service,
  request: FastifyRequest,
  reply: FastifyReply,
  question: BulkQuestion,
): Promise<Static<typeof Affected> | Static<typeof TaskBody>> {
  return answerTask(service, request, reply, question.tube, (shard) => service.tasks.start(shard, question));
}

/** Runs a copy, whose puts this thread does. A dry run counts like any other bulk operation. */
async function copyTo(
  service: Service,
  request: FastifyRequest,
  reply: FastifyReply,
  question: BulkQuestion & { readonly to: string },
): Promise<Static<typeof Affected> | Static<typeof TaskBody>> {
  if (question.act === "count") return await bulk(service, request, reply, question);
  const lastId = new JobIds(service.words.words, ControlWord.JobIds).next - 1;
  return await answerTask(service, request, reply, question.tube, (shard) =>
    service.tasks.startCopying(question.tube, new Copying(service, shard, question, lastId)),
  );
}

/** Waits briefly for the task to end. If it is still running then, the response is the task. */
async function answerTask(
  service: Service,
  request: FastifyRequest,
  reply: FastifyReply,
  tube: string,
  start: (shard: number) => Task,
): Promise<Static<typeof Affected> | Static<typeof TaskBody>> {
  requireServing(service);
  const shard = shardOf(service, tube);
  if ((await service.tubes.tube(tube, shard)) === undefined) throw noSuchTube(tube);
  const task = start(shard);
  if (wantsTask(request)) return toBeDone(task, reply);
  const soon = new Promise((resolve) => setTimeout(resolve, SOON_MS));
  await Promise.race([doneOrProblem(service, task, request), soon]);
  return task.state === "running" ? toBeDone(task, reply) : { affected: task.affected };
}

/** Answers with the task, whose state is all that the client learns of its end. */
function toBeDone(task: Task, reply: FastifyReply): Static<typeof TaskBody> {
  task.done.catch(() => {});
  reply.code(202).header("location", `/v1/tasks/${task.id}`);
  return taskView(task);
}

async function doneOrProblem(service: Service, task: Task, request: FastifyRequest): Promise<void> {
  try {
    await task.done;
  } catch (error) {
    if (!(error instanceof TaskRefused)) throw error;
    // The jobs before the refused one have been changed.
    request.affected = task.affected;
    const { code, message } = refused(error.refusal, service);
    throw new Problem(code, `${error.message}. ${message}`);
  }
}

const addDelete: Routes = (api, service) => {
  const Query = Type.Object({
    ...tubeQuery,
    force: Type.Optional(Type.Boolean({ description: "Reserved jobs, too." })),
  });
  const Deleted = Fields({
    deleted: Type.Integer(),
    exists: Type.Boolean(),
    users: Type.Integer(),
    watchers: Type.Integer(),
  });
  api.delete(
    "/v1/tubes/:tube",
    {
      config: may,
      schema: {
        summary: "Deletes all jobs of a tube, which disappears when no client uses or watches it",
        params: TubeParams,
        querystring: Query,
        response: answers({ 200: Deleted, 202: TaskBody }, 400, 404, 503),
      },
    },
    async (request, reply) => {
      requireServing(service);
      const tube = tubeOf(request.params, request.query);
      const shard = shardOf(service, tube);
      if ((await service.tubes.tube(tube, shard)) === undefined) throw noSuchTube(tube);
      const states: StateName[] = [
        "ready",
        "delayed",
        "buried",
        ...(request.query.force === true ? (["reserved"] as const) : []),
      ];
      const task = service.tasks.start(
        shard,
        questionOf(tube, "delete", states, { where: {}, max: undefined, dryRun: false }),
      );
      if (wantsTask(request)) return toBeDone(task, reply);
      await task.done;
      const left = await service.tubes.tube(tube, shard);
      const counts = left === undefined ? { users: 0, watchers: 0 } : countsOf(left);
      return { deleted: task.affected, exists: left !== undefined, ...counts };
    },
  );
};

const countsOf = (entry: TubeEntry): { users: number; watchers: number } => ({
  users: entry.get(TubeField.users),
  watchers: entry.get(TubeField.watchers),
});

const noSuchTube = (tube: string): Problem =>
  new Problem("tube-not-found", `No client uses or watches "${tube}", and it has no jobs.`);
