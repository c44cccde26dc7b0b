// Types of the server's answers, from the schemas of its API.

import type { Static, TObject } from "typebox";
import type * as schemas from "../../http/api/schemas.ts";

/** What every page knows. */
export type Health = Static<typeof schemas.Health>;
export type Server = Static<typeof schemas.Server>;
export type LogView = Static<typeof schemas.Log>;
export type Buckets = LogView["syncSeconds"];
export type Load = Static<TObject<typeof schemas.Load>>;
export type GroupView = Static<typeof schemas.Group>;
export type TubeRow = Static<typeof schemas.Tube>;
export type TubeTimes = NonNullable<TubeRow["times"]>;
export type JobCounts = Server["jobs"];
export type JobRow = Static<typeof schemas.Job>;
export type FinishedRow = Static<typeof schemas.Finished>;
export type FailureRow = JobRow["failures"][0];
export type ConnectionRow = Static<typeof schemas.Connection>;
export type TaskRow = Static<typeof schemas.TaskBody>;
export type ChangeRow = Static<typeof schemas.Change>;
export type ScheduleRow = Static<typeof schemas.ListedSchedule>;
export type ScheduleView = Static<typeof schemas.Schedule>;
export type BatchRow = Static<typeof schemas.Batch>;
export type Attention = Static<typeof schemas.Attention>;

/** A body; with neither field, it may not be seen or isn't loaded yet. */
export type BodyRow = Pick<JobRow, "bytes" | "body" | "bodyBase64" | "truncated">;

/** A list of which the server sends a page. */
export interface Counted<Row> {
  readonly items: readonly Row[];
  readonly total: number;
  readonly matched: number;
}

export interface TubesView {
  readonly health: Health;
  readonly tubes: Counted<TubeRow> & { readonly from: number };
}

export interface ListPage<Row> {
  readonly items: readonly Row[];
  readonly cursor: string | null;
}

export interface JobsPage extends ListPage<JobRow> {
  readonly examined: number;
}

/** A problem instead of the requested data. */
export interface Refused {
  readonly status: number;
  readonly detail: string;
}
