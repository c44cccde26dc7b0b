// The group of this server, as the API shows it.

import type { Static } from "typebox";
import { GROUP_ROLES, GroupFigure, type GroupMember } from "../../../message/group.ts";
import { isFrozen } from "../../queue/health.ts";
import type { Service } from "../../queue/service.ts";
import type { Group } from "../schemas.ts";

/** The server asks for the members every two seconds, so older news may be of a dead member. */
const FRESH_MS = 10_000;

/** Returns null without --replicate. */
export function groupView(service: Service): Static<typeof Group> | null {
  const group = service.topology.binlog?.group;
  if (group === undefined) return null;
  const figures = new Float64Array(group.figures);
  const at = (figure: number): number => figures[figure]!;
  const { state } = service;
  const role = GROUP_ROLES[at(GroupFigure.Role)] ?? "starting";
  const members = membersOf(service);
  const appends = at(GroupFigure.Appends);
  return {
    name: state.group?.group ?? "",
    role,
    epoch: at(GroupFigure.Epoch),
    mayServe: role === "primary" && !isFrozen(service),
    standbys: members.filter((member) => member.role === "standby").length,
    batch: at(GroupFigure.Batch),
    pendingBatches: at(GroupFigure.PendingBatches),
    messagesUnderWay: at(GroupFigure.MessagesUnderWay),
    behindMessages: at(GroupFigure.Behind),
    appends,
    appendMeanSeconds: appends === 0 ? null : at(GroupFigure.AppendMs) / 1000 / appends,
    doubts: at(GroupFigure.Doubts),
    ignoredBatches: at(GroupFigure.Ignored),
    freezes: at(GroupFigure.Freezes),
    sharedLog: { bytes: at(GroupFigure.LogBytes), limit: at(GroupFigure.LogLimitBytes) },
    members: members.toSorted(byAddress).map((member) => ({
      node: member.node.toString(16).padStart(8, "0"),
      address: member.address,
      role: member.role,
      epoch: member.epoch,
      batch: member.n,
      behindMessages: member.behind,
      mayServe: member.mayServe,
      isComplete: member.isComplete,
      isThis: member.node === state.group?.node,
      pid: member.pid,
      version: member.version,
    })),
  };
}

function membersOf({ state: { group }, nowMs }: Service): readonly GroupMember[] {
  return group !== undefined && nowMs() - group.atMs <= FRESH_MS ? group.members : [];
}

const byAddress = (a: GroupMember, b: GroupMember): number =>
  a.address < b.address ? -1 : a.address > b.address ? 1 : a.node - b.node;
