// The ends of jobs that tubes keep: see set-tube keep-finished.

import { type Static, Type } from "typebox";
import type { FinishedFacts } from "../../message/control.ts";
import { answers, maySeeTexts, type Routes, requireServing, tubeOf } from "../api/api.ts";
import { decodeCursor, encodeCursor } from "../api/parameters.ts";
import { reportList, textOf, utf8Of } from "../api/protocol-reports.ts";
import { Fields, Finished, TubeParams, tubeQuery } from "../api/schemas.ts";
import type { Service } from "../queue/service.ts";
import { refused } from "./put-routes.ts";

const LIMIT = 100;
const LIMIT_MAX = 1000;

const Page = Fields({
  items: Type.Array(Finished),
  cursor: Type.Union([Type.String(), Type.Null()]),
});

export const finishedRoutes: Routes = (api, service) => {
  api.get(
    "/v1/tubes/:tube/finished",
    {
      config: { may: "view" },
      schema: {
        summary: "The last jobs of a tube that have ended, newest first, if it has keep-finished",
        params: TubeParams,
        querystring: Type.Object(
          {
            ...tubeQuery,
            limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
            cursor: Type.Optional(Type.String({ maxLength: 200 })),
          },
          { additionalProperties: false },
        ),
        response: answers({ 200: Page }, 400, 503),
      },
    },
    async (request) => {
      requireServing(service);
      const { limit = LIMIT, cursor } = request.query;
      const tube = tubeOf(request.params, request.query);
      const before = cursor === undefined ? "" : ` before=${Number(decodeCursor(cursor, ["number"])[0])}`;
      const { line, body } = await service.wire.command(`finished-jobs ${tube}${before} limit=${limit}`);
      if (body === undefined) throw refused(line, service);
      const { next, items } = reportList<FinishedFacts>(body);
      return {
        items: items.map((facts) => finishedView({ ...facts, tube }, service, maySeeTexts(request))),
        cursor: next === "0" ? null : encodeCursor([Number(next)]),
      };
    },
  );
};

/** Returns the last end of a job, from any shard; undefined if no tube keeps it. */
export async function finishedJob(
  service: Service,
  id: number,
  seesTexts: boolean,
): Promise<Static<typeof Finished> | undefined> {
  const found = (await service.control.askAll("finished", { id })).filter((facts) => facts !== null);
  const last = found.toSorted((a, b) => a.end - b.end)[0];
  return last === undefined ? undefined : finishedView(last, service, seesTexts);
}

function finishedView(
  facts: FinishedFacts & { readonly tube: string },
  { wallMs }: Pick<Service, "wallMs">,
  seesTexts: boolean,
): Static<typeof Finished> {
  const now = wallMs();
  const at = (ago: number): string => new Date(now - ago * 1000).toISOString();
  const { id, tube, state, put, start, end, attempts, worker, unique, group, note, reason } = facts;
  const text = (value: string | undefined, decoded = textOf): string | null =>
    value === undefined || !seesTexts ? null : decoded(value);
  return {
    ...{ id, tube, state, put: at(put), start: start === undefined ? null : at(start), end: at(end) },
    ...{ attempts, worker: worker === undefined ? null : textOf(worker) },
    ...{ unique: text(unique, utf8Of), group: text(group, utf8Of), note: text(note), reason: text(reason) },
  };
}
