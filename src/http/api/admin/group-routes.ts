// Route of the group of servers that this server belongs to.

import { Type } from "typebox";
import { answers, type Routes } from "../api.ts";
import { Problem } from "../problem.ts";
import { Fields } from "../schemas.ts";
import { groupView } from "./group-view.ts";

const count = Type.Integer({ minimum: 0 });
const RoleName = Type.Union(
  ["starting", "standby", "opening", "primary"].map((name) => Type.Literal(name)),
  { description: "opening: it has the lead and loads its jobs." },
);

const Member = Fields({
  node: Type.String({ description: "8 hex digits, drawn when its directory was created." }),
  address: Type.String({ description: "What --replicate-as says." }),
  role: RoleName,
  epoch: count,
  batch: Type.Integer({ minimum: 0, description: "The last batch in its log." }),
  behindMessages: count,
  mayServe: Type.Boolean(),
  isComplete: Type.Boolean({ description: "Its log is complete, so it may take the lead." }),
  isThis: Type.Boolean(),
  pid: count,
  version: Type.String(),
});

const Group = Fields({
  name: Type.String(),
  role: RoleName,
  epoch: count,
  mayServe: Type.Boolean({ description: "It has the lead and the shared log answers." }),
  standbys: Type.Integer({ minimum: 0, description: "All standbys that answer, including this one." }),
  batch: count,
  pendingBatches: Type.Integer({
    minimum: 0,
    description: "Batches that the shared log has not acknowledged.",
  }),
  messagesUnderWay: count,
  behindMessages: Type.Integer({ minimum: 0, description: "Messages that a standby has not read yet." }),
  appends: count,
  appendMeanSeconds: Type.Union([Type.Number(), Type.Null()]),
  doubts: Type.Integer({ minimum: 0, description: "How often it had to read whether a message was stored." }),
  ignoredBatches: count,
  freezes: Type.Integer({ minimum: 0, description: "How often the shared log did not answer in time." }),
  sharedLog: Fields({ bytes: count, limit: Type.Integer({ minimum: 0, description: "0: none." }) }),
  members: Type.Array(Member, { description: "Servers that answered within the last seconds." }),
});

export const groupRoutes: Routes = (api, service) => {
  api.get(
    "/v1/group",
    {
      config: { may: "view" },
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
