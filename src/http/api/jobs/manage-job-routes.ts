// Routes for operators to delete, kick, release, move and change single jobs.

import { Type } from "typebox";
import type { Answers, Questions } from "../../../message/control.ts";
import { UNKNOWN_SHARD } from "../../../ring/job-directory.ts";
import type { Service } from "../../queue/service.ts";
import { answers, type Routes, requireServing, tubeOf } from "../api.ts";
import { Problem } from "../problem.ts";
import { Fields, JobParams } from "../schemas.ts";
import { noSuchJob } from "./job-routes.ts";
import { JobUpdate, requireSomething } from "./job-set.ts";

const may = { may: "manage" } as const;

type Act = Questions["job-act"]["act"];

export const manageJobRoutes: Routes = (api, service) => {
  addActs(api, service);
  addChanges(api, service);
};

const addActs: Routes = (api, service) => {
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
      await act(service, request.params.id, "delete", { force: request.query.force });
      reply.code(204);
      return null;
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
              : "Ends a reservation, as a timeout would",
          params: JobParams,
          response: answers({ 200: Fields({ id: Type.Integer() }) }, 404, 409, 503),
        },
      },
      async (request) => {
        const { id } = request.params;
        await act(service, id, what);
        return { id };
      },
    );
  }
};

const addChanges: Routes = (api, service) => {
  api.post(
    "/v1/jobs/:id/move",
    {
      config: may,
      schema: {
        summary: "Moves a job to another tube",
        params: JobParams,
        body: Fields({ to: Type.String() }),
        response: answers({ 200: Fields({}) }, 400, 404, 409, 503, 507),
      },
    },
    async (request) => {
      await act(service, request.params.id, "move", { to: tubeOf({ tube: "-" }, { tube: request.body.to }) });
      return {};
    },
  );
  api.post(
    "/v1/jobs/:id/update",
    {
      config: may,
      schema: {
        summary: "Changes priority, delay, time to run or tube of a job that is not reserved",
        params: JobParams,
        body: JobUpdate,
        response: answers({ 200: Fields({}) }, 400, 404, 409, 503, 507),
      },
    },
    async (request) => {
      requireServing(service);
      requireSomething(request.body, "pri, delay, ttr and tube");
      const { id } = request.params;
      const { tube } = request.body;
      if (tube !== undefined) tubeOf({ tube: "-" }, { tube });
      const options = Object.entries(request.body).map(([name, value]) => `${name}=${value}`);
      await update(service, id, options.join(" "), tube);
      return {};
    },
  );
};

/** Sends `update-job`, as a client would. */
async function update(service: Service, id: number, options: string, to = ""): Promise<void> {
  const { line } = await service.wire.command(`update-job ${id} ${options}`);
  if (line === "UPDATED") return;
  if (line === "TUBE_FULL") throw problemOf("full", id, "move", to);
  if (line === "OUT_OF_MEMORY") throw new Problem("out-of-memory", `The target has no memory for job ${id}.`);
  if ((await service.wire.stats(`stats-job ${id}`)) === undefined) throw noSuchJob(id);
  throw problemOf("reserved", id, "move", to);
}

/** Asks the shard that has the job, or all of them. Throws unless the act is done. */
async function act(
  service: Service,
  id: number,
  what: Act,
  { force = false, to }: { force?: boolean | undefined; to?: string } = {},
): Promise<void> {
  requireServing(service);
  const { control, core, topology } = service;
  const entry = core.places.jobEntry(id);
  const shard = core.places.shardOfJob(id);
  const question = { id, act: what, force, ...(to === undefined ? {} : { to }) };
  const shards =
    shard === UNKNOWN_SHARD ? Array.from({ length: topology.shards }, (_, each) => each) : [shard];
  const outcomes = await Promise.all(shards.map((each) => control.ask(each, "job-act", question)));
  const outcome = outcomes.find((each) => each !== "not-found") ?? "not-found";
  // The job has moved to another shard in the meantime.
  if (outcome === "not-found" && core.places.jobEntry(id) !== entry)
    return act(service, id, what, { force, ...(to === undefined ? {} : { to }) });
  if (outcome === "elsewhere") return update(service, id, `tube=${to}`, to);
  if (outcome !== "done") throw problemOf(outcome, id, what, to);
}

function problemOf(
  outcome: Exclude<Answers["job-act"], "elsewhere">,
  id: number,
  what: Act,
  to: string | undefined,
): Problem {
  if (outcome === "not-found") return noSuchJob(id);
  if (outcome === "full")
    return new Problem("tube-full", `"${to}" has as many jobs or bytes as its settings allow.`);
  if (outcome === "reserved")
    return new Problem(
      "job-reserved",
      `A worker holds job ${id}${what === "delete" ? "; ?force=true deletes it anyway" : ""}.`,
    );
  return new Problem(
    "job-state",
    what === "kick" ? `Job ${id} is neither buried nor delayed.` : `No worker holds job ${id}.`,
  );
}
