// Route that reloads the configuration, as SIGHUP does.

import { Type } from "typebox";
import type { ReloadClient } from "../../queue/reload-client.ts";
import { answers, type Routes } from "../api.ts";
import { Problem } from "../problem.ts";
import { Fields } from "../schemas.ts";

const Reloaded = Fields({
  changed: Type.Array(Type.String(), {
    description: 'Keys that took effect, and what is new in files: "token ann removed".',
  }),
  needsRestart: Type.Array(Type.String(), { description: "Keys that take effect after a restart." }),
});

export const reloadRoutes =
  (client: ReloadClient): Routes =>
  (api) => {
    api.post(
      "/v1/server/reload",
      {
        config: { may: "admin" },
        schema: {
          summary: "Reloads configuration, tokens and certificates: all of them, or none",
          response: answers({ 200: Reloaded }, 422),
        },
      },
      async () => {
        const outcome = await client.reload();
        if ("faults" in outcome)
          throw new Problem("bad-config", `Everything stays as it was: ${outcome.faults}`);
        return { changed: [...outcome.changed], needsRestart: [...outcome.needsRestart] };
      },
    );
  };
