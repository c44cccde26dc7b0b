// Dashboard views for operators: a job, connections, tasks and manual changes.

import { Value } from "typebox/value";
import type {
  ConnectionsView,
  Frame,
  JobPageView,
  JobRow,
  TasksView,
} from "../../../dashboard/parts/view-types.ts";
import { readinessOf } from "../../queue/health.ts";
import type { Service } from "../../queue/service.ts";
import { auditItems } from "../admin/audit-routes.ts";
import { Query as ConnectionsQuery, listConnections } from "../admin/connection-routes.ts";
import { taskView } from "../admin/task-routes.ts";
import { findJob, jobView } from "../jobs/job-routes.ts";
import { Problem } from "../problem.ts";
import { frameOf } from "./dashboard-frame.ts";

/** Ids are consecutive numbers; none reaches 16 digits. */
const ID = /^[0-9]{1,15}$/;

/**
 * Returns a job without its body. A body seldom changes, so pages request it by itself. `seesTexts`
 * is about the other texts.
 */
export async function jobPageView(
  service: Service,
  { id = "" }: Readonly<Record<string, string>>,
  seesTexts: boolean,
): Promise<JobPageView> {
  if (!ID.test(id)) throw new RangeError(`"${id}" is not the id of a job, which is a number`);
  const frame = frameOf(service);
  if (!readinessOf(service).ok) return { frame, job: null };
  try {
    const found = jobView(await findJob(service, Number(id), -1), service, { isMsgpack: false, seesTexts });
    return { frame, job: found as JobRow };
  } catch (error) {
    if (error instanceof Problem && error.code === "job-not-found") return { frame, job: null };
    throw error;
  }
}

/** Byte limit for long lists, so that the view stays small enough to send. */
const LIST_BYTES_MAX = 40 * 1024;

function fitting<T>(items: readonly T[]): T[] {
  let bytes = 0;
  return items.filter((item) => {
    bytes += Buffer.byteLength(JSON.stringify(item));
    return bytes <= LIST_BYTES_MAX;
  });
}

const SHOWN_OF_A_CONNECTION = 3;

export async function connectionsView(
  service: Service,
  given: Readonly<Record<string, string>>,
): Promise<ConnectionsView> {
  if (!Value.Check(ConnectionsQuery, given))
    throw new RangeError("known parameters are state, tube and sort");
  const frame = frameOf(service);
  if (!readinessOf(service).ok) return { frame, items: [], total: 0, matched: 0 };
  const { items, ...counts } = await listConnections(service, given);
  const short = items.map((each) => ({
    ...each,
    watches: each.watches.slice(0, SHOWN_OF_A_CONNECTION),
    holds: each.holds.slice(0, SHOWN_OF_A_CONNECTION),
  }));
  return { frame, items: fitting(short), ...counts };
}

export async function taskPageView(
  service: Service,
  { id = "" }: Readonly<Record<string, string>>,
): Promise<{ frame: Frame; task: object | null }> {
  const found = service.tasks.get(id);
  return { frame: frameOf(service), task: found === undefined ? null : taskView(found) };
}

const TASKS_SHOWN = 20;

/** Returns the running tasks, then the finished ones, newest first. */
export async function tasksView(service: Service): Promise<TasksView> {
  // A dry run of a dialog needs no mention once it has counted.
  const all = service.tasks.all.filter(({ act, state }) => act !== "count" || state === "running").reverse();
  const isRunning = ({ state }: { state: string }): boolean => state === "running";
  const sorted = [...all.filter(isRunning), ...all.filter((each) => !isRunning(each))];
  return { frame: frameOf(service), tasks: sorted.slice(0, TASKS_SHOWN).map(taskView) };
}

/** Returns the tasks and the manual changes. */
export async function auditView(service: Service): Promise<TasksView> {
  const all = auditItems(service.audit);
  return { ...(await tasksView(service)), changes: { items: fitting(all), total: all.length } };
}
