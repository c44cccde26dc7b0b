// What a log in use begins with: its books, and where in it the next record goes.

import { RecordIndex } from "./record-index.ts";
import { type Segment, SegmentTable } from "./segment-table.ts";

/** What recovery hands over, or what an empty directory starts with. */
export interface LogState {
  table: SegmentTable;
  index: RecordIndex;
  /** The last sequence number in the log. */
  lastSequence: number;
  /** The oldest segment that counts. */
  oldest: number;
  /** Number of the first segment to be made, where the table has none. */
  first: number;
  /** Segments of the table without records, the first of them to be written next; at most two. */
  empty: Segment[];
}

/**
 * A log without records, whose first segment has the number `first`. Where it is to follow another log,
 * `oldest` is that one's oldest segment: all of it counts until a DROP in the new one is durable.
 */
export function emptyLog(first = 1, lastSequence = 0, maxId = 0, oldest = first): LogState {
  const table = new SegmentTable();
  const index = new RecordIndex(table);
  index.maxId = maxId;
  return { table, index, lastSequence, oldest, first, empty: [] };
}
