// Route of the group of servers that this server belongs to.

import { answers, type Routes } from "../api.ts";
import { Problem } from "../problem.ts";
import { Group } from "../schemas.ts";
import { groupView } from "./group-view.ts";

export const groupRoutes: Routes = (api, service) => {
  api.get(
    "/v1/group",
    {
      config: { may: "view", live: true },
      schema: { summary: "The group of servers that share a log", response: answers({ 200: Group }, 404) },
    },
    () => {
      const view = groupView(service);
      if (view === null)
        throw new Problem("no-group", "The server was started without --replicate: it is not in a group.");
      return view;
    },
  );
};
