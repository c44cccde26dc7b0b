// Route of the audit log: the last manual changes.

import { type Static, Type } from "typebox";
import type { AuditLog } from "../../state/audit-log.ts";
import { answers, type Routes } from "../api.ts";
import { Fields } from "../schemas.ts";

const Nullable = (type: ReturnType<typeof Type.String>) => Type.Union([type, Type.Null()]);
const Item = Fields({
  at: Type.String({ description: "ISO 8601" }),
  who: Nullable(Type.String()),
  address: Nullable(Type.String()),
  way: Type.Enum(["protocol", "http", "dashboard"]),
  method: Type.String({ description: "Or the command, for a change over the protocol." }),
  route: Type.String({ description: "Empty for a command." }),
  what: Type.Record(Type.String(), Type.String()),
  affected: Type.Union([Type.Integer(), Type.Null()]),
  status: Type.Integer(),
});

export const auditRoutes: Routes = (api, service) => {
  api.get(
    "/v1/audit",
    {
      config: { may: "admin" },
      schema: {
        summary: "The last 500 manual changes, newest first",
        response: answers({ 200: Fields({ items: Type.Array(Item) }) }),
      },
    },
    async () => {
      // The latest commands of the protocol belong to the answer, unless an acceptor is too busy.
      await service.connections.heard().catch(() => {});
      return { items: auditItems(service.audit) };
    },
  );
};

/** Returns the changes, newest first. */
export const auditItems = (audit: AuditLog): Static<typeof Item>[] =>
  audit.latest.map(({ atMs, what, ...change }) => ({
    at: new Date(atMs).toISOString(),
    ...change,
    what: { ...what },
  }));
