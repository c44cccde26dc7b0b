// What an operator does: pauses, kicks and clears tubes, and deletes, kicks and releases single jobs.

import type { FastifyReply, FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { type BulkQuestion, type Questions, type StateName, TubeField } from "../../message/control.ts";
import { UNKNOWN_SHARD } from "../../ring/job-directory.ts";
import type { Service } from "../queue/service.ts";
import type { TubeEntry } from "../queue/tube-book.ts";
import { answeredOnce } from "./answered-once.ts";
import { answers, type Routes, requireServing, shardOf, tubeOf } from "./api.ts";
import { noSuchJob } from "./job-routes.ts";
import { Problem } from "./problem.ts";
import { Fields, JobParams, TubeParams, tubeQuery } from "./schemas.ts";
import { TaskBody, taskView } from "./task-routes.ts";
import { States, WhereBody, whereOf } from "./where-schema.ts";

const may = { may: "manage" } as const;
/** A task that is done so soon is answered as such, ms. */
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
  addDelete(api, service);
  addJob(api, service);
};

const addPause: Routes = (api, service) => {
  const pause = async (tube: string, seconds: number): Promise<{ seconds: number }> => {
    requireServing(service);
    const { line } = await service.wire.command(`pause-tube ${tube} ${seconds}`);
    if (line !== "PAUSED") throw noSuchTube(tube);
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
      schema: { summary: "Lets nobody reserve from a tube for a while", body: Seconds, ...schema },
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
        summary: "Deletes jobs of a tube, those that are reserved only if they are named",
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

function questionOf(
  tube: string,
  act: BulkQuestion["act"],
  states: readonly StateName[],
  {
    where,
    max,
    dryRun,
  }: { where: Static<typeof WhereBody>; max: number | undefined; dryRun: boolean | undefined },
): BulkQuestion {
  return {
    tube,
    act: dryRun === true ? "count" : act,
    states,
    where: whereOf(where),
    max: max ?? Number.MAX_SAFE_INTEGER,
  };
}

/** Waits a moment for the end of a task: if it has not come by then, the task is the answer. */
async function bulk(
  service: Service,
  request: FastifyRequest,
  reply: FastifyReply,
  question: BulkQuestion,
): Promise<Static<typeof Affected> | Static<typeof TaskBody>> {
  requireServing(service);
  const shard = shardOf(service, question.tube);
  if ((await service.tubes.tube(question.tube, shard)) === undefined) throw noSuchTube(question.tube);
  const { status, payload } = await answeredOnce(request, service, async () => {
    const task = service.tasks.start(shard, question);
    const soon = new Promise((resolve) => setTimeout(resolve, SOON_MS));
    await Promise.race([task.done, soon]);
    return task.state === "running"
      ? { status: 202, payload: taskView(task) }
      : { status: 200, payload: { affected: task.affected } };
  });
  reply.code(status);
  if ("id" in payload) reply.header("location", `/v1/tasks/${payload.id}`);
  return payload;
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
        summary: "Deletes all jobs of a tube; it is gone when nobody uses or watches it",
        params: TubeParams,
        querystring: Query,
        response: answers({ 200: Deleted }, 400, 404, 503),
      },
    },
    async (request) => {
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
      await task.done;
      const left = await service.tubes.tube(tube, shard);
      const counts = left === undefined ? { users: 0, watchers: 0 } : countsOf(left);
      return { deleted: task.affected, exists: left !== undefined, ...counts };
    },
  );
};

const countsOf = (entry: TubeEntry): { users: number; watchers: number } => ({
  users: entry.get(TubeField.Users),
  watchers: entry.get(TubeField.Watchers),
});

const addJob: Routes = (api, service) => {
  const act = async (id: number, what: Questions["job-act"]["act"], force = false): Promise<void> => {
    requireServing(service);
    const shard = service.core.shardOfJob(id);
    const question = { id, act: what, force };
    const shards =
      shard === UNKNOWN_SHARD ? Array.from({ length: service.topology.shards }, (_, each) => each) : [shard];
    const outcomes = await Promise.all(shards.map((each) => service.control.ask(each, "job-act", question)));
    const outcome = outcomes.find((each) => each !== "not-found") ?? "not-found";
    if (outcome === "not-found") throw noSuchJob(id);
    if (outcome === "reserved")
      throw new Problem("job-reserved", `Somebody holds job ${id}; ?force=true deletes it nevertheless.`);
    if (outcome === "state")
      throw new Problem(
        "job-state",
        what === "kick" ? `Job ${id} is neither buried nor delayed.` : `Nobody holds job ${id}.`,
      );
  };
  const Force = Type.Object({ force: Type.Optional(Type.Boolean()) });
  api.delete(
    "/v1/jobs/:id",
    {
      config: may,
      schema: {
        summary: "Deletes a job",
        params: JobParams,
        querystring: Force,
        response: answers({ 204: Type.Null() }, 404, 409, 503),
      },
    },
    async (request, reply) => {
      await act(request.params.id, "delete", request.query.force);
      return reply.code(204).send();
    },
  );
  for (const what of ["kick", "release"] as const) {
    api.post(
      `/v1/jobs/:id/${what}`,
      {
        config: may,
        schema: {
          summary:
            what === "kick"
              ? "Makes a buried or delayed job ready"
              : "Ends a reservation as its time to run would",
          params: JobParams,
          response: answers({ 200: Fields({}) }, 404, 409, 503),
        },
      },
      async (request) => {
        await act(request.params.id, what);
        return {};
      },
    );
  }
};

const noSuchTube = (tube: string): Problem =>
  new Problem("tube-not-found", `Nobody uses or watches "${tube}", and it has no jobs.`);
