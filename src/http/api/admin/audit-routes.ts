// Route of the audit log: the last manual changes.

import { Type } from "typebox";
import { answers, type Routes } from "../api.ts";
import { Change, Fields } from "../schemas.ts";

export const auditRoutes: Routes = (api, service) => {
  api.get(
    "/v1/audit",
    {
      config: { may: "admin", live: true },
      schema: {
        summary: "The last 500 manual changes, newest first",
        querystring: Type.Object({
          limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, description: "500 by default." })),
        }),
        response: answers({ 200: Fields({ items: Type.Array(Change), total: Type.Integer() }) }, 400),
      },
    },
    async ({ query: { limit } }) => {
      // The latest commands of the protocol belong to the answer, unless an acceptor is too busy.
      await service.connections.heard().catch(() => {});
      const { latest } = service.audit;
      const items = latest.slice(0, limit).map(({ atMs, what, ...change }) => ({
        at: new Date(atMs).toISOString(),
        ...change,
        what: { ...what },
      }));
      return { items, total: latest.length };
    },
  );
};
