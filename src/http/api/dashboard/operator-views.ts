// Views of what operators look after: a job, connections, tasks, and who changed what by hand.

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

/** Ids are counted; no job has had one of more digits. */
const ID = /^[0-9]{1,15}$/;

/** A job without its body, which never changes: pages ask for that once. */
export async function jobPageView(
  service: Service,
  { id = "" }: Readonly<Record<string, string>>,
): Promise<JobPageView> {
  if (!ID.test(id)) throw new RangeError("a job is asked for by its id");
  const frame = frameOf(service);
  if (!readinessOf(service).ok) return { frame, job: null, holderAddress: null };
  try {
    const found = jobView(await findJob(service, Number(id), -1), service, false);
    return { frame, job: found as JobRow, holderAddress: await addressOf(service, found.holder) };
  } catch (error) {
    if (error instanceof Problem && error.code === "job-not-found")
      return { frame, job: null, holderAddress: null };
    throw error;
  }
}

/** Of the connection that holds a job, "acceptor.slot". */
async function addressOf(service: Service, holder: string | null): Promise<string | null> {
  if (holder === null || holder === "lease") return null;
  const open = await service.connections.list();
  const found = open.find(({ acceptor, slot }) => `${acceptor}.${slot}` === holder);
  return found?.peer ?? null;
}

/** Of lists that may be long a view has as many as make so many bytes, so that it can be sent. */
const LIST_BYTES_MAX = 40 * 1024;

function fitting<T>(items: readonly T[]): T[] {
  let bytes = 0;
  return items.filter((item) => {
    bytes += JSON.stringify(item).length;
    return bytes <= LIST_BYTES_MAX;
  });
}

const SHOWN_OF_A_CONNECTION = 3;

export async function connectionsView(
  service: Service,
  given: Readonly<Record<string, string>>,
): Promise<ConnectionsView> {
  if (!Value.Check(ConnectionsQuery, given))
    throw new RangeError("state, tube and sort are what can be asked");
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

/** Those under way first, then the last that have ended. */
export async function tasksView(service: Service): Promise<TasksView> {
  const all = service.tasks.all.toReversed();
  const isRunning = ({ state }: { state: string }): boolean => state === "running";
  const sorted = [...all.filter(isRunning), ...all.filter((each) => !isRunning(each))];
  return { frame: frameOf(service), tasks: sorted.slice(0, TASKS_SHOWN).map(taskView) };
}

/** Tasks, and the changes that somebody made by hand. */
export async function auditView(service: Service): Promise<TasksView> {
  const all = auditItems(service.audit);
  return { ...(await tasksView(service)), changes: { items: fitting(all), total: all.length } };
}
